"""What a write does beside or ahead of its turn must not be seen when its turn goes another way."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph_core import faults, layout
from omnigraph_core.errors import BadDataError, OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.history.commits import CommitAhead, commits_ref, record_commit
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.branch import MAIN, Branch
from omnigraph_core.manifest.reader import manifest_ref
from omnigraph_core.settings import Settings
from omnigraph_core.storage.beside import Beside
from omnigraph_core.storage.failures import SyncFailed, sync_failure
from omnigraph_core.storage.sync import Syncer, SyncReport
from omnigraph_core.tables.commit import unguarded
from omnigraph_core.tables.durability import Barrier, own_files
from omnigraph_core.tables.refs import TableRef, control_table
from omnigraph_core.tables.stage import stage_append
from omnigraph_core.write import door as door_module
from omnigraph_core.write import left_open, turns
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.plan import WritePlan, WriterKind

SCHEMA = "node Person { name: String @key }"
CONTROL = (manifest_ref("main"), commits_ref("main"), control_table(layout.COMMIT_ACTORS))


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(str(tmp_path / "g"), SCHEMA, Settings(actor="ann"))


def insert(graph: Graph, name: str, branch: str = "main") -> None:
    graph.change(f'query q() {{ insert Person {{ name: "{name}" }} }}', branch=branch)


def unreferred(graph: Graph, ref: TableRef) -> set[str]:
    """Data and deletion files that no version of the dataset has."""
    tables = graph.door.tables
    versions = range(1, tables.open(ref).version + 1)
    referred = {path for each in versions for path in own_files(tables.open(ref, each))}
    folders = [f"{ref.directory}/{name}" for name in ("data", "_deletions")]
    found = {f"{folder}/{name}" for folder in folders for name in tables.storage.control.list(folder)}
    return found - referred


@pytest.mark.parametrize(
    "step", ["write.after_a", "write.table_committed.1", "write.after_b", "manifest.before_publish"]
)
def test_what_was_written_ahead_of_a_publish_that_fails_is_removed(graph: Graph, step: str) -> None:
    insert(graph, "ann")
    faults.arm(f"{step}=error")
    with suppress(OmnigraphError):  # Or recovery has finished it.
        insert(graph, "bob")
    faults.arm("")
    insert(graph, "cid")
    assert not set().union(*(unreferred(graph, ref) for ref in CONTROL))
    assert all(commit.actor_id for commit in graph.log().history("main"))


def test_a_publish_that_lands_elsewhere_is_recorded_where_it_landed(graph: Graph) -> None:
    """A migration of the manifest comes between the plan and the publish."""
    insert(graph, "ann")
    tables, head = graph.door.tables, graph.snapshot().head
    assert head is not None
    ahead = CommitAhead(tables, head, MAIN, 77)
    barrier = Barrier(graph.door.storage)
    record_commit(tables, head, MAIN, 78, barrier, unguarded, ahead)
    barrier.sync()
    rows = tables.open(commits_ref("main")).read(["manifest_version"])
    assert rows.column("manifest_version").to_pylist()[-1] == 78
    assert not set().union(*(unreferred(graph, ref) for ref in CONTROL))


def test_a_failed_sync_of_staged_files_is_not_forgotten_when_the_plan_is_stale(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt may use the same files, and a second sync would say that all is well."""
    other = Graph.open(str(graph.location.path), Settings(actor="bob"))
    original = Syncer.barrier

    def failing(self: Syncer, files: Sequence[str] = (), dirs: Sequence[str] = ()) -> SyncReport:
        if self is graph.door.storage.syncer and any("/nodes/" in str(file) for file in files):
            raise sync_failure(OSError(errno.EIO, "broken"), files[0])
        return original(self, files, dirs)

    planned: list[Attempt] = []

    def build(attempt: Attempt) -> WritePlan:
        plan = planned_row(graph, attempt, "ann")
        insert(other, f"other{len(planned)}")
        planned.append(attempt)
        monkeypatch.setattr(Syncer, "barrier", failing)
        return plan

    with pytest.raises(SyncFailed):
        graph.door.write("main", build)
    assert len(planned) == 1


def planned_row(graph: Graph, attempt: Attempt, name: str) -> WritePlan:
    writable = graph.door.open_for_write(attempt, "node:Person")
    row = pa.table({"id": [name], "name": [name]}, schema=writable.table.schema)
    operation_id = new_ulid()
    staged = stage_append(graph.door.storage, writable.table, row, operation_id)
    tables = [writable.planned(graph.door.storage, staged)]
    return WritePlan(operation_id, WriterKind.MUTATION, attempt, "ann", tables=tables)


def test_a_writer_that_lost_plans_under_the_lock_until_nobody_else_writes(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "ALONE_AFTER_WRITES", 2)
    other = Graph.open(str(graph.location.path), Settings(actor="bob"))
    rivals = iter(["one"])
    locked: list[bool] = []

    def build(attempt: Attempt) -> WritePlan:
        locked.append(attempt.lock is not None)
        plan = planned_row(graph, attempt, f"p{len(locked)}")
        if attempt.lock is None and (rival := next(rivals, None)):
            insert(other, rival)
        return plan

    graph.door.write("main", build)
    assert locked == [False, True]
    for _ in range(2):
        graph.door.write("main", build)
    assert locked[2:] == [True, False]
    insert(other, "two")
    for _ in range(4):
        graph.door.write("main", build)
    assert locked[4:] == [False, True, False, False]


def test_a_writer_that_meets_another_plans_under_the_lock(graph: Graph) -> None:
    """It would plan for nothing: the other is about to publish."""
    lock = graph.door.storage.locks.lock(layout.branch_lock("main"), doing="write").acquire()
    ended = threading.Timer(0.05, lock.release)
    attempts: list[Attempt] = []

    def build(attempt: Attempt) -> WritePlan:
        attempts.append(attempt)
        return planned_row(graph, attempt, "ann")

    ended.start()
    graph.door.write("main", build)
    assert [attempt.lock is not None for attempt in attempts] == [True]


def test_a_writer_that_meets_a_long_one_plans_beside_it(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with it is said at once, and `--lock-timeout` is what it always was."""
    monkeypatch.setattr(door_module, "PLANNING_WAIT_S", 0.01)
    attempts: list[Attempt] = []

    def build(attempt: Attempt) -> WritePlan:
        attempts.append(attempt)
        raise BadDataError("bad")

    other = graph.door.storage.locks.lock(layout.branch_lock("main"), doing="optimize")
    with other, pytest.raises(BadDataError):
        graph.door.write("main", build)
    assert [attempt.lock for attempt in attempts] == [None]


def test_what_a_write_left_open_is_of_one_branch_and_one_head(graph: Graph) -> None:
    insert(graph, "ann")
    left, before = graph.door._left_open, graph.snapshot()
    assert {table.ref.key for table in left.tables(before)} == {
        "node:Person",
        layout.COMMITS,
        layout.COMMIT_ACTORS,
    }
    assert left.tables(replace(before, on=Branch("main", "of another"))) == ()
    insert(Graph.open(str(graph.location.path), Settings(actor="bob")), "bob")
    assert left.tables(graph.snapshot()) == ()


def test_what_a_write_left_open_is_bounded(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_open, "LEFT_OPEN_BRANCHES_MAX", 2)
    for branch in ("one", "two", "three"):
        graph.create_branch(branch)
        insert(graph, branch, branch)
    left = graph.door._left_open
    assert [len(left.tables(graph.snapshot(branch))) for branch in ("one", "two", "three")] == [0, 3, 3]
    monkeypatch.setattr(left_open, "LEFT_OPEN_TABLES_MAX", 2)
    insert(graph, "more", "three")
    assert left.tables(graph.snapshot("three")) == ()


def test_a_call_beside_is_waited_for_and_its_failure_is_ours() -> None:
    assert Beside(lambda: 7).result() == 7
    assert Beside(lambda: 7).error() is None
    failed = Beside(lambda: {}["missing"])
    assert isinstance(failed.error(), KeyError)
    with pytest.raises(KeyError):
        failed.result()
