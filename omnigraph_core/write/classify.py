"""What became of the tables of a write that did not finish. Looks and changes nothing.

The seeds' names for the findings are kept; what decides is identity. A table has
"rolled past expected" when exactly our transactions, by uuid, are its newest versions.
Versions that a power cut tore, and those above them, do not count as moved: whoever
acts on a finding sets them aside first.
"""

from __future__ import annotations

from enum import StrEnum

from omnigraph_core.errors import StorageError
from omnigraph_core.manifest.snapshot import ManifestState
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage
from omnigraph_core.tables.commit import transaction_properties
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import TableLost, TableNotFound, VersionNotFound
from omnigraph_core.tables.fork_refs import read_fork
from omnigraph_core.tables.staged import UNDOES_PROPERTY
from omnigraph_core.tables.torn import is_torn, torn_from, versions_on_disk
from omnigraph_core.write.sidecar_record import Sidecar, SidecarTable


class TableClass(StrEnum):
    NO_MOVEMENT = "NoMovement"
    ROLLED_PAST_EXPECTED = "RolledPastExpected"
    UNEXPECTED_AT_P1 = "UnexpectedAtP1"
    UNEXPECTED_MULTISTEP = "UnexpectedMultistep"
    INVARIANT_VIOLATION = "InvariantViolation"


@dataclass(frozen=True, slots=True)
class Finding:
    """One pinned table as recovery finds it."""

    table: SidecarTable
    head: Table | None
    """The newest version below which nothing is torn; None when the lineage does not exist, or is a
    fork that never was of use to anybody."""
    published_version: int
    """What the manifest says of this very lineage; the fork's or creation's base if it says nothing."""
    in_manifest: bool
    known_as: str | None
    """The key under which it is published without this write; None for a table that came with it."""
    classification: TableClass

    @property
    def head_version(self) -> int:
        return self.head.version if self.head is not None else self.published_version


def examine(tables: Tables, sidecar: Sidecar, state: ManifestState) -> list[Finding]:
    """Look at every pinned table."""
    new = {entry.table_key for entry in sidecar.registrations}
    return [
        _find(
            tables, table, state, table.renamed_from or (None if table.table_key in new else table.table_key)
        )
        for table in sidecar.tables
    ]


def _find(tables: Tables, table: SidecarTable, state: ManifestState, known_as: str | None) -> Finding:
    """A table is judged by the key it has without this write; its new one may be another table's."""
    if table.stays:
        done = TableClass.ROLLED_PAST_EXPECTED
        return Finding(table, None, table.expected_version, False, known_as, done)
    row = None if known_as is None or not state.is_live(known_as) else state.versions.get(known_as)
    in_manifest = row is not None and row.branch == table.table_branch
    published = row.version if row is not None and in_manifest else table.expected_version
    if in_manifest or table.fork is None or _is_whole_fork(tables, table):
        head = _newest_whole(tables, table, published)
    else:
        head = None
    found = _classify(table, head, published, in_manifest)
    return Finding(table, head, published, in_manifest, known_as, found)


def _newest_whole(tables: Tables, table: SidecarTable, published: int) -> Table | None:
    try:
        lowest_torn = torn_from(tables, table.ref, published)
        return tables.open(table.ref, None if lowest_torn is None else lowest_torn - 1)
    except (TableNotFound, VersionNotFound, TableLost):
        return None


def _is_whole_fork(tables: Tables, table: SidecarTable) -> bool:
    """Is the unpublished fork there as this write found it? If not, it is for the next forker to clear."""
    origin, name = table.fork, table.table_branch
    if origin is None or name is None:
        return False
    try:
        fork = read_fork(tables, table.ref, name)
    except StorageError:
        return False
    if fork is None or (fork.parent, fork.parent_version) != (origin.parent_branch, origin.parent_version):
        return False
    if not tables.storage.location.is_local:
        return True
    base = table.expected_version
    return base in versions_on_disk(tables, table.ref) and not is_torn(tables, table.ref, base)


def _classify(table: SidecarTable, head: Table | None, published: int, in_manifest: bool) -> TableClass:
    if head is None:
        return TableClass.INVARIANT_VIOLATION if in_manifest else TableClass.NO_MOVEMENT
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
