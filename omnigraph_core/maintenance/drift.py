"""Drift: versions of a table that no publish names, and what they are.

Something wrote to the dataset behind OmniGraph's back. Whether that did harm is told by
the transactions: a compaction by another tool changes no row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum

from omnigraph_core.errors import StorageError
from omnigraph_core.manifest.snapshot import Snapshot, SubTableEntry
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Lock
from omnigraph_core.tables.commit import is_all_ours
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.operations import keeps_rows, operation_name
from omnigraph_core.write.door import Door
from omnigraph_core.write.forks import needs_fork


class Classification(StrEnum):
    """What happened to a table; the text is part of the JSON answer."""

    NO_DRIFT = "no_drift"
    VERIFIED_MAINTENANCE = "verified_maintenance"
    """Only rewrites: the rows are what they were."""
    SUSPICIOUS = "suspicious"
    """Rows, columns or settings may have changed."""
    UNVERIFIABLE = "unverifiable"
    """A transaction is lost or cannot be read."""
    LATE_WRITE = "late_write"
    """A write of ours that was given up; the next write to the table undoes it."""


@dataclass(frozen=True, slots=True)
class TableDrift:
    """One table: what is published of it, and what is there."""

    entry: SubTableEntry
    head: Table
    classification: Classification
    operations: tuple[str, ...] = ()
    """What Lance calls the transactions since, oldest first, as far as they can be read."""

    @property
    def table_key(self) -> str:
        return self.entry.table_key


def find_drift(door: Door, branch: str, keys: Collection[str]) -> Mapping[str, TableDrift]:
    """Of these tables, those whose HEAD nobody is about to publish. Waits for the branch's lock."""
    with door.locked(branch, "look for drift") as lock:
        current = healed(door, branch, lock)
        found = (drift_of(door, entry) for key, entry in current.tables.items() if key in keys)
        return {each.table_key: each for each in found if each.classification is not Classification.NO_DRIFT}


def seems_drifted(door: Door, branch: str, heads: Mapping[str, int]) -> set[str]:
    """The same for whoever only looks, and has read these HEADs; as `checks/tables.py` does it."""
    if door.sweeper.pending():
        return set()
    tables = door.manifest.snapshot(branch).tables
    return {key for key, head in heads.items() if key in tables and tables[key].table_version < head}


def healed(door: Door, branch: str, lock: Lock) -> Snapshot:
    """The branch, once nothing is pending on it: what is above it then is no write in progress."""
    door.sweeper.heal(branch, lock)
    return door.manifest.snapshot(branch)


def own_tables(snapshot: Snapshot) -> list[SubTableEntry]:
    """The tables that this branch moves; it inherits the others from its parent."""
    return [entry for _, entry in sorted(snapshot.tables.items()) if not needs_fork(entry, snapshot.branch)]


def drift_of(door: Door, entry: SubTableEntry) -> TableDrift:
    """Needs the branch's lock, with nothing pending."""
    head = door.tables.open(entry.ref)
    classification = _classify(door.tables, head, entry.table_version)
    return TableDrift(entry, head, classification, tuple(_operations(head, entry.table_version)))


def _operations(head: Table, published: int) -> Iterator[str]:
    for version in range(published + 1, head.version + 1):
        try:
            yield operation_name(head, version)
        except StorageError:
            yield "unreadable"


def _classify(tables: Tables, head: Table, published: int) -> Classification:
    if head.version == published:
        return Classification.NO_DRIFT
    try:
        if is_all_ours(head, since=published):
            return Classification.LATE_WRITE
        versions = range(published + 1, head.version + 1)
        harmless = all(keeps_rows(tables, head, version) for version in versions)
    except StorageError:
        return Classification.UNVERIFIABLE
    return Classification.VERIFIED_MAINTENANCE if harmless else Classification.SUSPICIOUS
