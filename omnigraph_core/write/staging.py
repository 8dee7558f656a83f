"""Keeping a staging record, and sweeping those of the dead: "these files are being written".

A write that stages more than a moment keeps `__staging/<operation>.json` under a lock
of its own. A record whose lock can be taken belongs to a dead process, and its files
may go; until then cleanup spares them. An init's record is another matter: the refs lock
covers it, and no sweep takes it.

Fault model. On S3 a lock may be gone at any instruction, and its holder wakes up later
and goes on. So the lock decides who tries, and the *e-tag of the record* who may: its
keeper only ever replaces the version it wrote last, and a sweep replaces the version it
has read before it deletes the first file. Of the two exactly one succeeds.

- The loader is first: `hand_over` empties the record, after the sidecar was written and
  before the first table moves. From then on no sweep knows of the files.
- The sweep is first: the loader's next replace fails, and it stops with `StagingSwept`.
  It has committed nothing yet, because the hand-over comes before that.

Operations are named by ULIDs and staged files by uuids, none of which is used twice:
whoever deletes one late deletes nobody else's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from omnigraph_core import faults, layout
from omnigraph_core.errors import BusyError, OmnigraphError
from omnigraph_core.ids import new_ulid
from omnigraph_core.records import dataclass
from omnigraph_core.storage import ControlObject, Lock, LockLost, ObjectChanged, Storage
from omnigraph_core.write.pending import record_ids
from omnigraph_core.write.staging_record import (
    INIT_KIND,
    StagingRecord,
    StagingUnreadable,
    listed_files,
)


class StagingSwept(BusyError):
    """Another process took this write for dead and removed what it had staged."""

    def __init__(self, operation_id: str) -> None:
        super().__init__(
            "this write was asleep or cut off for so long that others took it for dead and removed "
            f"what it had staged ({layout.staging_record(operation_id)}); nothing was changed",
            hint="try again",
        )


def staging_lock(operation_id: str) -> str:
    return f"staging.{operation_id}"


class KeptRecord:
    """The record of a write that is at work, and the lock it is kept under."""

    def __init__(self, storage: Storage, record: StagingRecord, lock: Lock) -> None:
        self._storage = storage
        self._lock = lock
        self._e_tag: str | None = None
        self.record = record
        self.stays = False
        """Set by a block that could not put everything away: the next sweep does it."""

    @property
    def has_ended(self) -> bool:
        return self._e_tag is None

    def begin(self) -> None:
        self.record = _revised(self.record)
        self._e_tag = self._storage.control.create(self.record.path, self.record.encode())

    def amend(self, **changes: Any) -> None:
        """Replace the record by what has become known since; `StagingSwept` if it is no longer ours."""
        changed = _revised(replace(self.record, **changes))
        try:
            assert self._e_tag is not None, "only a record that is kept can change"
            self._e_tag = self._storage.control.replace(changed.path, changed.encode(), self._e_tag)
        except ObjectChanged:
            raise StagingSwept(changed.operation_id) from None
        self.record = changed

    def check(self) -> None:
        """Raise `StagingSwept` unless what is staged is still ours.

        A lease that ran out while nobody came is taken again: the record proves that nobody did.
        """
        try:
            self._lock.check()
        except LockLost:
            self._lock.release()
            if not self._lock.try_acquire():
                raise StagingSwept(self.record.operation_id) from None
            self.amend()

    def end(self) -> None:
        """Remove the record: there is nothing left that it would have to tell."""
        self._storage.control.delete(self.record.path)
        self._e_tag = None


def _revised(record: StagingRecord) -> StagingRecord:
    return replace(record, revision=new_ulid())


@contextmanager
def staging(storage: Storage, record: StagingRecord) -> Iterator[KeptRecord]:
    """Keep the record while the block runs, under its own lock.

    When the block fails the record stays, and so do the files it names: the lock is free
    then, and the next sweep removes both. A block that has tidied up ends the record itself.
    A record that cannot be removed is left for the sweep, too: the write is done.
    """
    name = staging_lock(record.operation_id)
    lock = storage.locks.lock(name, doing=record.kind, operation_id=record.operation_id)
    kept = KeptRecord(storage, record, lock)
    try:
        with lock.acquire():
            kept.begin()
            faults.hit("staging.recorded")
            yield kept
            if not kept.has_ended and not kept.stays:
                with suppress(OmnigraphError):
                    kept.end()
    finally:
        if kept.has_ended:
            with suppress(OmnigraphError):  # A lock file that stays is no reason to fail.
                storage.locks.forget(name)


ForgetBranch = Callable[[StagingRecord], bool]
"""Removes the branch that a dead write made, if it may; False when that has to wait."""


@dataclass(frozen=True, slots=True)
class StagingSweep:
    """Operations whose records are gone, and why others of the dead had to stay."""

    swept: tuple[str, ...]
    kept: tuple[str, ...]


def sweep_staging(storage: Storage, forget_branch: ForgetBranch) -> StagingSweep:
    """Remove what dead writers left. Waits for nobody; what cannot be swept now is left for later."""
    swept: list[str] = []
    kept: list[str] = []
    for operation_id in staged_operations(storage):
        lock = storage.locks.lock(staging_lock(operation_id), doing="sweep staging")
        try:
            if not lock.try_acquire():
                continue
            with lock:
                done = _sweep(storage, operation_id, lock, forget_branch)
            if done:
                swept.append(operation_id)
                storage.locks.forget(staging_lock(operation_id))
        except OmnigraphError as error:
            # Whatever is wrong with it, it is not the business of whoever came to write.
            kept.append(str(error))
    return StagingSweep(tuple(swept), tuple(kept))


def staged_operations(storage: Storage) -> list[str]:
    return record_ids(storage.control, layout.STAGING_DIR)


def read_record(storage: Storage, operation_id: str) -> StagingRecord | None:
    """The record, or None when it is gone."""
    found = storage.control.get(layout.staging_record(operation_id))
    return None if found is None else StagingRecord.decode(operation_id, found.data)


def _sweep(storage: Storage, operation_id: str, lock: Lock, forget_branch: ForgetBranch) -> bool:
    """Under the record's lock; True when the record is gone."""
    found = storage.control.get(layout.staging_record(operation_id))
    if found is None:
        return True
    record = StagingRecord.decode(operation_id, found.data)
    if record.kind == INIT_KIND:
        return False
    files = [*listed_files(storage.control, operation_id, record.lists), *record.paths]
    lock.check()
    if not _claimed(storage, record, found):
        return False
    faults.hit("staging.claimed")
    for path in files:
        if path == layout.staging_folder(operation_id):
            storage.control.delete_prefix(path)
        else:
            storage.control.delete(path)
    if record.made_twin is not None and not forget_branch(record):
        return False
    lock.check()
    storage.control.delete(record.path)
    return True


def _claimed(storage: Storage, record: StagingRecord, found: ControlObject) -> bool:
    """Replace the version that was read; from here on its keeper, if it lives, can only stop."""
    try:
        storage.control.replace(record.path, _revised(record).encode(), found.e_tag)
    except ObjectChanged:
        return False
    return True


def other_is_staging(storage: Storage, branch: str, besides: str) -> bool:
    """Is a live write under way to a branch, beside the operation named? One that cannot be read may be."""
    for operation_id in staged_operations(storage):
        if operation_id == besides:
            continue
        try:
            record = read_record(storage, operation_id)
        except StagingUnreadable:
            record = None
        else:
            if record is None or record.branch != branch or record.kind == INIT_KIND:
                continue
        lock = storage.locks.lock(staging_lock(operation_id), doing="look for writers")
        if not lock.try_acquire():
            return True
        lock.release()
    return False
