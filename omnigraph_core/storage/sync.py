"""Making what was written survive a power cut.

Lance never syncs on a local disk, so everything that must be durable passes through
a barrier here: when `barrier` has returned, the content of the files and the names
in the directories are on the disk.

Fault model. A crash of a process loses nothing that was written; a power cut loses
any subset of what was not synced: bytes of a file, and names in a directory. A
file's bytes and its name are separate: both need a sync, the bytes first, so that
no durable name ever leads to missing bytes *of this barrier*. An fsync reports a
failed write-back once, also when another process wrote the file and closed it; it is
therefore called exactly once per path and never again after a failure: the kernel may
have dropped the bytes, and a second fsync would say that all is well. What has to
survive a failed sync, or one that nobody knows the end of, is written anew. Disks that
confirm a flush they did not do are outside the model.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph_core import faults
from omnigraph_core.records import dataclass
from omnigraph_core.storage.control import TEMPORARY_PREFIX
from omnigraph_core.storage.failures import StorageFailure, storage_failure, sync_failure, translated
from omnigraph_core.storage.inside import open_file
from omnigraph_core.storage.limits import SYNC_THREADS_MAX

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# Two syncs in a row cost less than waking threads for them.
_ALONE_MAX = 2
_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SyncReport:
    """How many paths one barrier synced; both zero when syncing is off."""

    files: int = 0
    directories: int = 0


class Syncer:
    """Syncs paths, or with `enabled=False` (`OMNIGRAPH_FSYNC=off`) does nothing. Safe between threads."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self._pool: ThreadPoolExecutor | None = None
        self._pool_guard = threading.Lock()

    def barrier(self, files: Iterable[Path | str] = (), dirs: Iterable[Path | str] = ()) -> SyncReport:
        """Sync every path once, the files before the directories; durable when it returns.

        All syncs that were started have ended when this raises, and it raises for
        the first path that failed.
        """
        if not self.enabled:
            return SyncReport()
        file_paths = _distinct(files)
        directory_paths = _distinct(dirs)
        faults.hit("sync.barrier")
        self._sync_each(file_paths)
        self._sync_each(directory_paths)
        return SyncReport(files=len(file_paths), directories=len(directory_paths))

    def sync_tree(self, root: Path) -> SyncReport:
        """A barrier over everything below a new directory, itself, and its name in its parent."""
        if not self.enabled:
            return SyncReport()
        files: list[Path] = []
        directories = [root.parent]
        with translated("read", root):
            for folder, _, names in os.walk(root, onerror=_raise):
                directories.append(Path(folder))
                paths = (Path(folder, name) for name in names)
                files.extend(path for path in paths if stat.S_ISREG(path.lstat().st_mode))
        return self.barrier(files, directories)

    def write_anew(self, files: Iterable[Path]) -> SyncReport:
        """Put a synced copy of its bytes in the place of each file, then sync the directories.

        For files whose sync has failed, or may have failed in a process that is gone. Readers
        see the same bytes before and after; a kill leaves at worst a temporary file.
        """
        if not self.enabled:
            return SyncReport()
        paths = [Path(path) for path in _distinct(files)]
        for path in paths:
            with translated("write anew", path):
                self._replace_by_copy(path)
        directories = _distinct(path.parent for path in paths)
        self._sync_each(directories)
        return SyncReport(files=len(paths), directories=len(directories))

    def _replace_by_copy(self, path: Path) -> None:
        copy = path.with_name(TEMPORARY_PREFIX + os.urandom(8).hex())
        try:
            given = open_file(str(path), None, os.O_RDONLY, str(path))
            with open(given, "rb") as source, copy.open("xb") as target:
                os.fchmod(target.fileno(), stat.S_IMODE(os.fstat(source.fileno()).st_mode))
                while block := source.read(_COPY_BYTES):
                    target.write(block)
                target.flush()
                faults.hit("sync.copy_written")
                self.flush(target.fileno(), copy)
            copy.rename(path)
        finally:
            copy.unlink(missing_ok=True)

    def flush(self, descriptor: int, path: Path | str) -> None:
        """Sync one open file or directory; `path` is for the message."""
        if not self.enabled:
            return
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise sync_failure(error, path) from error

    def make_directories(self, directory: Path) -> None:
        """Create a directory with the parents it lacks, and make the new names durable."""
        with translated("create", directory):
            missing = _missing_directories(directory)
            for path in reversed(missing):
                _make_directory(path)
                self._sync_path(path.parent)

    def _sync_each(self, paths: list[str]) -> None:
        if len(paths) <= _ALONE_MAX:
            for path in paths:
                self._sync_path(path)
            return
        left, failed = deque(enumerate(paths)), dict[int, StorageFailure]()
        helpers = [self._threads().submit(self._sync_left, left, failed) for _ in paths[1:]]
        self._sync_left(left, failed)
        for helper in helpers:
            if not helper.cancel():
                helper.result()
        if failed:
            raise failed[min(failed)]

    def _sync_left(self, left: deque[tuple[int, str]], failed: dict[int, StorageFailure]) -> None:
        """Sync what nobody has begun with, until nothing is left. The caller takes part: where a disk
        is fast, he is done before a thread has woken up."""
        while (next_one := _taken(left)) is not None:
            number, path = next_one
            try:
                self._sync_path(path)
            except StorageFailure as failure:
                failed[number] = failure

    def _sync_path(self, path: Path | str) -> None:
        if not self.enabled:
            return
        try:
            # A FIFO would keep us waiting for its writer.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise storage_failure(error, "sync", path) from error
        try:
            self.flush(descriptor, path)
        finally:
            os.close(descriptor)

    def _threads(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor

        with self._pool_guard:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(SYNC_THREADS_MAX, thread_name_prefix="omnigraph-sync")
            return self._pool


def _taken(left: deque[tuple[int, str]]) -> tuple[int, str] | None:
    try:
        return left.popleft()
    except IndexError:
        return None


def _distinct(paths: Iterable[Path | str]) -> list[str]:
    """As texts: there are many in every write, and making a `Path` costs as much as a system call."""
    return list(dict.fromkeys(os.path.abspath(path) for path in paths))


def _missing_directories(directory: Path) -> list[Path]:
    """The directories that do not exist yet, deepest first."""
    missing: list[Path] = []
    while not os.path.isdir(directory):
        missing.append(directory)
        directory = directory.parent
    return missing


def _make_directory(path: Path) -> None:
    try:
        path.mkdir()
    except FileExistsError:
        if not os.path.isdir(path):  # else a rival was faster
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path)) from None


def _raise(error: OSError) -> None:
    raise error
