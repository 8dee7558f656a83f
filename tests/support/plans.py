"""Writes for tests that compare a graph with dictionaries: a row is an id and a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from omnigraph_core.errors import ConflictError
from omnigraph_core.graph import Graph
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.snapshot import SubTableEntry
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.keys import find_keys
from omnigraph_core.tables.stage import stage_append, stage_upsert
from omnigraph_core.tables.staged import StagedWrite
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.phases import Published
from omnigraph_core.write.plan import TableWrite, WritePlan, WriterKind

TABLES = ("edge:Knows", "edge:WorksAt", "node:Company", "node:Person")

Rows = dict[str, int]
State = dict[str, Rows]
"""What a branch holds: of each table, the number of each id."""


class IdTaken(ConflictError):
    """A row that had to be new is there."""


@dataclass(frozen=True)
class Change:
    """What a write does to one table: rows it writes, and ids of others that go."""

    rows: Mapping[str, int]
    removed: frozenset[str] = frozenset()
    only_new: bool = False

    @property
    def going(self) -> list[str]:
        return sorted(self.removed - self.rows.keys())

    def apply(self, before: Rows) -> Rows:
        return {id_: number for id_, number in before.items() if id_ not in self.removed} | {**self.rows}

    def conflicts(self, before: Rows) -> bool:
        """Rows that must be new must not meet an id that is there."""
        return self.only_new and bool(self.rows.keys() & before.keys())


Changes = Mapping[str, Change]


def write_changes(
    graph: Graph,
    branch: str,
    changes: Changes,
    *,
    strict: bool = False,
    if_commit: str | None = None,
    on_planning: Callable[[], None] = lambda: None,
    on_planned: Callable[[], None] = lambda: None,
) -> Published:
    """All changes in one commit. The callbacks run inside the planning, at its start and its end."""

    def build(attempt: Attempt) -> WritePlan:
        on_planning()
        operation_id = new_ulid()
        writes = [_table_write(graph, attempt, key, changes[key], operation_id) for key in sorted(changes)]
        plan = WritePlan(
            operation_id=operation_id,
            kind=WriterKind.MUTATION,
            attempt=attempt,
            actor="ann",
            tables=writes,
            strict=strict,
            if_commit=if_commit,
        )
        on_planned()
        return plan

    return graph.door.write(branch, build)


def _table_write(graph: Graph, attempt: Attempt, key: str, change: Change, operation_id: str) -> TableWrite:
    writable = graph.door.open_for_write(attempt, key)
    table = writable.table
    staged = _stage(graph, table, change, operation_id)
    return writable.planned(graph.door.storage, staged)


def _stage(graph: Graph, table: Table, change: Change, operation_id: str) -> StagedWrite:
    storage = graph.door.storage
    rows = _to_arrow(table.schema, change.rows)
    if change.only_new:
        if find_keys(table, rows.column("id")).num_rows:
            raise IdTaken(f"{table.ref.key}: an id is there already")
        if not change.going:
            return stage_append(storage, table, rows, operation_id)
    removed = pa.chunked_array([pa.array(change.going, pa.string())])
    return stage_upsert(storage, table, rows, operation_id, removed=removed)


def _to_arrow(schema: pa.Schema, rows: Mapping[str, int]) -> pa.Table:
    """The number stands in `age` of a person, in `name` or `dst` of anything else."""
    ids, texts = list(rows), [str(number) for number in rows.values()]
    values: dict[str, list[Any]] = {"id": ids, "src": ids, "dst": texts, "name": texts}
    values |= {"age": list(rows.values())}
    columns = [pa.array(values.get(field.name, [None] * len(ids)), field.type) for field in schema]
    return pa.table(columns, schema=schema)


def read_entry(graph: Graph, entry: SubTableEntry) -> Rows:
    """The rows of one table as a snapshot pins it, after checking that its columns agree."""
    found = graph.door.tables.open(entry.ref, entry.table_version).read()
    assert found.num_rows == entry.row_count, f"{entry.table_key}: row count"
    ids = found.column("id").to_pylist()
    assert len(set(ids)) == len(ids), f"{entry.table_key}: an id twice"
    numbers = found.column("dst" if "dst" in found.column_names else "name").to_pylist()
    if "age" in found.column_names:
        assert numbers == [str(age) for age in found.column("age").to_pylist()]
    return {id_: int(number) for id_, number in zip(ids, numbers, strict=True)}
