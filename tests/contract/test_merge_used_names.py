"""Names of properties that are used again, for another column: merges go by the columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.merge.ground import SchemasDiffer
from omnigraph_core.merge.run import MergeConflicts
from omnigraph_core.settings import Settings
from tests.support.records import nodes
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")


def schema(*properties: str) -> str:
    return f"node P {{ k: String @key  {'  '.join(properties)} }}"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Two rows that hold the same in both of their properties, then a branch."""
    graph = Graph.init(str(tmp_path / "g"), schema("x: I32?", "y: I32?"), SETTINGS)
    change(graph, "main", 'insert P { k: "a", x: 1, y: 1 } insert P { k: "b", x: 1, y: 1 }')
    graph.create_branch("dev")
    return graph


def change(graph: Graph, branch: str, body: str) -> None:
    graph.change(f"query q() {{ {body} }}", branch=branch)


def apply(graph: Graph, branch: str, *properties: str) -> None:
    assert graph.apply_schema(schema(*properties), branch=branch).applied


def drop_and_add_again(graph: Graph, branch: str, kind: str = "I32?") -> None:
    apply(graph, branch, "x: I32?")
    apply(graph, branch, "x: I32?", f"y: {kind}")


def other(branch: str) -> str:
    return "dev" if branch == "main" else "main"


both_ways = pytest.mark.parametrize("branch", ["main", "dev"])


def merged(graph: Graph, into: str) -> dict[str, dict[str, object]]:
    graph.merge(other(into), into)
    check_whole(graph)
    return nodes(graph, "P", into)


@both_ways
@pytest.mark.parametrize("into", ["main", "dev"])
def test_an_edit_follows_its_column_when_names_are_exchanged(graph: Graph, branch: str, into: str) -> None:
    apply(graph, branch, 't: I32? @rename_from("x")', "y: I32?")
    apply(graph, branch, "t: I32?", 'x: I32? @rename_from("y")')
    apply(graph, branch, 'y: I32? @rename_from("t")', "x: I32?")
    change(graph, other(branch), 'update P set { x: 2 } where k = "a"')
    assert merged(graph, into)["a"] == {"k": "a", "x": 1, "y": 2}


@both_ways
@pytest.mark.parametrize("into", ["main", "dev"])
@pytest.mark.parametrize(
    "edit",
    ['update P set { y: 2 } where k = "a"', 'insert P { k: "c", y: 7 }'],
    ids=["a value", "a new row"],
)
def test_an_edit_of_a_dropped_column_never_goes_to_one_of_its_name(
    graph: Graph, branch: str, into: str, edit: str
) -> None:
    drop_and_add_again(graph, branch)
    change(graph, other(branch), edit)
    before = nodes(graph, "P", into)
    with pytest.raises(SchemasDiffer, match=r"property P\.y was dropped by one side"):
        graph.merge(other(into), into)
    assert nodes(graph, "P", into) == before


@both_ways
@pytest.mark.parametrize("into", ["main", "dev"])
@pytest.mark.parametrize(
    "kind",
    ["I32?", "[String]?", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("Vector(2)?", "Blob?"))],
)
def test_a_column_that_was_made_again_takes_the_place_of_the_old_one(
    graph: Graph, branch: str, into: str, kind: str
) -> None:
    """Of any type, with its own values alone."""
    drop_and_add_again(graph, branch, kind)
    if kind == "I32?":
        change(graph, branch, 'update P set { y: 1 } where k = "a"')
    change(graph, other(branch), 'insert P { k: "c", x: 3 }')
    value = {"y": 1} if kind == "I32?" else {}
    assert merged(graph, into) == {
        "a": {"k": "a", "x": 1} | value,
        "b": {"k": "b", "x": 1},
        "c": {"k": "c", "x": 3},
    }


@both_ways
@pytest.mark.parametrize("into", ["main", "dev"])
def test_a_column_that_is_wide_and_renamed_is_what_it_was(graph: Graph, branch: str, into: str) -> None:
    apply(graph, branch, "x: I32?", "y: I64?")
    apply(graph, branch, "x: I32?", 'z: I64? @rename_from("y")')
    change(graph, branch, 'update P set { z: 5000000000 } where k = "b"')
    change(graph, other(branch), 'update P set { y: 2 } where k = "a" insert P { k: "c", y: 7 }')
    assert merged(graph, into) == {
        "a": {"k": "a", "x": 1, "z": 2},
        "b": {"k": "b", "x": 1, "z": 5000000000},
        "c": {"k": "c", "z": 7},
    }


@both_ways
def test_a_column_that_was_brought_back_is_what_it_was(graph: Graph, branch: str) -> None:
    """Dropped, and had back by a revert: edits of the other side are no edits of something gone."""
    apply(graph, branch, "x: I32?")
    graph.revert(branch, branch)
    change(graph, other(branch), 'update P set { y: 2 } where k = "a"')
    assert merged(graph, branch)["a"] == {"k": "a", "x": 1, "y": 2}


@both_ways
def test_a_column_that_was_narrowed_back_is_what_it_was(graph: Graph, branch: str) -> None:
    apply(graph, branch, "x: I32?", "y: I64?")
    graph.revert(branch, branch)
    apply(graph, branch, "x: I32?", 'z: I32? @rename_from("y")')
    change(graph, other(branch), 'update P set { y: 2 } where k = "a"')
    assert merged(graph, branch)["a"] == {"k": "a", "x": 1, "z": 2}


@both_ways
def test_a_name_used_again_is_taken_back_with_its_values(graph: Graph, branch: str) -> None:
    start = graph.head(branch)
    drop_and_add_again(graph, branch)
    change(graph, branch, 'update P set { y: 9 } where k = "a"')
    assert start is not None
    graph.reset_branch(branch, start.commit_id)
    rows = {"a": {"k": "a", "x": 1, "y": 1}, "b": {"k": "b", "x": 1, "y": 1}}
    assert nodes(graph, "P", branch) == rows
    change(graph, other(branch), 'update P set { y: 2 } where k = "b"')
    assert merged(graph, branch) == rows | {"b": {"k": "b", "x": 1, "y": 2}}


@both_ways
@pytest.mark.parametrize("into", ["main", "dev"])
@pytest.mark.parametrize("kind", ["I32?", "[String]?"])
def test_a_type_that_was_made_again_counts_as_emptied(
    graph: Graph, branch: str, into: str, kind: str
) -> None:
    """Its rows go, unless the other side has changed one; properties of another kind are others."""
    graph.apply_schema("node Q { k: String @key }", branch=branch)
    apply(graph, branch, "x: I32?", f"y: {kind}")
    change(graph, branch, 'insert P { k: "c", x: 3 }')
    graph.create_branch("before", other(branch))
    assert merged(graph, into) == {"c": {"k": "c", "x": 3}}
    change(graph, "before", 'update P set { y: 2 } where k = "a"')
    with pytest.raises(MergeConflicts if kind == "I32?" else SchemasDiffer):
        graph.merge("before", branch)
    assert nodes(graph, "P", branch) == {"c": {"k": "c", "x": 3}}
