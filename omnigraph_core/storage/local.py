"""Control objects as files in a local directory.

Fault model: the process may be killed between any two system calls, and the power
may fail at any time, losing whatever was not synced (see `sync`).

- A new version is written to a temporary file beside its target and synced before
  it gets its name, by `link` (create: fails if the name is taken) or `rename`. Then
  the directory is synced. A kill leaves the old or the new bytes, and at worst a
  temporary file that nobody lists.
- Files are never written in place, so bytes and e-tag read through one descriptor
  belong together.
- `replace`, `put` and `delete` hold a `flock` on the directory from the comparison
  to the rename. It belongs to the open directory, so threads exclude each other
  too, and the kernel frees it on kill. `create` needs none: `link` decides.
- An e-tag is the hash of the bytes, the inode and the modification time. Inodes are
  reused and the kernel's clock ticks in milliseconds, so the time is set by us, in
  nanoseconds and always later than the version written over: the same bytes written
  twice have two e-tags.

Network file systems that lack `flock` on directories (NFS) are refused by the error
of that call; they would not carry our locks either.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from omnigraph_core import faults
from omnigraph_core.records import dataclass
from omnigraph_core.storage.control import (
    TEMPORARY_PREFIX,
    ControlObject,
    InvalidObjectPath,
    Names,
    ObjectChanged,
    ObjectExists,
    Stored,
    checked_path,
)
from omnigraph_core.storage.failures import ABSENT, translated
from omnigraph_core.storage.sync import Syncer


@dataclass(frozen=True, slots=True)
class _Version:
    """One version of a file as read from disk."""

    data: bytes
    e_tag: str
    mtime_ns: int


class LocalControlStore:
    """The `ControlStore` of a directory; safe between threads and between processes."""

    def __init__(self, root: Path, syncer: Syncer) -> None:
        self._root = root
        self._syncer = syncer
        self._durable: set[Path] = set()

    def probe(self) -> None:
        """A local disk answers by itself."""

    def get(self, path: str) -> ControlObject | None:
        file = self._file(path)
        with translated("read", file):
            version = _read(file)
        return ControlObject(version.data, version.e_tag) if version else None

    def create(self, path: str, data: bytes) -> str:
        file = self._file(path)
        self._make_parent(file)
        with translated("create", file), _opened(file.parent) as directory:
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
            with translated("replace", file), _locked(file.parent) as directory:
                current = _read(file.name, directory)
                if current is None or current.e_tag != e_tag:
                    raise ObjectChanged(path)
                return self._write_over("replace", directory, file, data, current)
        except _ParentMissing:
            raise ObjectChanged(path) from None

    def put(self, path: str, data: bytes) -> str:
        file = self._file(path)
        self._make_parent(file)
        with translated("write", file), _locked(file.parent) as directory:
            return self._write_over("put", directory, file, data, _read(file.name, directory))

    def copy(self, path: str, to: str) -> None:
        import shutil

        source, target = self._file(path), self._file(to)
        with translated("copy", target), open(source, "rb") as given, open(target, "xb") as made:
            shutil.copyfileobj(given, made)

    def list(self, prefix: str) -> Names:
        folder = self._file(prefix) if prefix else self._root
        with translated("list", folder):
            try:
                with os.scandir(folder) as found:
                    return sorted(entry.name for entry in found if _is_listed(entry.name) and entry.is_file())
            except ABSENT:
                return []

    def written_at(self, prefix: str) -> Mapping[str, float]:
        folder = self._file(prefix) if prefix else self._root
        with translated("list", folder):
            try:
                with os.scandir(folder) as found:
                    entries = [entry for entry in found if _is_listed(entry.name) and entry.is_file()]
                    return {entry.name: _modified_s(entry) for entry in entries}
            except ABSENT:
                return {}

    def delete(self, path: str) -> None:
        file = self._file(path)
        with suppress(_ParentMissing), translated("delete", file), _locked(file.parent) as directory:
            with suppress(FileNotFoundError):
                os.unlink(file.name, dir_fd=directory)
            faults.hit("control.delete.gone")

    def list_prefix(self, prefix: str) -> Names:
        folder = self._file(prefix)
        with translated("list", folder):
            return sorted(path for path, name in self._below(folder) if _is_listed(name))

    def listing(self, prefix: str) -> Mapping[str, Stored]:
        folder = self._file(prefix)
        with translated("list", folder):
            return dict(self._stored(path for path, name in self._below(folder) if _is_listed(name)))

    def temporaries(self) -> Mapping[str, Stored]:
        with translated("list", self._root):
            names = (path for path, name in self._below(self._root) if not _is_listed(name))
            return dict(self._stored(names))

    def delete_temporary(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        if _is_listed(name) or path.startswith("/"):
            raise InvalidObjectPath(path)
        file = (self._file(folder) if folder else self._root) / name
        with translated("delete", file), suppress(*ABSENT):
            os.unlink(file)

    def _below(self, folder: Path) -> Iterator[tuple[str, str]]:
        """Path and name of every file below."""
        for parent, _, names in os.walk(folder, onerror=_raise_unless_absent):
            inside = Path(parent).relative_to(self._root).as_posix()
            yield from ((name if inside == "." else f"{inside}/{name}", name) for name in names)

    def _stored(self, paths: Iterable[str]) -> Iterator[tuple[str, Stored]]:
        """What is there of these files; a writer may have removed some meanwhile."""
        for path in sorted(paths):
            with suppress(*ABSENT):
                found = os.stat(self._root / path, follow_symlinks=False)
                yield path, Stored(found.st_size, found.st_mtime)

    def delete_many(self, paths: Sequence[str]) -> None:
        files = [self._file(path) for path in paths]
        self._durable.clear()
        for file in files:
            with translated("delete", file), suppress(*ABSENT):
                os.unlink(file)
        for folder in {file.parent for file in files}:
            _remove_empty(folder, self._root)

    def delete_prefix(self, prefix: str) -> None:
        import shutil

        folder = self._file(prefix)
        self._durable.clear()
        with translated("delete", folder):
            while folder.is_dir():
                # Not found: a rival deleter was faster on some file; go on with the rest.
                with suppress(FileNotFoundError):
                    shutil.rmtree(folder)

    def exists(self, path: str) -> bool:
        return self.size(path) is not None

    def size(self, path: str) -> int | None:
        file = self._file(path)
        with translated("read", file):
            try:
                found = os.stat(file)
            except ABSENT:
                return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def digest(self, path: str) -> str | None:
        file = self._file(path)
        with translated("read", file):
            try:
                with open(file, "rb") as stream:
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

    def _make_parent(self, file: Path) -> None:
        """Let the directory of `file` exist, durably.

        Found is not the same as durable: a rival may have created it a moment ago
        and not synced it yet. So the names leading to it from the root are synced
        once in the life of this store, whoever made them.
        """
        directory = file.parent
        if directory in self._durable and os.path.isdir(directory):
            return
        self._syncer.make_directories(directory)
        inside = [parent for parent in directory.parents if parent.is_relative_to(self._root)]
        self._syncer.barrier(dirs=inside)
        self._durable.add(directory)

    def _write_over(self, verb: str, directory: int, file: Path, data: bytes, old: _Version | None) -> str:
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
                _write_all(descriptor, data)
                mtime_ns = max(time.time_ns(), after_ns + 1)
                os.utime(descriptor, ns=(mtime_ns, mtime_ns))
                faults.hit(f"control.{verb}.written")
                self._syncer.flush(descriptor, file)
                e_tag = _e_tag(data, os.fstat(descriptor))
            finally:
                os.close(descriptor)
            faults.hit(f"control.{verb}.synced")
            yield name, e_tag
        finally:
            with suppress(OSError):
                os.unlink(name, dir_fd=directory)


def _remove_empty(folder: Path, root: Path) -> None:
    """Remove the folder and the parents that it leaves empty, up to the root."""
    while folder != root:
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            pass
        except OSError:  # Not empty, or somebody puts something there at this moment.
            return
        folder = folder.parent


def _raise_unless_absent(error: OSError) -> None:
    if not isinstance(error, ABSENT):
        raise error


class _ParentMissing(Exception):
    """The directory of an object does not exist, so neither does the object."""


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """The directory as a descriptor: everything done through it happens in one directory.

    A directory that is removed meanwhile takes no new names, so a write into it
    fails instead of succeeding in a place nobody can see.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _locked(directory: Path) -> Iterator[int]:
    """The open directory, locked against every other `_locked` of it; closing it unlocks."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except ABSENT:
        raise _ParentMissing from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _read(file: Path | str, directory: int | None = None) -> _Version | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    except ABSENT:
        return None
    try:
        with open(descriptor, "rb", closefd=False) as stream:
            data = stream.read()
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return _Version(data, _e_tag(data, status), status.st_mtime_ns)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _e_tag(data: bytes, status: os.stat_result) -> str:
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    return f"{digest}-{status.st_ino:x}-{status.st_mtime_ns:x}"


def _is_listed(name: str) -> bool:
    return not name.startswith(TEMPORARY_PREFIX)


def _modified_s(entry: os.DirEntry[str]) -> float:
    """A file that has gone since it was listed counts as written now: it is nobody's to remove."""
    try:
        return entry.stat().st_mtime
    except FileNotFoundError:
        return time.time()
