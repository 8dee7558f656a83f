"""`graph.at(…)`: one state of a graph, whatever happens to the graph meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph_core.arguments import WrongArgument
from omnigraph_core.errors import NotFoundError, RefusedError
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.records import PEOPLE

NAMES = "query q() { match { $p: Person } return { $p.name } }"


@pytest.fixture
def graph(tmp_path: Path, settings: Settings) -> Graph:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, settings)
    add(graph, "Ann")
    return graph


def add(graph: Graph, name: str, branch: str = "main") -> None:
    graph.change("query q($n: String) { insert Person { name: $n } }", params={"n": name}, branch=branch)


def test_a_view_stays_as_it_is(graph: Graph) -> None:
    view = graph.at()
    add(graph, "Bob")
    assert [row["p.name"] for row in view.query(NAMES).to_pylist()] == ["Ann"]
    assert b"".join(view.export()).count(b"\n") == 1
    assert [row["p.name"] for row in graph.at().query(NAMES).to_pylist()] == ["Ann", "Bob"]
    assert [row["p.name"] for row in graph.at("main~1").query(NAMES).to_pylist()] == ["Ann"]


def test_a_view_of_a_branch_and_of_a_ref_have_their_own_snapshot_and_schema(graph: Graph) -> None:
    graph.create_branch("dev")
    add(graph, "Cy", "dev")
    view = graph.at(branch="dev")
    assert view.snapshot == graph.snapshot("dev")
    assert view.schema == graph.catalog().schema
    assert [row["p.name"] for row in view.query(NAMES).to_pylist()] == ["Ann", "Cy"]


def test_what_is_not_there_or_no_text(graph: Graph) -> None:
    with pytest.raises(NotFoundError):
        graph.at(branch="nope")
    with pytest.raises(NotFoundError):
        graph.at("main~9")
    with pytest.raises(WrongArgument):
        graph.at(7)  # type: ignore[arg-type]


def test_nobody_signs_as_omnigraph_itself(graph: Graph, tmp_path: Path, settings: Settings) -> None:
    """Repairs are found by their actor, so the library refuses it as the command line does."""
    with pytest.raises(RefusedError, match="reserved"):
        graph.change('query q() { insert Person { name: "Eve" } }', actor="omnigraph:recovery")
    with pytest.raises(RefusedError, match="reserved"):
        Graph.init(str(tmp_path / "h"), PEOPLE, settings, actor="omnigraph:me")
    assert not (tmp_path / "h").exists()
    assert [row["p.name"] for row in graph.at().query(NAMES).to_pylist()] == ["Ann"]
