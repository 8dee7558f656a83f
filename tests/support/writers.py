"""A small writer on the door, for tests that are about the door: three tables in one commit.

Runnable: `python -m tests.support.writers ROOT BRANCH NAME [register]`, so that it can be killed.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph_core import layout
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.history.moves import MoveKind, newest_moves
from omnigraph_core.history.recoveries import RECOVERY_ACTOR
from omnigraph_core.history.removed import CommitRemoved
from omnigraph_core.history.travel import snapshot_at
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.request import Registration
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.durability import sync_new_table
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.stage import stage_append, stage_upsert
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.phases import Published
from omnigraph_core.write.plan import TableWrite, WritePlan, WriterKind

TAG = TableRef("node:Tag", layout.table_path("node", "Tag"))
TAG_SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False)])

asks_doctor: ContextVar[bool] = ContextVar("asks_doctor", default=False)
"""Does `check_whole` ask doctor, too?"""

WRITTEN = ("node:Person", "node:Company", "edge:Knows")


def rows_for(table: Table, name: str) -> pa.Table:
    """One row for any of the tables, recognisable by `name`."""
    values: dict[str, Any] = {"id": name, "name": name, "src": name, "dst": name, "age": 1}
    columns = [pa.array([values.get(field.name)], field.type) for field in table.schema]
    return pa.table(columns, schema=table.schema)


def write_three(
    graph: Graph, name: str, branch: str = "main", *, register: bool = False, actor: str = "ann"
) -> Published:
    """Upsert one person, one company and one edge, and perhaps register a table, in one commit."""

    def build(attempt: Attempt) -> WritePlan:
        operation_id = new_ulid()
        writes = [_table_write(graph, attempt, key, name, operation_id) for key in WRITTEN]
        registrations = []
        if register and TAG.key not in attempt.snapshot.tables:
            writes.append(_new_table(graph, name, operation_id))
            registrations.append(Registration(TAG.key, TAG.path))
        return WritePlan(
            operation_id=operation_id,
            kind=WriterKind.LOAD,
            attempt=attempt,
            actor=actor,
            tables=writes,
            registrations=registrations,
            message=f"write {name}",
        )

    return graph.door.write(branch, build)


def _table_write(graph: Graph, attempt: Attempt, key: str, name: str, operation_id: str) -> TableWrite:
    writable = graph.door.open_for_write(attempt, key)
    table = writable.table
    staged = stage_upsert(graph.door.storage, table, rows_for(table, name), operation_id)
    return writable.planned(graph.door.storage, staged)


def _new_table(graph: Graph, name: str, operation_id: str) -> TableWrite:
    if graph.door.tables.exists(TAG):
        graph.door.storage.control.delete_prefix(TAG.directory)
    table = create_table(graph.door.tables, TAG, TAG_SCHEMA, operation_id)
    sync_new_table(graph.door.storage, TAG)
    staged = stage_append(graph.door.storage, table, rows_for(table, name), operation_id)
    return TableWrite(TAG, table.version, 0, 1, (staged,))


def content(graph: Graph, branch: str = "main") -> dict[str, set[str]]:
    """Ids per table, read at the versions the branch's snapshot pins."""
    found = {}
    for key, entry in graph.snapshot(branch).tables.items():
        rows = graph.door.tables.open(entry.ref, entry.table_version).read(["id"])
        assert rows.num_rows == entry.row_count, key
        found[key] = set(rows.column("id").to_pylist())
    return found


def check_whole(graph: Graph) -> None:
    """What must hold of every graph that nobody is writing to and nothing is wrong with.

    Where doctor is asked as well (see tests/conftest.py), it finds nothing to do. Its notes ask for nobody.
    """
    control = graph.door.storage.control
    assert control.list(layout.RECOVERY_DIR) == []
    assert control.list(layout.STAGING_DIR) == []
    log = graph.log()
    for branch in graph.branches():
        snapshot = graph.snapshot(branch)
        assert snapshot.head is not None
        assert log.heads[branch] == snapshot.head.commit_id
        for entry in snapshot.tables.values():
            head = graph.door.tables.open(entry.ref)
            if entry.table_branch == snapshot.on.lineage:
                assert head.version == entry.table_version, (branch, entry.table_key)
            head.lance.validate()
        content(graph, branch)
        history = list(log.first_parents(log.heads[branch]))
        assert {each.commit_id for each in log.history(branch)} >= {each.commit_id for each in history}
        assert [each.parent_commit_id for each in history[:-1]] == [each.commit_id for each in history[1:]]
        assert history[-1].parent_commit_id is None
        assert len({each.created_at for each in history}) == len(history)
    lines = graph.door.manifest.branch_names()
    for commit in log.commits.values():
        # A merge brings commits along of a branch that may be deleted by now, and its name used again.
        if commit.branch_is_gone or commit.branch not in lines:
            continue
        if graph.door.manifest.branch(commit.branch).may_be(commit.on):
            with suppress(CommitRemoved):
                snapshot_at(graph.door.manifest, commit)
    if asks_doctor.get():
        found = [each for each in graph.doctor() if each.counts]
        assert not found, found


def check_log(graph: Graph) -> None:
    """The log does not lie: a branch or tag whose last move brought it is there, another is not."""
    manifest = graph.door.manifest
    live = {fork.identity for fork in manifest.branches().values()}
    live |= {tag.revision for tag in graph.tags()}
    moved: set[str] = set()
    for move in newest_moves(manifest):
        assert move.identity is not None
        if move.identity not in moved:
            is_there = move.kind not in (MoveKind.BRANCH_DELETE, MoveKind.TAG_DELETE)
            assert (move.identity in live) == is_there, move
        moved.add(move.identity)


def open_graph(root: str | Path, settings: Settings | None = None) -> Graph:
    return Graph.open(str(root), settings or load_settings(), OpenMode.READ_WRITE)


def main() -> None:
    root, branch, name, *more = sys.argv[1:]
    graph = open_graph(root)
    published = write_three(graph, name, branch, register="register" in more)
    sys.stdout.write(f"{published.commit_id}\n")


if __name__ == "__main__":
    main()


def check_audits(graph: Graph) -> None:
    """One audit row for each commit by recovery, and the other way round."""
    by_recovery = [each for each in graph.log().commits.values() if each.actor_id == RECOVERY_ACTOR]
    audits = graph.recoveries()
    assert sorted(each.commit_id for each in by_recovery) == sorted(each.graph_commit_id for each in audits)
    assert len({each.operation_id for each in audits}) == len(audits)
