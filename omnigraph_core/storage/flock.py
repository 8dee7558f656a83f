"""Local locks: `flock` on one file per name in `__locks/`.

Fault model and rules:

- The kernel frees a lock when its holder dies, also by `kill -9`. Nothing else
  does: there is no expiry, so a stopped process keeps its lock.
- Lock files are never unlinked by us. If another program does it anyway, two processes
  could hold locks on two files of one name; so the inode is compared after locking
  (a waiter starts again on the new file) and in `check` (a holder finds out).
- A `flock` belongs to the open file, not to the process: a second lock object on
  the same name in the same process waits like a stranger. And **a forked child
  shares it**: it keeps the lock if the parent is killed. Spawn, never fork, while
  holding one; `subprocess` is fine (`O_CLOEXEC`). A child that has inherited a lock
  object anyway finds it lost in `check`, and cannot release it for the parent.
- The token is synced before `acquire` returns, so it grows across power cuts too.
  A lock file that cannot be read goes on at the clock's microseconds, above every
  counted token; only removing the file starts again from 1.
- The file system must be local: NFS emulates `flock` and may lose it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from omnigraph_core import faults, layout
from omnigraph_core.errors import InternalError
from omnigraph_core.ids import now_us
from omnigraph_core.records import dataclass
from omnigraph_core.storage.failures import ABSENT, translated
from omnigraph_core.storage.inside import (
    ForeignEntry,
    directory,
    open_directory,
    open_file,
    open_inside,
    share_with_group,
)
from omnigraph_core.storage.limits import LOCK_RECORD_BYTES_MAX
from omnigraph_core.storage.locks import (
    Claim,
    HeldLocks,
    LockHolder,
    LockLost,
    LockRecord,
    LockTimeout,
    decode_record,
    described,
    file_stem,
    in_lock_order,
    take_all,
    wait_until,
)
from omnigraph_core.storage.sync import Syncer
from omnigraph_core.waits import waiting_for


class LocalLocks:
    """The locks of a graph on the local disk; `actor` is who we say we are to those who wait."""

    def __init__(self, root: Path, syncer: Syncer, *, actor: str, timeout_s: float) -> None:
        self._root = root
        self._syncer = syncer
        self._actor = actor
        self._timeout_s = timeout_s

    def lock(self, name: str, *, doing: str = "", operation_id: str | None = None) -> FileLock:
        return FileLock(
            name,
            self._root,
            self._syncer,
            claim=Claim(self._actor, doing, operation_id),
            timeout_s=self._timeout_s,
        )

    def lock_all(
        self,
        names: Iterable[str],
        timeout_s: float | None = None,
        *,
        doing: str = "",
        operation_id: str | None = None,
    ) -> HeldLocks:
        locks = [self.lock(name, doing=doing, operation_id=operation_id) for name in in_lock_order(names)]
        return take_all(locks, self._timeout_s if timeout_s is None else timeout_s)

    def read_holder(self, name: str) -> LockHolder | None:
        """See `Locks.read_holder`.

        `flock` cannot be asked, only tried. So the file is read first: a lock that
        was released names nobody and is not touched. If it names somebody, a shared
        attempt tells the living from the dead; it succeeds, for some microseconds,
        only when the holder died, and only then could it make a rival's
        `try_acquire` fail.
        """
        file = _path(name)
        with translated("read", self._root / file):
            try:
                descriptor = open_inside(str(self._root), file)
            except ABSENT:
                return None
            try:
                record = _read_record(descriptor)
                if record is None or record.holder is None:
                    return None
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return record.holder if record else None
            finally:
                os.close(descriptor)
        return None

    def forget(self, name: str) -> None:
        file = self._root / _path(name)
        with (
            translated("remove", file),
            suppress(*ABSENT),
            directory(str(self._root), layout.LOCKS_DIR, passing=True) as folder,
        ):
            os.unlink(file.name, dir_fd=folder)


def _path(name: str) -> str:
    return f"{layout.LOCKS_DIR}/{file_stem(name)}.lock"


@dataclass(frozen=True, slots=True)
class _Held:
    """The state of an acquired lock: the descriptor that carries it, and what was written."""

    descriptor: int
    record: LockRecord
    pid: int


class FileLock:
    """A `Lock` on one file. Use one object from one thread; two objects exclude each other."""

    def __init__(self, name: str, root: Path, syncer: Syncer, *, claim: Claim, timeout_s: float) -> None:
        self._name = name
        self._root = root
        self._file = root / _path(name)
        self._syncer = syncer
        self._claim = claim
        self._timeout_s = timeout_s
        self._held: _Held | None = None
        self._waiting: int | None = None
        """The file that was found locked, kept open from one try to the next while we wait."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def token(self) -> int:
        if self._held is None:
            raise LockLost(self._name, "it was not taken")
        return self._held.record.token

    @property
    def holder(self) -> LockHolder | None:
        return self._held.record.holder if self._held else None

    def acquire(self, timeout_s: float | None = None) -> Self:
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            with waiting_for(lambda: described(self._name, self._read_rival())):
                taken = wait_until(self._try, limit_s)
        finally:
            self._stop_waiting()
        if not taken:
            raise LockTimeout(self._name, limit_s, self._read_rival())
        return self

    def acquire_within(self, most_s: float) -> bool:
        with suppress(LockTimeout):
            self.acquire(min(most_s, self._timeout_s))
        return self._held is not None

    def try_acquire(self) -> bool:
        try:
            return self._try()
        finally:
            self._stop_waiting()

    def _try(self) -> bool:
        if self._held is not None:
            raise InternalError(f"the lock '{self._name}' is taken twice through one object")
        with translated("lock", self._file):
            descriptor = self._lock_current_file()
            if descriptor is None:
                return False
            try:
                self._held = self._sign(descriptor)
            except BaseException:
                os.close(descriptor)
                raise
        faults.hit("lock.acquired")
        return True

    def check(self) -> None:
        if self._held is None:
            raise LockLost(self._name, "it was not taken")
        if self._held.pid != os.getpid():
            raise LockLost(self._name, "it belongs to the process that forked this one")
        with translated("check", self._file):
            if not self._is_current(self._held.descriptor):
                raise LockLost(self._name, f"{self._file} was removed or replaced")

    def release(self) -> None:
        held, self._held = self._held, None
        if held is None:
            return
        try:
            if held.pid == os.getpid():
                # Frees the lock even if a forked child still has the file open.
                with suppress(OSError):
                    _write_record(held.descriptor, LockRecord(held.record.token, None))
                fcntl.flock(held.descriptor, fcntl.LOCK_UN)
        finally:
            os.close(held.descriptor)

    def __enter__(self) -> Self:
        return self if self._held is not None else self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _lock_current_file(self) -> int | None:
        """A descriptor holding the lock on the file that has the name *now*; None when taken."""
        while True:
            descriptor = self._opened()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_current(descriptor):
                    return descriptor
            except BlockingIOError:
                self._waiting = descriptor
                return None
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _opened(self) -> int:
        """The lock file: the one that was waited for, if it still has the name."""
        descriptor, self._waiting = self._waiting, None
        if descriptor is not None:
            if self._is_current(descriptor):
                return descriptor
            os.close(descriptor)
        descriptor = self._open()
        try:
            faults.hit("lock.opened")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _stop_waiting(self) -> None:
        descriptor, self._waiting = self._waiting, None
        if descriptor is not None:
            os.close(descriptor)

    def _open(self) -> int:
        """The lock file, made if there is none; never what a link leads to, nor anything but a file."""
        top, folder = str(self._root), layout.LOCKS_DIR
        try:
            opened = open_directory(top, folder, passing=True)
        except FileNotFoundError:
            self._syncer.make_directories(self._file.parent)
            with directory(top, folder) as made:
                share_with_group(made, top)
            opened = open_directory(top, folder, passing=True)
        try:
            return open_file(self._file.name, opened, os.O_RDWR | os.O_CREAT, str(self._file))
        finally:
            os.close(opened)

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._file, follow_symlinks=False))
        except ABSENT:
            return False

    def _sign(self, descriptor: int) -> _Held:
        """Draw the next token and name ourselves, durably, before anybody acts on the token.

        The name of a new file is synced while the file is still empty, so a file
        with a token in it never vanishes in a power cut, whoever dies in between.
        """
        is_new = os.fstat(descriptor).st_size == 0
        if is_new:
            share_with_group(descriptor, str(self._root))
            self._syncer.barrier(dirs=[self._file.parent, self._file.parent.parent])
        last = _read_record(descriptor)
        self._refuse_another_file(descriptor, is_lock=is_new or last is not None)
        token = last.token + 1 if last else 1 if is_new else now_us()
        record = LockRecord(token, self._claim.holder())
        _write_record(descriptor, record)
        faults.hit("lock.signed")
        self._syncer.flush(descriptor, self._file)
        return _Held(descriptor, record, os.getpid())

    def _refuse_another_file(self, descriptor: int, *, is_lock: bool) -> None:
        """A lock file that cannot be read is written over; one with a second name is somebody's file."""
        found = os.fstat(descriptor)
        if not is_lock and found.st_nlink > 1:
            raise ForeignEntry(str(self._file), found.st_mode, "a lock file of its own")

    def _read_rival(self) -> LockHolder | None:
        try:
            descriptor = open_inside(str(self._root), _path(self._name))
        except (OSError, ForeignEntry):
            return None
        try:
            record = _read_record(descriptor)
        finally:
            os.close(descriptor)
        return record.holder if record else None


def _read_record(descriptor: int) -> LockRecord | None:
    return decode_record(os.pread(descriptor, LOCK_RECORD_BYTES_MAX, 0))


def _write_record(descriptor: int, record: LockRecord) -> None:
    """Write in place: the lock lives on this very file, so it cannot be renamed over.

    The new line covers the start of the old one before the rest is cut off, so a
    kill in between leaves a readable record.
    """
    content = record.encode()
    written = os.pwrite(descriptor, content, 0)
    if written != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.ftruncate(descriptor, len(content))
