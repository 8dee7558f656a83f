"""The log of operations, and taking operations back: every kind, by identity, and again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError, OmnigraphError, UsageError
from omnigraph_core.graph import Graph
from omnigraph_core.history.damage import HistoryDamaged
from omnigraph_core.history.moves import MoveDamaged
from omnigraph_core.history.operations import OperationNotFound
from omnigraph_core.history.removed import CommitRemoved
from omnigraph_core.history.travel import CommitGone
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.merge.run import MergeConflicts
from omnigraph_core.merge.undo import CannotUndo, NothingToUndo
from omnigraph_core.settings import Settings
from omnigraph_core.tables.dataset import RowStream
from omnigraph_core.write.branches import BranchExists
from omnigraph_core.write.undelete import NothingToUndelete
from tests.support.records import exported, node, nodes, write_jsonl
from tests.support.writers import check_log, check_whole

SETTINGS = Settings(fsync=False, actor="ann")
SCHEMA = "node Item { k: String @key  a: I64?  b: I64? }\n"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, SETTINGS)
    put(graph, "main", p=1, q=2)
    return graph


def put(graph: Graph, branch: str, **values: int) -> None:
    rows = write_jsonl(
        graph.location.path.parent / "rows", [node("Item", k=k, a=a) for k, a in values.items()]
    )
    graph.load([rows], LoadMode.MERGE, branch=branch)


def change(graph: Graph, branch: str, key: str, **values: int) -> None:
    assigned = ", ".join(f"{name}: {value}" for name, value in values.items())
    graph.change(f'query q() {{ update Item set {{ {assigned} }} where k = "{key}" }}', branch=branch)


def state(graph: Graph) -> dict[str, object]:
    """All that a person sees of a graph but its history."""
    branches = {
        name: (exported(graph, name), graph.snapshot(name).on, graph.catalog_of(branch=name).schema)
        for name in graph.branches()
    }
    return {"branches": branches, "tags": {tag.name: tag.commit_id for tag in graph.tags()}}


DOINGS: dict[str, Callable[[Graph], object]] = {
    "load": lambda graph: put(graph, "main", p=5, r=6),
    "overwrite": lambda graph: graph.load(
        [write_jsonl(graph.location.path.parent / "all", [node("Item", k="z")])], LoadMode.OVERWRITE
    ),
    "load that makes its branch": lambda graph: graph.load(
        [write_jsonl(graph.location.path.parent / "new", [node("Item", k="z")])],
        LoadMode.APPEND,
        branch="made",
        source="dev",
    ),
    "branch rename": lambda graph: graph.rename_branch("dev", "review"),
    "schema apply": lambda graph: graph.apply_schema(SCHEMA.replace("b: I64?", "b: I64?  c: I64?")),
    "change": lambda graph: graph.change('query q() { delete Item where k = "p" }'),
    "first write on a branch": lambda graph: put(graph, "young", p=5, r=6),
    "merge": lambda graph: graph.merge("dev"),
    "fast-forward": lambda graph: graph.merge("dev", "young"),
    "revert": lambda graph: graph.revert("main"),
    "reset": lambda graph: graph.reset_branch("main", "main~1"),
    "branch create": lambda graph: graph.create_branch("new", "dev"),
    "branch delete": lambda graph: graph.delete_branch("dev"),
    "branch undelete": lambda graph: graph.undelete_branch("old"),
    "tag create": lambda graph: graph.create_tag("v2", "dev"),
    "tag delete": lambda graph: graph.delete_tag("v1"),
}


@pytest.fixture
def rich(graph: Graph) -> Graph:
    graph.create_tag("v1", message="shipped")
    for name in ("dev", "young", "old"):
        graph.create_branch(name)
    put(graph, "dev", q=7, s=8)
    put(graph, "main", p=3)
    graph.delete_branch("old")
    return graph


@pytest.mark.parametrize("name", DOINGS)
def test_undo_after_anything_is_identity_and_undo_of_undo_is_redo(name: str, rich: Graph) -> None:
    before, length = state(rich), len(rich.operations())
    DOINGS[name](rich)
    after = state(rich)
    assert after != before
    done = rich.operations(1)[0]
    undone = rich.undo()
    assert undone.operation.operation_id == done.operation_id
    assert state(rich) == before
    newest, middle = rich.operations(2)
    assert (newest.operation_id, newest.undoes) == (undone.operation_id, done.operation_id)
    assert middle.operation_id == done.operation_id
    redone = rich.undo().operation_id
    assert state(rich) == after
    assert redone is not None
    rich.undo(redone[-8:], actor="eve", message="after all not")
    assert state(rich) == before
    assert len(rich.operations()) == length + 4
    newest = rich.operations(1)[0]
    assert (newest.actor_id, newest.message, newest.undoes) == ("eve", "after all not", redone)
    check_whole(rich)
    check_log(rich)


def test_the_first_edges_of_a_node_are_taken_back_in_spite_of_their_minimum(tmp_path: Path) -> None:
    """A node may have none before it has its first; so it may when that one is taken back."""
    schema = "node P { k: String @key }\nedge E: P -> P @card(1..2)\n"
    graph = Graph.init(str(tmp_path / "g"), schema, SETTINGS)
    graph.change('query q() { insert P { k: "a" } insert P { k: "b" } }')
    before = state(graph)
    graph.change('query q() { insert E { from: "a", to: "b" } }')
    after = state(graph)
    graph.undo()
    assert state(graph) == before
    graph.undo()
    assert state(graph) == after
    graph.optimize()
    graph.undo()
    assert state(graph) == before
    graph.undo()
    graph.reset_branch("main", "main~1")
    assert state(graph) == before
    graph.undo()
    graph.create_branch("dev")
    graph.change('query q() { delete P where k = "a" }', branch="dev")
    graph.change('query q() { insert P { k: "a" } }', branch="dev")
    assert graph.merge("dev").outcome == "fast_forward"
    assert exported(graph) == exported(graph, "dev")


def test_a_load_that_made_its_branch_is_taken_back_beneath_what_was_written_since(graph: Graph) -> None:
    """The branch stays then, as somebody else's; and the load of another one is not mistaken for it."""
    rows = write_jsonl(graph.location.path.parent / "new", [node("Item", k="z")])
    graph.load([rows], LoadMode.APPEND, branch="made", source="main")
    made = graph.operations(1)[0]
    assert made.before is None
    put(graph, "made", r=1)
    graph.undo(made.operation_id)
    assert nodes(graph, "Item", "made").keys() == {"p", "q", "r"}
    graph.load([rows], LoadMode.APPEND, branch="made", source="main")
    assert graph.operations(1)[0].before is not None
    graph.undo()
    assert nodes(graph, "Item", "made").keys() == {"p", "q", "r"}
    check_whole(graph)
    check_log(graph)


def test_what_was_done_to_a_renamed_branch_is_said_of_its_name(graph: Graph) -> None:
    graph.create_branch("dev")
    graph.rename_branch("dev", "review")
    change(graph, "review", "p", a=10)
    after = graph.undo().operation.after
    assert after is not None
    assert after.name == "review"


def test_an_older_operation_is_taken_back_beneath_newer_ones(graph: Graph) -> None:
    change(graph, "main", "p", a=10)
    wrong = graph.operations(1)[0].operation_id
    change(graph, "main", "q", a=20)
    change(graph, "main", "p", b=30)
    graph.undo(wrong)
    assert nodes(graph, "Item") == {"p": {"k": "p", "a": 1, "b": 30}, "q": {"k": "q", "a": 20}}
    change(graph, "main", "q", a=21)
    before = exported(graph)
    with pytest.raises(MergeConflicts):
        graph.undo(graph.operations()[3].operation_id)
    assert exported(graph) == before
    check_whole(graph)
    check_log(graph)


def test_what_is_not_as_it_was_left_is_refused(graph: Graph) -> None:
    with pytest.raises(CannotUndo, match="made the graph"):
        graph.undo(graph.operations()[-1].operation_id)
    graph.create_branch("dev")
    created = graph.operations(1)[0].operation_id
    put(graph, "dev", r=1)
    written = graph.operations(1)[0].operation_id
    with pytest.raises(CannotUndo, match="written to since"):
        graph.undo(created)
    graph.delete_branch("dev")
    deleted = graph.operations(1)[0].operation_id
    with pytest.raises(CommitGone):
        graph.undo(written)
    with pytest.raises(NothingToUndo):
        graph.undo(created)
    graph.undelete_branch("dev")
    with pytest.raises(CannotUndo, match="already back"):
        graph.undo(deleted)
    graph.create_branch("child", "dev")
    graph.create_tag("v1")
    tagged = graph.operations(1)[0].operation_id
    graph.delete_tag("v1")
    untagged = graph.operations(1)[0].operation_id
    graph.create_tag("v1", "dev")
    with pytest.raises(NothingToUndo):
        graph.undo(tagged)
    with pytest.raises(OmnigraphError, match="already exists"):
        graph.undo(untagged)
    with pytest.raises(OperationNotFound):
        graph.undo("01ZZZZZZZZZZZZZZZZZZZZZZZZ")
    with pytest.raises(OperationNotFound):
        graph.undo(created[-7:])
    with pytest.raises(UsageError):
        graph.undo(created[:8])
    check_whole(graph)
    check_log(graph)


def test_an_operation_is_taken_back_once(graph: Graph) -> None:
    change(graph, "main", "p", a=10)
    first = graph.operations(1)[0].operation_id
    change(graph, "main", "q", a=20)
    taken_back = graph.undo(first).operation_id
    assert taken_back is not None
    count, before = len(graph.operations()), exported(graph)
    with pytest.raises(CannotUndo, match=f"{first} was taken back already, by {taken_back}"):
        graph.undo(first)
    assert (len(graph.operations()), exported(graph)) == (count, before)
    change(graph, "main", "p", a=30)  # What is there now has nothing to do with it.
    with pytest.raises(CannotUndo, match="was taken back already"):
        graph.undo(first)
    change(graph, "main", "p", a=1)
    redone = graph.undo(taken_back).operation_id
    assert nodes(graph, "Item")["p"]["a"] == 10
    with pytest.raises(CannotUndo, match=f"{taken_back} was taken back already, by {redone}"):
        graph.undo(taken_back)
    graph.undo(first)
    assert nodes(graph, "Item")["p"]["a"] == 1
    check_log(graph)


def test_what_is_so_already_is_no_operation(graph: Graph) -> None:
    change(graph, "main", "p", a=10)
    done = graph.operations(1)[0].operation_id
    change(graph, "main", "p", a=1)
    count = len(graph.operations())
    with pytest.raises(CannotUndo, match=f"nothing of operation {done} is left"):
        graph.undo(done)
    reverted = graph.revert(done)
    assert (reverted.outcome, reverted.commit_id) == ("already_up_to_date", None)
    reset = graph.reset_branch("main", "main~2")
    assert (reset.outcome, reset.commit_id) == ("already_up_to_date", None)
    assert len(graph.operations()) == count


def test_a_merge_that_changed_nothing_is_taken_back_on_record(graph: Graph) -> None:
    graph.create_branch("dev")
    change(graph, "dev", "p", a=10)
    change(graph, "main", "p", a=10)
    merged = graph.merge("dev").commit_id
    assert merged is not None
    before = exported(graph)
    assert graph.revert("main").commit_id is None
    undone = graph.undo()
    assert (graph.operations(1)[0].operation_id, graph.operations(1)[0].undoes) == (
        undone.operation_id,
        merged,
    )
    with pytest.raises(CannotUndo, match="was taken back already"):
        graph.undo(merged)
    assert exported(graph) == before


def test_moves_of_refs_are_taken_back_once(graph: Graph) -> None:
    graph.create_branch("dev")
    created = graph.operations(1)[0].operation_id
    graph.undo(created)
    with pytest.raises(CannotUndo, match="was taken back already"):
        graph.undo(created)
    graph.undelete_branch("dev")
    graph.undo(created)  # It is there again, and is that very branch.
    assert graph.branches() == ["main"]


def test_a_branch_that_was_reset_to_an_operation_can_take_it_back_again(graph: Graph) -> None:
    change(graph, "main", "p", a=10)
    done = graph.operations(1)[0].operation_id
    graph.undo()
    graph.reset_branch("main", done)
    graph.undo(done)
    assert nodes(graph, "Item")["p"]["a"] == 1


def test_a_commit_says_what_made_it(graph: Graph) -> None:
    change(graph, "main", "p", a=10)
    graph.revert("main")
    graph.reset_branch("main", "main~1")
    graph.undo()
    commits = graph.commits("main").commits
    assert [each.operation for each in commits[:4]] == ["revert", "reset", "revert", "mutation"]
    assert [each.kind for each in graph.operations(4)] == ["revert", "reset", "revert", "mutation"]
    check_log(graph)


def test_names_that_are_used_again_are_not_mistaken(graph: Graph) -> None:
    graph.create_branch("dev")
    first = graph.operations(1)[0].operation_id
    graph.delete_branch("dev")
    deleted = graph.operations(1)[0].operation_id
    graph.create_branch("dev")
    with pytest.raises(NothingToUndo):
        graph.undo(first)
    with pytest.raises(BranchExists):
        graph.undo(deleted)
    graph.delete_branch("dev")
    with pytest.raises(NothingToUndelete):  # The one that has the name was deleted later.
        graph.undo(deleted)
    graph.undo()
    assert graph.branches() == ["dev", "main"]
    check_whole(graph)
    check_log(graph)


def test_what_cleanup_made_impossible_is_refused(graph: Graph) -> None:
    graph.create_branch("dev")
    graph.delete_branch("dev")
    deleted = graph.operations(1)[0].operation_id
    for number in range(4):
        put(graph, "main", p=number)
    old = [each for each in graph.operations() if each.kind == "load"][-2].operation_id
    graph.cleanup(keep=1, grace_s=0.0, force=True)
    with pytest.raises(NothingToUndelete):
        graph.undo(deleted)
    with pytest.raises(CommitRemoved):
        graph.undo(old)
    assert graph.operations()[-1].kind == "init"
    check_whole(graph)
    check_log(graph)


def test_a_schema_change_is_taken_back_and_can_be_undone(graph: Graph) -> None:
    put(graph, "main", r=1)
    before = graph.at().schema
    graph.apply_schema(SCHEMA.replace("b: I64?", "c: String?"))
    after = graph.at().schema
    applied = graph.operations(1)[0].operation_id
    taken_back = graph.undo().operation_id
    assert graph.at().schema == before
    newest = graph.operations(1)[0]
    assert (newest.kind, newest.undoes) == ("revert", applied)
    with pytest.raises(CannotUndo, match=f"was taken back already, by {taken_back}"):
        graph.undo(applied)
    graph.undo()
    assert graph.at().schema == after
    check_whole(graph)
    check_log(graph)


def test_the_log_says_before_and_after_and_reads_only_what_it_shows(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.create_branch("dev")
    put(graph, "dev", r=1)
    for number in range(5):
        graph.create_tag(f"v{number}")
    graph.delete_branch("dev")
    kinds = [each.kind for each in graph.operations()]
    assert kinds == ["branchdelete", *["tagcreate"] * 5, "load", "branchcreate", "load", "init"]
    last = graph.operations(1)[0]
    assert last.after is None
    assert last.before is not None
    assert (last.before.name, last.before.commit_id) == ("dev", graph.operations()[6].operation_id)
    control = graph.door.storage.control
    read: list[str] = []
    original = type(control).get

    def get(self: object, path: str) -> object:
        read.append(path)
        return original(self, path)  # type: ignore[arg-type]

    monkeypatch.setattr(type(control), "get", get)
    assert len(graph.operations(2)) == 2
    assert sum(path.startswith(layout.OPERATIONS_DIR) for path in read) <= 4
    assert graph.operations(0) == []


def test_the_newest_operations_are_the_start_of_the_log(rich: Graph) -> None:
    rich.merge("dev")
    put(rich, "dev", t=1)
    rich.merge("dev")
    put(rich, "main", p=4)
    rich.delete_branch("dev")
    whole = rich.operations()
    for number in range(1, len(whole) + 2):
        assert rich.operations(number) == whole[:number]


def test_the_newest_operations_do_not_cost_the_whole_history(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        change(graph, "main", "p", a=number)
    read: list[tuple[str, int]] = []
    original = RowStream.read_all

    def read_all(self: RowStream) -> pa.Table:
        rows = original(self)
        read.append((",".join(rows.column_names), rows.num_rows))
        return rows

    monkeypatch.setattr(RowStream, "read_all", read_all)
    young = Graph.open(str(graph.location.path), SETTINGS)
    assert len(young.operations(2)) == 2
    of_history = [(columns, rows) for columns, rows in read if "object_" not in columns]
    assert {columns for columns, rows in of_history if rows > 2} == {"created_at"}


def test_a_hole_in_the_newest_part_of_the_history_is_damage(graph: Graph) -> None:
    for number in range(6):
        change(graph, "main", "p", a=number)
    lost = graph.operations()[2].operation_id
    dataset = lance.dataset(str(graph.location.path / "_graph_commits.lance"))
    dataset.delete(f"graph_commit_id = '{lost}'")
    young = Graph.open(str(graph.location.path), SETTINGS)
    with pytest.raises(HistoryDamaged, match=lost):
        young.operations(4)
    with pytest.raises(HistoryDamaged, match=lost):
        young.operations()


def test_a_record_that_cannot_be_read_is_damage(graph: Graph) -> None:
    graph.create_tag("v1")
    (record,) = (graph.location.path / layout.DONE_OPERATIONS).iterdir()
    whole = record.read_bytes()
    content = json.loads(whole)
    forged = [{**content, "kind": "magic"}, {**content, "name": 3}, {**content, "schema_version": 2}]
    forged += [{**content, "operation_id": "01"}, {**content, "identity": None}]
    for data in (b"", b"[]", whole[:-9], *(json.dumps(each).encode() for each in forged)):
        record.write_bytes(data)
        with pytest.raises(MoveDamaged):
            graph.operations()
        with pytest.raises(MoveDamaged):
            graph.undo()
    record.write_bytes(whole)
    graph.undo()
    assert graph.tags() == []


def test_wrong_arguments_change_nothing(graph: Graph) -> None:
    for wrong in (3, b"x", True):
        with pytest.raises(UsageError):
            graph.undo(wrong)  # type: ignore[arg-type]
    for number in (-1, 1.5, "3"):
        with pytest.raises(UsageError):
            graph.operations(number)  # type: ignore[arg-type]
    with pytest.raises((UsageError, NotFoundError)):
        graph.undo("")
    assert len(graph.operations()) == 2
