"""Prepared queries: the answers and failures of the text, with any parameters, at any state of the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.errors import BadDataError, OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.query.prepared import PreparedQuery
from omnigraph_core.settings import Settings

SCHEMA = "node P { k: String @key i: I32? }"
AGE = "query q($k: String, $n: I32?) { match { $p: P { k: $k } } return { $p.k as k, $p.i as i, $n as n } }"
KEYS = ("a", "b", "c", "none")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    made = Graph.init(
        str(tmp_path_factory.mktemp("prepared") / "g"), SCHEMA, Settings(fsync=False, actor="t")
    )
    made.change('query q() { insert P { k: "a", i: 1 } insert P { k: "b", i: 2 } }')
    made.create_branch("side")
    made.change('query q() { update P set { i: 3 } where k = "a" }', branch="side")
    made.change('query q() { insert P { k: "c" } }')
    return made


def outcome(graph: Graph, query: str | PreparedQuery, **options: Any) -> Any:
    """Of a graph opened anew, which remembers no text."""
    try:
        return Graph.open(graph.location.root, graph.settings).query(query, **options).to_pylist()
    except OmnigraphError as error:
        return type(error), str(error)


def test_answers_are_those_of_the_text(graph: Graph) -> None:
    prepared = graph.prepare(AGE)
    places: tuple[dict[str, Any], ...] = ({}, {"branch": "side"}, {"ref": "main~1"}, {"branch": "none"})
    for at in places:
        for key in KEYS:
            given = {"params": {"k": key, "n": ord(key[0])}, **at}
            assert outcome(graph, prepared, **given) == outcome(graph, AGE, **given)
    assert outcome(graph, prepared, params={"k": "a"}) == [{"k": "a", "i": 1, "n": None}]
    assert outcome(graph, prepared, params={}) == outcome(graph, AGE, params={})


def test_what_is_wrong_is_said_when_it_is_prepared(graph: Graph) -> None:
    for source in ("query q() { match", "query q() { match { $p: Q } return { $p } }"):
        with pytest.raises(BadDataError) as caught:
            graph.prepare(source)
        assert outcome(graph, source) == (type(caught.value), str(caught.value))
    change = 'query q() { insert P { k: "z" } }'
    assert outcome(graph, graph.prepare(change)) == outcome(graph, change)


def test_another_schema_is_another_check(tmp_path: Path) -> None:
    """A name that moves from one property to another means the other one from then on."""
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, Settings(fsync=False, actor="t"))
    graph.change('query q() { insert P { k: "a", i: 1 } }')
    source = "query q() { match { $p: P } return { $p.i as i } }"
    prepared = graph.prepare(source)
    assert graph.query(prepared).to_pylist() == graph.query(source).to_pylist() == [{"i": 1}]
    before = graph.snapshot().head
    assert before is not None
    graph.apply_schema('node P { k: String @key j: I32? @rename_from("i") i: String? }')
    for query in (prepared, source):
        assert graph.query(query).to_pylist() == [{"i": None}]
        assert graph.query(query, ref=before.commit_id).to_pylist() == [{"i": 1}]
    graph.apply_schema("node P { k: String @key j: I32? }", allow_data_loss=True)
    for query in (prepared, source):
        with pytest.raises(BadDataError, match="has no property"):
            graph.query(query)
        assert graph.query(query, ref=before.commit_id).to_pylist() == [{"i": 1}]
