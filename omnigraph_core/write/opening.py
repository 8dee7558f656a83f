"""What a read-write open does before anything else: migrate, and settle what dead writers left.

Every step looks first without a lock, and takes one only if there is something to do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from omnigraph_core import layout
from omnigraph_core.catalog.files import Catalog, has_schema_files, restore_schema_files
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.stamp import INTERNAL_SCHEMA_VERSION, migrate, read_stamp
from omnigraph_core.records import dataclass
from omnigraph_core.write.branches import remove_schema_lock
from omnigraph_core.write.creation import finish_init
from omnigraph_core.write.door import Door
from omnigraph_core.write.promotion import promote_head, promotion_is_outstanding
from omnigraph_core.write.provisional import forget_unwritten
from omnigraph_core.write.ref_repair import damaged_refs, repair_refs
from omnigraph_core.write.root import RootState, inspect_root
from omnigraph_core.write.staging import sweep_staging
from omnigraph_core.write.sweep import SweepReport


@dataclass(frozen=True, slots=True)
class Opened:
    """What was found. `warnings` are about things that had to be left as they are."""

    swept: SweepReport
    warnings: tuple[str, ...]


def prepare_for_writing(
    door: Door,
    accepted: Callable[[], Catalog],
    *,
    patient: bool,
    edited: bool = False,
    thorough: bool = False,
) -> Opened:
    """Make the graph ready for writers; a patient caller waits for leases of dead ones to run out.

    With `edited` the schema files may disagree with each other: the caller is about to replace them.
    A `thorough` caller has also those refs rebuilt that take long to miss.
    """
    _migrate(door)
    _repair_refs(door, thorough=thorough)
    report = door.sweeper.sweep(patient=patient)
    _finish_init(door)
    _clear_schema_lock(door)
    _promote(door)
    staged = sweep_staging(door.storage, partial(forget_unwritten, door, patient=False))
    warnings = (*map(str, report.unreadable), *staged.kept)
    if edited:
        return Opened(report, warnings)
    catalog = accepted()
    if not has_schema_files(door.storage.control):
        with door.storage.locks.lock(layout.REFS_LOCK, doing="repair").acquire() as lock:
            restore_schema_files(door.storage.control, catalog, lock.check)
    return Opened(report, warnings)


def _migrate(door: Door) -> None:
    if read_stamp(door.manifest.open_for_read(layout.MAIN_BRANCH)) < INTERNAL_SCHEMA_VERSION:
        names = [layout.REFS_LOCK, layout.branch_lock(layout.MAIN_BRANCH)]
        with door.storage.locks.lock_all(names, doing="migrate") as held:
            migrate(door.tables, door.manifest.open(layout.MAIN_BRANCH), new_ulid(), held.check)


def _repair_refs(door: Door, *, thorough: bool) -> None:
    """Before anybody takes a branch that cannot be read for one that is gone."""
    if damaged_refs(door.manifest, thorough=thorough):
        with door.storage.locks.lock(layout.REFS_LOCK, doing="repair").acquire() as lock:
            repair_refs(door.manifest, lock.check, thorough=thorough)


def _clear_schema_lock(door: Door) -> None:
    """Other programs take this branch for a lock of theirs. One that is left keeps them out for ever.

    Here it locks nothing: whoever applies a schema holds the refs lock, which is held now.
    """
    if door.manifest.branch_ref(layout.SCHEMA_LOCK_BRANCH) is not None:
        remove_schema_lock(door)


def _promote(door: Door) -> None:
    """Put the schema files of main's head in place. A live writer that is at it does so itself."""
    if not promotion_is_outstanding(door.manifest):
        return
    lock = door.storage.locks.lock(layout.branch_lock(layout.MAIN_BRANCH), doing="promote the schema")
    if lock.try_acquire():
        with lock:
            door.sweeper.heal(layout.MAIN_BRANCH, lock)
            promote_head(door.manifest, lock.check)


def _finish_init(door: Door) -> None:
    """Wait for an init that is at its last step: until then nothing it made need survive.

    One that died there held the refs lock: its present holder may acknowledge in its place.
    """
    if inspect_root(door.storage.control) is RootState.UNFINISHED:
        with door.storage.locks.lock(layout.REFS_LOCK, doing="finish init").acquire() as lock:
            finish_init(door.storage, door.tables, lock.check)
