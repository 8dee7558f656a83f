"""What the tables of a branch need: which fragments, which indexes, and what that would write."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from omnigraph_core.indexes.ensure import outstanding
from omnigraph_core.maintenance.control import Rewritable
from omnigraph_core.maintenance.limits import (
    INDEXED_FRAGMENTS_MAX,
    STALE_ROWS_MAX,
    STALE_SHARE,
    VECTOR_INDEX_ROWS_MIN,
    WHOLE_ROWS_MAX,
)
from omnigraph_core.maintenance.optimized import OptimizedTable, Skipped
from omnigraph_core.manifest.snapshot import SubTableEntry
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType
from omnigraph_core.tables.compaction import Compactable, IndexWork, compactable, covered_fragments
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.index_size import estimated_bytes
from omnigraph_core.tables.indexes import BuiltIndex, list_indexes
from omnigraph_core.tables.limits import ROWS_PER_FRAGMENT
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.door import Door
from omnigraph_core.write.forks import needs_fork


@dataclass(frozen=True, slots=True)
class TableWork:
    """What one version of one table needs."""

    entity: EntityType
    entry: SubTableEntry
    table: Table
    head: int
    """The newest version there was; it is another one if somebody writes, or another program did."""
    found: Compactable
    indexes: IndexWork
    drops_indexes: bool

    @property
    def key(self) -> str:
        return self.entry.table_key

    @property
    def is_needed(self) -> bool:
        return bool(self.found.rewritten or self.indexes.names)

    def untouched(self) -> OptimizedTable:
        return OptimizedTable(
            self.key,
            self.found.fragments,
            self.found.fragments,
            pending_indexes=self.indexes.pending,
            published_version=self.entry.table_version,
            head_version=self.head,
        )

    def skipped(self, why: Skipped) -> OptimizedTable:
        return replace(self.untouched(), skipped=why)

    def expected(self) -> OptimizedTable:
        """After a run; a rewrite costs at most what its data files hold now."""
        found = self.found
        added = -(-found.rows // ROWS_PER_FRAGMENT) if found.rewritten else 0
        return replace(
            self.untouched(),
            fragments_after=found.fragments - found.rewritten + added,
            fragments_removed=found.rewritten,
            fragments_added=added,
            indexes=self.indexes.names,
            bytes_written=found.bytes,
        )

    def estimated(self) -> OptimizedTable:
        """The same with the bytes that indexes would take."""
        expected = self.expected()
        indexes = estimated_bytes(self.table, [*self.indexes.build, *self.indexes.extend], self._extended())
        return replace(expected, bytes_written=expected.bytes_written + indexes)

    def _extended(self) -> Collection[str]:
        return {spec.name for spec in self.indexes.extend}


class Needs:
    """Looks at the tables of one branch."""

    def __init__(self, door: Door, branch: str, memory_bytes: int) -> None:
        self._door = door
        self._branch = branch
        self._memory_bytes = memory_bytes

    def of(self, attempt: Attempt, types: Collection[str], besides: Collection[str] = ()) -> list[TableWork]:
        """One for every table that is this branch's own."""
        return [
            self._work(entity, entry)
            for entity, entry in _entries(attempt, types)
            if entry.table_key not in besides and not needs_fork(entry, self._branch)
        ]

    def _work(self, entity: EntityType, entry: SubTableEntry) -> TableWork:
        table = self._door.tables.open(entry.ref, entry.table_version)
        found, tail = compactable(table), compactable(table, covered_fragments(table))
        bulk = found.rewritten - tail.rewritten
        drops = bulk > 0 and (entry.row_count <= WHOLE_ROWS_MAX or bulk >= INDEXED_FRAGMENTS_MAX)
        indexes = self.indexes(entity, table, {} if drops else None)
        return TableWork(
            entity, entry, table, table.latest_version(), found if drops else tail, indexes, drops
        )

    def indexes(
        self, entity: EntityType, table: Table, built: Mapping[str, BuiltIndex] | None = None
    ) -> IndexWork:
        """What the indexes need if these are `built`, or else those that are; an index that misses
        little is as good as whole."""
        rows = table.count_rows()
        if not rows:
            return IndexWork()
        return outstanding(
            table,
            entity,
            unindexed_max=min(STALE_ROWS_MAX, rows // STALE_SHARE),
            memory_bytes=self._memory_bytes,
            vectors_min=VECTOR_INDEX_ROWS_MIN,
            built=list_indexes(table) if built is None else built,
        )


def _entries(attempt: Attempt, types: Collection[str]) -> Iterator[tuple[EntityType, SubTableEntry]]:
    for entity in attempt.schema.types():
        entry = attempt.snapshot.tables.get(entity.table_key)
        if entry is not None and (not types or entity.name in types):
            yield entity, entry


def inherited(attempt: Attempt, types: Collection[str]) -> list[OptimizedTable]:
    """The tables of a branch that are still its parent's business."""
    return [
        OptimizedTable(entry.table_key, published_version=entry.table_version, skipped=Skipped.INHERITED)
        for _, entry in _entries(attempt, types)
        if needs_fork(entry, attempt.branch)
    ]


def of_control(found: Rewritable) -> OptimizedTable:
    """One of our own tables; nothing of it is indexed, and no commit says that it was rewritten."""
    return OptimizedTable(
        found.ref.key,
        found.fragments,
        found.fragments_after,
        fragments_removed=len(found.chosen),
        fragments_added=int(bool(found.chosen)),
        bytes_written=found.bytes,
    )
