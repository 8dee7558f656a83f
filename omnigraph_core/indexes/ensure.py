"""Building missing indexes and extending the ones that have fallen behind, through the door.

Such a write has no meaning of its own, so it makes no graph commit. It is strictly a
favour to later reads: whoever calls this after a write must not let it fail the write.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from omnigraph_core.ids import new_ulid
from omnigraph_core.indexes.rules import index_specs
from omnigraph_core.schema import EntityType
from omnigraph_core.tables.compaction import IndexWork, PendingIndex
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.indexes import (
    MEMORY_BYTES,
    BuiltIndex,
    IndexKind,
    IndexSpec,
    list_indexes,
    segment_rows,
    serving,
    stage_indexes,
    uncovered_fragments,
)
from omnigraph_core.tables.vectors import comparable_max, largest_number
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.door import Door
from omnigraph_core.write.forks import needs_fork
from omnigraph_core.write.plan import TableWrite, WritePlan, WriterKind

# Scanning this many rows beside an index is cheaper than a version for every small write.
UNINDEXED_ROWS_MAX = 100_000

# Every extension adds a segment that each look-up has to visit; then one is made of them.
_SEGMENTS_MAX = 8


def ensure_indexes(
    door: Door,
    branch: str,
    table_keys: Collection[str] | None,
    actor: str | None,
    *,
    unindexed_max: int = UNINDEXED_ROWS_MAX,
    memory_bytes: int = MEMORY_BYTES,
) -> dict[str, list[str]]:
    """Index the tables (all, if None) with more than `unindexed_max` rows outside; returns what was built.

    Tables that a branch shares with its parent are the parent's business.
    """
    done: dict[str, list[str]] = {}

    def build(attempt: Attempt) -> WritePlan | None:
        done.clear()
        base = attempt.snapshot
        operation_id = new_ulid()
        writes = []
        for entity in attempt.schema.types():
            if table_keys is not None and entity.table_key not in table_keys:
                continue
            entry = base.tables.get(entity.table_key)
            if entry is None or entry.row_count <= unindexed_max or needs_fork(entry, branch):
                continue
            table = door.tables.open(entry.ref, entry.table_version)
            work = outstanding(table, entity, unindexed_max=unindexed_max, memory_bytes=memory_bytes)
            if not work.names:
                continue
            staged = stage_indexes(
                door.storage,
                table,
                operation_id,
                build=work.build,
                extend=work.extend,
                memory_bytes=memory_bytes,
            )
            writes.append(
                TableWrite(entry.ref, entry.table_version, entry.table_version, entry.row_count, (staged,))
            )
            done[entity.table_key] = list(work.names)
        if not writes:
            return None
        return WritePlan(
            operation_id=operation_id,
            kind=WriterKind.ENSURE_INDICES,
            attempt=attempt,
            actor=actor,
            tables=writes,
            makes_commit=False,
        )

    door.write(branch, build)
    return done


def outstanding(
    table: Table,
    entity: EntityType,
    *,
    unindexed_max: int,
    memory_bytes: int = MEMORY_BYTES,
    vectors_min: int = 0,
    built: Mapping[str, BuiltIndex] | None = None,
) -> IndexWork:
    """What the indexes of a table need before at most `unindexed_max` rows are outside any of them.

    A vector column of fewer than `vectors_min` rows is searched without an index: exactly, and
    as fast. Indexes are those that are `built`, unless told otherwise.
    """
    built = list_indexes(table) if built is None else built
    rows = table.count_rows()
    segments_max = _SEGMENTS_MAX + rows // segment_rows(memory_bytes)
    build: list[IndexSpec] = []
    extend: list[IndexSpec] = []
    pending: list[PendingIndex] = []
    for spec in index_specs(entity):
        known = serving(built, spec)
        if spec.kind is IndexKind.VECTOR and known is None and rows < vectors_min:
            reason = f"below {vectors_min:,} rows a search without it is exact, and as fast"
            pending.append(PendingIndex(spec.column, reason))
            continue
        if _uncovered_rows(table, known) <= unindexed_max:
            continue
        reason = _why_it_waits(table, spec, known)
        if reason:
            pending.append(PendingIndex(spec.column, reason))
            continue
        if known is None or len(known.segments) >= segments_max:
            build.append(spec)
        else:
            extend.append(spec)
    return IndexWork(build, extend, tuple(pending))


def _uncovered_rows(table: Table, built: BuiltIndex | None) -> int:
    rows = table.fragment_rows()
    return sum(rows[fragment] for fragment in uncovered_fragments(table, built))


def _why_it_waits(table: Table, spec: IndexSpec, known: BuiltIndex | None) -> str:
    """Empty if an index can be built: one of vectors needs some in what it is to cover, all comparable."""
    if spec.kind is not IndexKind.VECTOR:
        return ""
    largest = largest_number(table, spec.column, uncovered_fragments(table, known))
    if largest is None:
        return "there is no vector to be indexed"
    most = comparable_max(table.schema.field(spec.column).type.list_size)
    return "" if largest <= most else f"vectors with numbers beyond {most:.0e} are searched without it"
