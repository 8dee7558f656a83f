"""An init, asleep past its lease at every step, while others make another graph in its place and use it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import ConflictError
from omnigraph_core.graph import Graph
from omnigraph_core.maintenance.findings import Severity
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.storage import open_storage, parse_location
from tests.support.asleep import Sleeper
from tests.support.records import PEOPLE, nodes
from tests.support.writers import check_whole, open_graph

# One step in the normal run, in the middle of the schema files, and the others with `make soak`.
PARTS = 14
in_parts = pytest.mark.parametrize(
    "part", [PARTS - 1, *(pytest.param(number, marks=pytest.mark.soak) for number in range(PARTS - 1))]
)
OTHERS = "node Person { name: String @key }\nnode City { name: String @key }\n"


@pytest.fixture
def settings(s3_environment: dict[str, str]) -> Settings:
    return load_settings({**s3_environment, "OMNIGRAPH_ACTOR": "ann"}, Path("/"))


def make(graph: Graph, name: str) -> None:
    Graph.init(graph.location.uri, PEOPLE, graph.settings)


def make_another(graph: Graph, name: str) -> None:
    """Or use what is there by now, if the sleeper had come so far."""
    try:
        made = Graph.init(graph.location.uri, OTHERS, graph.settings)
    except ConflictError:
        made = open_graph(graph.location.uri, graph.settings)
    made.change('query q() { insert Person { name: "rival" } }')


def schema_files(place: str, settings: Settings) -> list[bytes | None]:
    control = open_storage(parse_location(place, Path("/")), settings).control
    found = map(control.get, (layout.SCHEMA_SOURCE, layout.SCHEMA_COMPILED, layout.SCHEMA_STATE))
    return [each and each.data for each in found]


@in_parts
def test_an_init_that_slept_harms_no_graph_made_meanwhile(
    part: int, s3_location: Callable[[], str], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = Sleeper(s3_location(), settings, monkeypatch, everywhere=True)
    assert sleeper.run(make, "")
    places = sleeper.places
    assert {"init.recorded", "init.tables_created", "init.files_written", "init.made"} <= set(sleeper.passed)
    for step, nth in places[part::PARTS]:
        place = s3_location()
        seen: list[list[bytes | None]] = []

        def meanwhile(graph: Graph, name: str, seen: list[list[bytes | None]] = seen) -> None:
            make_another(graph, name)
            seen.append(schema_files(str(graph.location.uri), settings))

        told = Sleeper(place, settings, monkeypatch, everywhere=True).run(make, "", step, meanwhile, nth=nth)
        assert seen == [schema_files(place, settings)], (step, nth)
        check_graph(place, settings, is_the_sleepers=told)


def check_graph(place: str, settings: Settings, *, is_the_sleepers: bool) -> None:
    """The one that somebody was told of, with what was written to it; open for the types of the other."""
    graph = open_graph(place, settings)
    assert is_the_sleepers == (graph.catalog().source == PEOPLE) == ("Company" in graph.catalog().source)
    assert set(nodes(graph, "Person")) == {"rival"}
    check_whole(graph)
    assert graph.apply_schema(PEOPLE, allow_data_loss=True).applied == (not is_the_sleepers)
    graph.change('query q() { insert Person { name: "later", age: 1 } insert Company { name: "later" } }')
    assert set(nodes(graph, "Person")) == {"rival", "later"}
    check_whole(graph)
    assert [each for each in graph.doctor(deep=True) if each.severity is not Severity.NOTE] == []
