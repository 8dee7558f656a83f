"""An adoption falls asleep at any step: others read, wait, or take over, and nothing they did is lost.

On S3 its leases run out, somebody else adopts the graph and writes to it, and then the sleeper wakes up
in the middle of a verb. On a local disk a stopped process keeps its locks: nobody takes over, and it
goes on as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.maintenance.findings import Severity
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.storage import open_storage, parse_location
from tests.support.adoptions import AFTER, BEFORE, NEEDS
from tests.support.asleep import Sleeper
from tests.support.originals import SETTINGS, exported, tree, unpack, unpack_in_place
from tests.support.paused import started
from tests.support.processes import OMNIGRAPH, Omnigraph

# A seventh of the steps in the normal run, the others with `make soak`.
PARTS = 7
in_parts = pytest.mark.parametrize(
    "part", [1, *(pytest.param(number, marks=pytest.mark.soak) for number in range(PARTS) if number != 1)]
)
INSERT = 'query q() { insert Person { name: "Rival" } }'
FIXTURE = "merged"


@pytest.fixture
def settings(s3_environment: dict[str, str]) -> Settings:
    return load_settings({**s3_environment, "OMNIGRAPH_ACTOR": "ann"}, Path("/"))


@pytest.fixture
def put(s3_location: Callable[[], str], settings: Settings, tmp_path: Path) -> Callable[[], str]:
    """Puts a graph of the original on S3, each time at another place."""
    files = {path: data for path, data in tree(unpack(FIXTURE, tmp_path)).items() if data is not None}

    def put_graph() -> str:
        place = s3_location()
        control = open_storage(parse_location(place, tmp_path), settings).control
        for path, data in files.items():
            control.put(path, data)
        return place

    return put_graph


def adopt(graph: Graph, branch: str) -> object:
    return graph.adopt(actor="sleeper")


def adopt_and_write(graph: Graph, branch: str) -> None:
    """What fails here is no failure of the sleeper."""
    try:
        graph.adopt(actor="rival")
        ours = Graph.open(str(graph.location), graph.settings)
        for each in ours.branches():
            ours.change(INSERT, branch=each)
    except OmnigraphError as error:
        raise AssertionError(f"the rival failed: {error!r}") from error


def wrong(graph: Graph) -> list[Any]:
    return [each for each in graph.doctor(deep=True) if each.severity is not Severity.NOTE]


@in_parts
def test_one_that_slept_past_its_lease_takes_nothing_back(
    part: int, put: Callable[[], str], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = put()
    sleeper = Sleeper(place, settings, monkeypatch)
    assert sleeper.run(adopt, "")
    steps = list(dict.fromkeys(sleeper.passed))
    assert {"adopt.recorded", "adopt.table", "adopt.branch_published", "adopt.published"} <= set(steps)
    plain = Graph.open(place, settings)
    rows = {branch: exported(plain, branch) for branch in plain.branches()}
    for step in steps[steps.index("adopt.locked") :][part::PARTS]:
        place = put()
        was_told = Sleeper(place, settings, monkeypatch).run(adopt, "", step, adopt_and_write)
        assert not was_told or step in steps[steps.index("adopt.published") :], step
        graph = Graph.open(place, settings)
        assert not graph.is_original(), step
        graph.prepare_for_writing()
        for branch, before in rows.items():
            after = exported(graph, branch)
            assert [each for each in before if each not in after] == [], (step, branch)
            assert [each["data"]["name"] for each in after if each not in before] == ["Rival"], (step, branch)
            graph.change('query q() { insert Person { name: "Later" } }', branch=branch)
        adoptions = [each for each in graph.log().commits.values() if each.operation == "adopt"]
        assert len(adoptions) == 1, step
        assert wrong(graph) == [], step


def chosen(step: str) -> Any:
    is_short = step in ("adopt.recorded", "adopt.branch_published", "adopt.published")
    return pytest.param(step, marks=[] if is_short else [pytest.mark.soak])


@pytest.mark.parametrize("step", [chosen(step) for step in [*BEFORE, *AFTER]])
def test_one_that_is_stopped_keeps_its_locks_and_goes_on(
    step: str, tmp_path: Path, omnigraph: Omnigraph
) -> None:
    root = unpack_in_place(NEEDS.get(step, "branches"), tmp_path)
    graph = Graph.open(str(root), SETTINGS)
    rows = {branch: exported(graph, branch) for branch in graph.branches()}
    command = [OMNIGRAPH, "adopt", root, "--yes", "--as", "bob"]
    with started(command, cwd=tmp_path, stop_at=step) as stopped:
        stopped.until_stopped()
        seen = Graph.open(str(root), SETTINGS)
        assert seen.is_original() == (step in BEFORE)
        assert {branch: exported(seen, branch) for branch in seen.branches()} == rows
        other = omnigraph("adopt", root, "--yes", "--lock-timeout", "0")
        # Once the graph is ours, there is nothing left to adopt.
        assert other.code == (8 if step in BEFORE else 0), other
        write = omnigraph("change", "-e", INSERT, "--store", root, "--lock-timeout", "0")
        assert write.code == (5 if step in BEFORE else 8), write
        stopped.go_on()
        assert stopped.ended().code == 0
    graph = Graph.open(str(root), SETTINGS)
    assert {branch: exported(graph, branch) for branch in graph.branches()} == rows
    head = graph.head(layout.MAIN_BRANCH)
    assert head is not None
    assert (head.operation, head.actor_id) == ("adopt", "bob")
    assert wrong(graph) == []
