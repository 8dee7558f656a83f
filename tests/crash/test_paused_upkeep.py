"""Relocate, asleep past its lease, while others relocate the graph and use it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.storage import ControlStore, open_storage, parse_location
from tests.support.asleep import Sleeper
from tests.support.records import PEOPLE, nodes
from tests.support.writers import check_whole, open_graph


@pytest.fixture
def settings(s3_environment: dict[str, str]) -> Settings:
    return load_settings({**s3_environment, "OMNIGRAPH_ACTOR": "ann"}, Path("/"))


def insert(graph: Graph, name: str, branch: str) -> None:
    graph.change(f'query q() {{ insert Person {{ name: "{name}", age: 1 }} }}', branch=branch)


def people(place: str, settings: Settings, branch: str) -> set[str]:
    return set(nodes(open_graph(place, settings), "Person", branch))


def files_of(control: ControlStore) -> list[str]:
    found: list[str] = []
    for entry in control.entries():
        if entry != layout.LOCKS_DIR:
            found += control.list_prefix(entry) or [entry]
    return found


@pytest.fixture
def copies(s3_location: Callable[[], str], settings: Settings) -> Callable[[], str]:
    """Copies of a graph, whose branch refers to where it was made."""
    graph = Graph.init(home := s3_location(), PEOPLE, settings)
    insert(graph, "first", "main")
    graph.create_branch("dev")
    insert(graph, "old", "dev")
    files = open_storage(parse_location(home, Path("/")), settings).control
    kept = {path: files.get(path) for path in files_of(files)}

    def copy() -> str:
        control = open_storage(parse_location(place := s3_location(), Path("/")), settings).control
        for path, found in kept.items():
            assert found is not None
            control.put(path, found.data)
        return place

    return copy


def relocate(graph: Graph, branch: str) -> None:
    graph.relocate()


def relocate_and_replace(graph: Graph, branch: str) -> None:
    """The branch is another by the time: its versions have the numbers of the old ones."""
    graph.relocate()
    graph = open_graph(str(graph.location), graph.settings)
    graph.delete_branch("dev")
    graph.create_branch("dev")
    insert(graph, "rival", "dev")


# The files that are rewritten, by the order in which it comes to them: one in the normal run.
some = [1, *(pytest.param(nth, marks=pytest.mark.soak) for nth in range(2, 7))]


@pytest.mark.parametrize("nth", some)
def test_a_relocate_that_slept_brings_no_old_version_back(
    nth: int, copies: Callable[[], str], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = Sleeper(place := copies(), settings, monkeypatch)
    assert not sleeper.run(relocate, "", "relocate.read", relocate_and_replace, nth=nth)
    assert sleeper.passed.count("relocate.read") == nth
    assert people(place, settings, "dev") == {"first", "rival"}
    insert(open_graph(place, settings), "later", "dev")
    check_whole(open_graph(place, settings))


def test_a_relocate_in_peace(copies: Callable[[], str], settings: Settings) -> None:
    graph = Graph.open(place := copies(), settings)
    assert graph.relocate() == len(some)
    assert graph.relocate() == 0
    assert people(place, settings, "dev") == {"first", "old"}
    check_whole(open_graph(place, settings))
