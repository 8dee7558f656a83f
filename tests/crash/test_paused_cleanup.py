"""Cleanup, asleep past its lease between its decision and each deletion, while others make, reuse, rename,
merge and clean up branches, also at commits that it has decided to remove."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from omnigraph_core.errors import NotFoundError
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings, load_settings
from tests.support.asleep import Sleeper
from tests.support.records import PEOPLE, nodes
from tests.support.writers import check_whole, open_graph


@pytest.fixture
def settings(s3_environment: dict[str, str]) -> Settings:
    return load_settings({**s3_environment, "OMNIGRAPH_ACTOR": "ann"}, Path("/"))


def insert(graph: Graph, name: str, branch: str = "main") -> None:
    graph.change(f'query q() {{ insert Person {{ name: "{name}", age: 1 }} }}', branch=branch)


@pytest.fixture
def place(s3_location: Callable[[], str], settings: Settings) -> str:
    """Branches with forks of their own and without, one that is deleted, and old commits on main."""
    graph = Graph.init(place := s3_location(), PEOPLE, settings)
    insert(graph, "first")
    for name in ("reused", "merged", "renamed", "gone", "lazy"):
        graph.create_branch(name)
        if name != "lazy":
            insert(graph, f"on {name}", name)
    for number in range(3):
        insert(graph, f"p{number}")
    graph.delete_branch("gone")
    return place


def clean(graph: Graph, branch: str) -> None:
    graph.cleanup(keep=1, grace_s=0.0, force=True)


def act(graph: Graph, branch: str) -> None:
    """Everything at once; what is to be removed may be refused, and is not there then."""
    old = graph.log().history("main")[2].commit_id
    with suppress(NotFoundError):
        graph.create_branch("old", old)
    with suppress(NotFoundError):
        graph.undelete_branch("gone")
    graph.create_branch("new")
    graph.delete_branch("reused")
    graph.create_branch("reused", "lazy")
    graph.delete_branch("lazy")
    graph.rename_branch("renamed", "called")
    graph.create_branch("renamed")
    graph.merge("merged")
    for name in graph.branches():
        insert(graph, "rival", name)
    clean(graph, branch)


def people(place: str, settings: Settings) -> dict[str, set[str]]:
    graph = open_graph(place, settings)
    return {name: set(nodes(graph, "Person", name)) for name in graph.branches()}


STEPS = [
    "cleanup.decided",
    "branch.given_up",
    "cleanup.recorded",
    "cleanup.collected",
    "cleanup.fork_removed",
]
# A step in the normal run: where it holds the lock and believes that nobody else can act.
CASES = [pytest.param(step, marks=[] if step == STEPS[0] else [pytest.mark.soak]) for step in STEPS]


@pytest.mark.parametrize("step", CASES)
def test_a_cleanup_that_slept_removes_nothing_of_what_others_made(
    step: str, place: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = Sleeper(place, settings, monkeypatch)
    made: dict[str, set[str]] = {}

    def meanwhile(graph: Graph, branch: str) -> None:
        act(graph, branch)
        made.update(people(place, settings))

    sleeper.run(clean, "", step, meanwhile)
    assert step in sleeper.passed
    assert "rival" in made["called"]
    assert people(place, settings) == made
    for name in made:
        insert(open_graph(place, settings), "later", name)
    clean(open_graph(place, settings), "")
    assert people(place, settings) == {name: found | {"later"} for name, found in made.items()}
    check_whole(open_graph(place, settings))
