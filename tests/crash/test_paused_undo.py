"""Undo, asleep past its lease at every step, while others take the same back or use what is there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings, load_settings
from tests.support.asleep import Sleeper
from tests.support.records import PEOPLE, node, nodes
from tests.support.writers import check_log, check_whole, open_graph

Do = Callable[[Graph, str], None]


@pytest.fixture
def settings(s3_environment: dict[str, str]) -> Settings:
    return load_settings({**s3_environment, "OMNIGRAPH_ACTOR": "ann"}, Path("/"))


def insert(graph: Graph, name: str, branch: str) -> None:
    graph.change(f'query q() {{ insert Person {{ name: "{name}", age: 1 }} }}', branch=branch)


# ---- what is taken back ----


def create(graph: Graph, branch: str) -> None:
    graph.create_branch(branch)


def delete(graph: Graph, branch: str) -> None:
    graph.create_branch(branch)
    insert(graph, "old", branch)
    graph.delete_branch(branch)


def rename(graph: Graph, branch: str) -> None:
    graph.create_branch(f"{branch}-old")
    insert(graph, "old", f"{branch}-old")
    graph.rename_branch(f"{branch}-old", branch)


def write(graph: Graph, branch: str) -> None:
    graph.create_branch(branch)
    insert(graph, "keep", branch)
    insert(graph, "old", branch)


def load(graph: Graph, branch: str) -> None:
    """It makes its branch."""
    graph.load([node("Person", name="old")], LoadMode.APPEND, branch=branch, source="main")


# ---- what others do meanwhile ----


def use(graph: Graph, branch: str, operation: str) -> None:
    """Write to the branch, or make it anew."""
    graph = open_graph(str(graph.location), graph.settings)
    if branch not in graph.branches():
        graph.create_branch(branch)
    insert(graph, "rival", branch)


def undo_and_use(graph: Graph, branch: str, operation: str) -> None:
    with suppress(OmnigraphError):  # It may have been taken back already.
        graph.undo(operation)
    use(graph, branch, operation)


def replace_and_use(graph: Graph, branch: str, operation: str) -> None:
    for each in called_like(graph, branch):
        graph.delete_branch(each)
    use(graph, branch, operation)


def called_like(graph: Graph, branch: str) -> list[str]:
    return [each for each in graph.branches() if each in (branch, f"{branch}-old")]


CASES = [
    pytest.param(done, meanwhile, marks=[] if (done, meanwhile) == (load, use) else [pytest.mark.soak])
    for done in (create, delete, rename, write, load)
    for meanwhile in (use, undo_and_use, replace_and_use)
]


@pytest.mark.parametrize(("done", "meanwhile"), CASES)
def test_an_undo_that_slept_takes_nothing_back_that_others_did(
    done: Do,
    meanwhile: Callable[[Graph, str, str], None],
    s3_location: Callable[[], str],
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = Graph.init(place := s3_location(), PEOPLE, settings)
    insert(graph, "first", "main")
    sleeper = Sleeper(place, settings, monkeypatch)

    def operation(branch: str) -> str:
        fresh = Graph.open(place, settings)
        done(fresh, branch)
        return fresh.operations(1)[0].operation_id

    def undo(graph: Graph, operation: str) -> None:
        graph.undo(operation)

    assert sleeper.run(undo, operation("plain"))
    for number, step in enumerate(dict.fromkeys(sleeper.passed)):
        branch = f"b{number}"

        def act(graph: Graph, operation: str, branch: str = branch) -> None:
            meanwhile(graph, branch, operation)

        sleeper.run(undo, operation(branch), step, act)
        assert step in sleeper.passed
        graph = open_graph(place, settings)
        found = {each: set(nodes(graph, "Person", each)) for each in called_like(graph, branch)}
        assert any("rival" in names for names in found.values()), (step, found)
        for each in found:
            insert(graph, "later", each)
    check_whole(open_graph(place, settings))
    check_log(open_graph(place, settings))
