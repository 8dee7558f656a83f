"""Renamed branches beside everything that goes by a name: loads that make branches, tags, damage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import ConflictError, OmnigraphError, RefusedError, StorageError
from omnigraph_core.graph import Graph
from omnigraph_core.history.refs import TaggedCommitGone
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.load.record import LoadRecord
from omnigraph_core.merge.run import MergeConflicts
from omnigraph_core.merge.undo import CannotUndo, NothingToUndo
from omnigraph_core.settings import Settings
from omnigraph_core.write.naming import BranchExists
from tests.support.records import node, nodes, write_jsonl
from tests.support.writers import check_log, check_whole

SETTINGS = Settings(fsync=False, actor="ann")
SCHEMA = "node Item { k: String @key  a: I64? }\n"


def put(graph: Graph, branch: str, source: str | None = None, **values: int) -> None:
    rows = [node("Item", k=key, a=value) for key, value in values.items()]
    data = write_jsonl(graph.location.path.parent / "rows", rows)
    graph.load([data], LoadMode.MERGE, branch=branch, source=source)


def values(graph: Graph, branch: str) -> dict[str, int]:
    return {key: row["a"] for key, row in nodes(graph, "Item", branch).items()}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    """dev has a commit of its own."""
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, SETTINGS)
    put(graph, "main", p=1)
    graph.create_branch("dev")
    put(graph, "dev", q=2)
    yield graph
    check_whole(graph)
    check_log(graph)


def test_a_load_makes_a_branch_of_a_name_that_a_renamed_one_had(graph: Graph) -> None:
    graph.rename_branch("dev", "review")
    put(graph, "dev", "main", z=9)
    assert (values(graph, "dev"), values(graph, "review")) == ({"p": 1, "z": 9}, {"p": 1, "q": 2})
    put(graph, "dev", "main", y=8)
    assert values(graph, "dev") == {"p": 1, "z": 9, "y": 8}


def test_a_load_that_makes_a_branch_gives_no_renamed_one_up(graph: Graph) -> None:
    graph.rename_branch("dev", "review")
    graph.delete_branch("review")
    put(graph, "dev", "main", z=9)
    graph.undelete_branch("review")
    assert (values(graph, "dev"), values(graph, "review")) == ({"p": 1, "z": 9}, {"p": 1, "q": 2})


def test_a_load_that_fails_leaves_no_branch_and_the_name_free(graph: Graph) -> None:
    graph.rename_branch("dev", "review")
    with pytest.raises(OmnigraphError):
        put(graph, "dev", "main", **{"": 1, "x": "no"})  # type: ignore[arg-type]
    assert graph.branches() == ["main", "review"]
    put(graph, "dev", "main", z=9)
    assert graph.branches() == ["dev", "main", "review"]


@pytest.mark.parametrize("renamed", ["before", "meanwhile"])
def test_a_load_never_writes_to_a_branch_that_is_called_otherwise(
    renamed: str, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it reads, another process makes the branch; and it, or the one before it, was renamed."""
    other = Graph.open(graph.location.uri, SETTINGS)
    original = LoadRecord.__enter__
    if renamed == "before":
        other.rename_branch("dev", "old")
        name = "dev"
    else:
        name = "new"

    def slow(record: LoadRecord) -> LoadRecord:
        monkeypatch.undo()
        other.create_branch(name)
        if renamed == "meanwhile":
            other.rename_branch(name, "theirs")
        return original(record)

    monkeypatch.setattr(LoadRecord, "__enter__", slow)
    with pytest.raises(ConflictError) as raised:
        put(graph, name, "main", z=9)
    assert raised.value.retryable
    theirs = "theirs" if renamed == "meanwhile" else "dev"
    assert values(graph, theirs) == {"p": 1}
    put(graph, name, "main", z=9)
    assert values(graph, name) == {"p": 1, "z": 9}


def test_hints_name_branches_as_people_do(graph: Graph) -> None:
    created = graph.operations(2)[1].operation_id
    graph.rename_branch("dev", "review")
    renamed = graph.operations(1)[0].operation_id
    with pytest.raises(CannotUndo, match="'review'") as refused:
        graph.undo(created)
    assert "branch delete review" in str(refused.value.hint)
    graph.create_tag("v", "review")
    graph.create_branch("dev")
    put(graph, "dev", q=3)
    with pytest.raises(MergeConflicts, match="'dev' is unchanged"):
        graph.merge("review", "dev")
    graph.delete_branch("review")
    with pytest.raises(TaggedCommitGone, match="branch 'review'") as gone:
        graph.commit("tag:v")
    assert "branch undelete review" in str(gone.value.hint)
    graph.cleanup(keep=1, grace_s=0.0, force=True)
    with pytest.raises(NothingToUndo, match="'review'"):
        graph.undo(renamed)
    with pytest.raises(NothingToUndo, match="'review'"):
        graph.undo(created)
    notes = [each for each in graph.doctor() if each.code == "branch-put-aside"]
    assert [(each.where, each.fix) for each in notes] == [("review", "omnigraph branch undelete review")]
    graph.undelete_branch("review")


def test_a_ref_of_a_renamed_branch_says_what_it_is_called(graph: Graph) -> None:
    graph.rename_branch("dev", "review")
    with pytest.raises(OmnigraphError, match="renamed to 'review'"):
        graph.commit("dev~1")


def test_a_branch_may_get_a_name_below_its_own(graph: Graph) -> None:
    graph.rename_branch("dev", "dev/one")
    assert values(graph, "dev/one") == {"p": 1, "q": 2}
    graph.create_branch("dev/two")
    put(graph, "dev/two", z=1)
    with pytest.raises(RefusedError):
        graph.create_branch("dev")
    graph.delete_branch("dev/two")
    graph.rename_branch("dev/one", "dev")
    with pytest.raises(BranchExists):
        graph.rename_branch("dev", "dev")
    assert (graph.branches(), values(graph, "dev")) == (["dev", "main"], {"p": 1, "q": 2})


def test_one_changed_bit_of_a_record_is_damage(graph: Graph) -> None:
    """Of the names, and of an operation: whatever it says then, nobody believes it."""
    graph.rename_branch("dev", "review")
    (done,) = (graph.location.path / layout.DONE_OPERATIONS).glob(f"{graph.operations(1)[0].operation_id}*")
    for path, ask in (
        (graph.location.path / layout.NAMES_RECORD, graph.branches),
        (done, graph.operations),
    ):
        whole = path.read_bytes()
        expected, text = ask(), json.loads(whole)
        for place in range(0, len(whole), 7):
            path.write_bytes(bytes([*whole[:place], whole[place] ^ 1, *whole[place + 1 :]]))
            try:
                assert ask() == expected
                assert json.loads(path.read_bytes()) == text
            except StorageError:
                continue
        path.write_bytes(b"{}")
        codes = {each.code for each in graph.doctor() if each.counts}
        assert codes & {"names-damaged", "operation-unreadable"}
        path.write_bytes(whole)


def test_doctor_misses_a_record_of_names_that_is_gone(graph: Graph) -> None:
    graph.rename_branch("dev", "review")
    graph.create_branch("dev")
    path = graph.location.path / layout.NAMES_RECORD
    whole = path.read_bytes()
    path.unlink()
    found = [each for each in graph.doctor() if each.counts]
    assert {each.code for each in found} == {"branch-name-lost"}
    assert {each.fix for each in found if each.where == "dev"} == {"omnigraph branch rename dev review"}
    path.write_bytes(whole)


def test_one_renamed_branch_makes_no_other_slower(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is looked up by the ref files of the lines that may have it, however many others there are."""
    for number in range(5):
        graph.create_branch(f"b{number}")
    graph.rename_branch("dev", "review")
    fresh = Graph.open(graph.location.uri, SETTINGS)
    manifest = fresh.door.manifest
    monkeypatch.setattr(type(manifest), "branch_refs", lambda _: pytest.fail("all refs were read"))
    assert fresh.snapshot("review").shown_branch == "review"
    assert fresh.snapshot("b3").shown_branch == "b3"
    monkeypatch.undo()
