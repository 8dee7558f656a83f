"""What became of the tables of a write that did not finish.

The seeds' names for the findings are kept; what decides is identity. A table has
"rolled past expected" when exactly our transactions, by uuid, are its newest versions.
"""

from __future__ import annotations

from enum import StrEnum

from omnigraph_core.manifest.snapshot import ManifestState
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage
from omnigraph_core.tables.commit import Guard, transaction_properties
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import TableNotFound
from omnigraph_core.tables.staged import UNDOES_PROPERTY
from omnigraph_core.tables.torn import set_aside_torn
from omnigraph_core.write.sidecar import Sidecar, SidecarTable


class TableClass(StrEnum):
    NO_MOVEMENT = "NoMovement"
    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"
    INVARIANT_VIOLATION = "InvariantViolation"


@dataclass(frozen=True, slots=True)
class Finding:
    """One pinned table as recovery finds it. `head` is None when its lineage does not exist."""

    table: SidecarTable
    head: Table | None
    published_version: int
    """What the manifest says of this very lineage; the fork's or creation's base if it says nothing."""
    in_manifest: bool
    classification: TableClass

    @property
    def head_version(self) -> int:
        return self.head.version if self.head is not None else self.published_version


def examine(tables: Tables, sidecar: Sidecar, state: ManifestState, guard: Guard) -> list[Finding]:
    """Look at every pinned table; torn versions are set aside first, they never counted."""
    return [_find(tables, table, state, guard) for table in sidecar.tables]


def _find(tables: Tables, table: SidecarTable, state: ManifestState, guard: Guard) -> Finding:
    row = state.versions.get(table.table_key)
    in_manifest = row is not None and state.is_live(table.table_key) and row.branch == table.table_branch
    published = row.version if row is not None and in_manifest else table.expected_version
    try:
        set_aside_torn(tables, table.ref, published, guard)
        head = tables.open(table.ref)
    except TableNotFound:
        return Finding(table, None, published, in_manifest, TableClass.NO_MOVEMENT)
    return Finding(table, head, published, in_manifest, _classify(table, head, published))


def _classify(table: SidecarTable, head: Table, published: int) -> TableClass:
    if head.version < published:
        return TableClass.INVARIANT_VIOLATION
    if head.version == published:
        return TableClass.NO_MOVEMENT
    if _moved_by_exactly_ours(table, head):
        return TableClass.ROLLED_PAST_EXPECTED
    if head.version == published + 1:
        return TableClass.UNEXPECTED_AT_P1
    return TableClass.UNEXPECTED_MULTISTEP


def _moved_by_exactly_ours(table: SidecarTable, head: Table) -> bool:
    first = table.expected_version + 1
    if head.version != table.expected_version + len(table.transactions):
        return False
    found = [head.transaction(version).uuid for version in range(first, head.version + 1)]
    return tuple(found) == table.transactions


def is_undone(finding: Finding, operation_id: str) -> bool:
    """Did an earlier recovery of the same write already restore this table?"""
    if finding.head is None:
        return False
    properties = transaction_properties(finding.head, finding.head.version)
    return properties.get(UNDOES_PROPERTY) == operation_id


def files_are_whole(storage: Storage, sidecar: Sidecar) -> bool:
    """Is every file the write staged still there in full size?"""
    return all(
        storage.control.size(file.path) == file.size for table in sidecar.tables for file in table.files
    )
