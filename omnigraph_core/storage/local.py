"""Control objects as files in a local directory.

Fault model: the process may be killed between any two system calls, and the power
may fail at any time, losing whatever was not synced (see `sync`).

- A new version is written to a temporary file beside its target and synced before
  it gets its name, by `link` (create: fails if the name is taken) or `rename`. Then
  the directory is synced. A kill leaves the old or the new bytes, and at worst a
  temporary file that nobody lists.
- Files are never written in place, so bytes and e-tag read through one descriptor
  belong together.
- `replace`, `put` and `delete` hold a lock on the directory from the comparison to
  the rename (`folder_lock`). `create` needs none: `link` decides.
- E-tags (`local_version`) tell two versions with the same bytes apart, because each gets a
  modification time of its own.

Nothing is reached through a link, and nothing but plain files is read (see `inside`).

Network file systems that lack `flock` on directories (NFS) are refused by the error
of that call; they would not carry our locks either.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from omnigraph_core import faults
from omnigraph_core.limits import LOCK_TIMEOUT_DEFAULT_S
from omnigraph_core.storage.control import (
    TEMPORARY_PREFIX,
    ControlObject,
    Guard,
    InvalidObjectPath,
    Names,
    ObjectChanged,
    ObjectExists,
    Stored,
    checked_path,
    unguarded,
)
from omnigraph_core.storage.failures import ABSENT, translated
from omnigraph_core.storage.folder_lock import lock_folder
from omnigraph_core.storage.inside import (
    directory,
    entries_below,
    is_directory,
    open_directory,
    open_inside,
    share_with_group,
)
from omnigraph_core.storage.local_version import FileVersion, e_tag_of, read_named, read_version, write_all
from omnigraph_core.storage.sync import Syncer

T = TypeVar("T")

_NAME = attrgetter("name")


class LocalControlStore:
    """The `ControlStore` of a directory; safe between threads and between processes."""

    def __init__(self, root: Path, syncer: Syncer, *, timeout_s: float = LOCK_TIMEOUT_DEFAULT_S) -> None:
        """`timeout_s`: how long to wait for another process that is replacing a file."""
        self._root = root
        self._timeout_s = timeout_s
        self._top = str(root)
        self._syncer = syncer
        self._durable: set[Path] = set()

    def probe(self) -> None:
        """A local disk answers by itself."""

    def get(self, path: str) -> ControlObject | None:
        file = self._file(path)
        with translated("read", file):
            try:
                version = read_version(open_inside(self._top, path))
            except ABSENT:
                return None
        return ControlObject(version.data, version.e_tag)

    def create(self, path: str, data: bytes, guard: Guard = unguarded) -> str:
        file = self._file(path)
        guard()
        with translated("create", file), self._made_parent(path) as directory:
            with self._temporary("create", directory, file, data, after_ns=0) as (temporary, e_tag):
                try:
                    os.link(temporary, file.name, src_dir_fd=directory, dst_dir_fd=directory)
                except FileExistsError:
                    raise ObjectExists(path) from None
                faults.hit("control.create.visible")
            self._syncer.flush(directory, file.parent)
        return e_tag

    def replace(self, path: str, data: bytes, e_tag: str) -> str:
        file = self._file(path)
        try:
            with translated("replace", file), self._locked(path) as directory:
                current = read_named(file, directory)
                if current is None or current.e_tag != e_tag:
                    raise ObjectChanged(path)
                return self._write_over("replace", directory, file, data, current)
        except _ParentMissing:
            raise ObjectChanged(path) from None

    def put(self, path: str, data: bytes) -> str:
        file = self._file(path)
        with translated("write", file), self._made_parent(path) as directory:
            lock_folder(directory, file.parent, self._timeout_s)
            return self._write_over("put", directory, file, data, read_named(file, directory))

    def copy(self, path: str, to: str) -> None:
        import shutil

        target = self._file(to)
        self._file(path)
        with translated("copy", target), open(open_inside(self._top, path), "rb") as given:
            new = open_inside(self._top, to, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            with open(new, "wb") as made:
                shutil.copyfileobj(given, made)

    def list(self, prefix: str) -> Names:
        return sorted(self._listed(prefix, _NAME))

    def written_at(self, prefix: str) -> Mapping[str, float]:
        return dict(self._listed(prefix, lambda entry: (entry.name, _modified_s(entry))))

    def _listed(self, prefix: str, told: Callable[[os.DirEntry[str]], T]) -> Sequence[T]:
        """Of every entry that is no directory. Whether one can be read is for its reader to say.

        A directory in the place of a record hides it: that is for its reader to say, too.
        """
        folder = self._file(prefix) if prefix else self._root
        with translated("list", folder):
            try:
                with directory(self._top, prefix) as opened, os.scandir(opened) as found:
                    # Inline: a folder may hold the records of a thousand branches.
                    return [
                        told(entry)
                        for entry in found
                        if not (name := entry.name).startswith(TEMPORARY_PREFIX)
                        and (name.endswith(".json") or not entry.is_dir(follow_symlinks=False))
                    ]
            except ABSENT:
                return []

    def delete(self, path: str, guard: Guard = unguarded) -> None:
        file = self._file(path)
        guard()
        with suppress(_ParentMissing), translated("delete", file), self._locked(path) as directory:
            with suppress(FileNotFoundError):
                os.unlink(file.name, dir_fd=directory)
            faults.hit("control.delete.gone")

    def list_prefix(self, prefix: str) -> Names:
        return sorted(self._below(prefix))

    def listing(self, prefix: str) -> Mapping[str, Stored]:
        return dict(self._stored(self._below(prefix)))

    def temporaries(self) -> Mapping[str, Stored]:
        with translated("list", self._root):
            found = list(entries_below(self._top, ""))
        return dict(self._stored(path for path in found if not _is_listed(path.rpartition("/")[2])))

    def delete_temporary(self, path: str) -> None:
        folder, slash, name = path.rpartition("/")
        if _is_listed(name) or "\0" in name or (slash and not checked_path(folder)):
            raise InvalidObjectPath(path)
        self._unlink(path)

    def _below(self, prefix: str) -> Names:
        with translated("list", self._file(prefix)):
            found = entries_below(self._top, prefix)
            return [path for path in found if _is_listed(path.rpartition("/")[2])]

    def _stored(self, paths: Iterable[str]) -> Iterator[tuple[str, Stored]]:
        """What is there of these files; a writer may have removed some meanwhile."""
        for path in sorted(paths):
            with suppress(*ABSENT):
                found = os.stat(self._root / path, follow_symlinks=False)
                yield path, Stored(found.st_size, found.st_mtime)

    def delete_many(self, paths: Sequence[str], guard: Guard = unguarded) -> None:
        guard()
        folders = {self._file(path).parent for path in paths}
        self._durable.clear()
        for path in paths:
            self._unlink(path)
        for folder in folders:
            self._remove_empty(folder.relative_to(self._root).as_posix())

    def _unlink(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        with (
            translated("delete", self._root / path),
            suppress(*ABSENT),
            directory(self._top, folder, passing=True) as opened,
        ):
            os.unlink(name, dir_fd=opened)

    def _remove_empty(self, folder: str) -> None:
        """Remove the folder and the parents that it leaves empty, up to the root."""
        while folder not in ("", "."):
            parent, _, name = folder.rpartition("/")
            try:
                with directory(self._top, parent, passing=True) as opened:
                    os.rmdir(name, dir_fd=opened)
            except FileNotFoundError:
                pass
            except OSError:  # Not empty, or somebody puts something there at this moment.
                return
            folder = parent

    def delete_prefix(self, prefix: str, guard: Guard = unguarded) -> None:
        import shutil

        guard()
        folder = self._file(prefix)
        parent, _, name = prefix.rpartition("/")
        self._durable.clear()
        with (
            translated("delete", folder),
            suppress(*ABSENT),
            directory(self._top, parent, passing=True) as opened,
        ):
            while is_directory(name, opened, str(folder)):
                # Not found: a rival deleter was faster on some file; go on with the rest.
                with suppress(FileNotFoundError):
                    shutil.rmtree(name, dir_fd=opened)

    def exists(self, path: str) -> bool:
        return self.size(path) is not None

    def size(self, path: str) -> int | None:
        file = self._file(path)
        with translated("read", file):
            try:
                found = os.stat(file, follow_symlinks=False)
            except ABSENT:
                return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def digest(self, path: str) -> str | None:
        file = self._file(path)
        with translated("read", file):
            try:
                with open(open_inside(self._top, path), "rb") as stream:
                    return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()
            except ABSENT:
                return None

    def entries(self) -> Names:
        with translated("list", self._root):
            try:
                return sorted(name for name in os.listdir(self._root) if _is_listed(name))
            except FileNotFoundError:
                return []

    def is_empty(self) -> bool:
        return not self.entries()

    def _file(self, path: str) -> Path:
        return self._root / checked_path(path)

    @contextmanager
    def _made_parent(self, path: str) -> Iterator[int]:
        """The directory of an object, open; it exists, durably.

        Found is not the same as durable: a rival may have created it a moment ago
        and not synced it yet. So the names leading to it from the root are synced
        once in the life of this store, whoever made them.

        A directory that is removed meanwhile takes no new names, so a write into it
        fails instead of succeeding in a place nobody can see.
        """
        inside = path.rpartition("/")[0]
        folder = self._root / inside
        try:
            opened = open_directory(self._top, inside)
            is_durable = folder in self._durable
        except FileNotFoundError:
            self._make_directories(inside)
            opened, is_durable = open_directory(self._top, inside), False
        try:
            if not is_durable:
                above = [parent for parent in folder.parents if parent.is_relative_to(self._root)]
                self._syncer.barrier(dirs=above)
                self._durable.add(folder)
            yield opened
        finally:
            os.close(opened)

    def _make_directories(self, inside: str) -> None:
        """One after the other, so that each is known to be no link before the next is made in it."""
        self._syncer.make_directories(self._root)
        made = ""
        for name in inside.split("/") if inside else ():
            with directory(self._top, made) as opened, suppress(FileExistsError):
                os.mkdir(name, dir_fd=opened)
                with directory(self._top, f"{made}/{name}" if made else name) as new:
                    share_with_group(new, self._top)
                self._syncer.flush(opened, self._root / made)
            made = f"{made}/{name}" if made else name

    @contextmanager
    def _locked(self, path: str) -> Iterator[int]:
        """The open directory of an object, locked against every other; closing it unlocks."""
        try:
            opened = open_directory(self._top, path.rpartition("/")[0])
        except ABSENT:
            raise _ParentMissing from None
        try:
            lock_folder(opened, self._file(path).parent, self._timeout_s)
            yield opened
        finally:
            os.close(opened)

    def _write_over(self, verb: str, directory: int, file: Path, data: bytes, old: FileVersion | None) -> str:
        """Rename a new version into place; the directory must be locked."""
        after_ns = old.mtime_ns if old else 0
        with self._temporary(verb, directory, file, data, after_ns) as (temporary, e_tag):
            os.rename(temporary, file.name, src_dir_fd=directory, dst_dir_fd=directory)
            faults.hit(f"control.{verb}.visible")
        self._syncer.flush(directory, file.parent)
        return e_tag

    @contextmanager
    def _temporary(
        self, verb: str, directory: int, file: Path, data: bytes, after_ns: int
    ) -> Iterator[tuple[str, str]]:
        """A synced temporary file with `data`, and the e-tag it will have; its name is gone afterwards."""
        name = TEMPORARY_PREFIX + os.urandom(8).hex()
        descriptor = os.open(
            name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=directory
        )
        try:
            try:
                write_all(descriptor, data)
                mtime_ns = max(time.time_ns(), after_ns + 1)
                os.utime(descriptor, ns=(mtime_ns, mtime_ns))
                faults.hit(f"control.{verb}.written")
                self._syncer.flush(descriptor, file)
                e_tag = e_tag_of(data, os.fstat(descriptor))
            finally:
                os.close(descriptor)
            faults.hit(f"control.{verb}.synced")
            yield name, e_tag
        finally:
            with suppress(OSError):
                os.unlink(name, dir_fd=directory)


class _ParentMissing(Exception):
    """The directory of an object does not exist, so neither does the object."""


def _is_listed(name: str) -> bool:
    return not name.startswith(TEMPORARY_PREFIX)


def _modified_s(entry: os.DirEntry[str]) -> float:
    """A file that has gone since it was listed counts as written now: it is nobody's to remove."""
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return time.time()
