"""A branch made for a load: removed with a load that fails, and never anybody else's.

Plain commands in processes of their own. A slow load is one whose input does not end.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import BusyError
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.paused import started
from tests.support.processes import OMNIGRAPH, Omnigraph
from tests.support.records import PEOPLE, nodes
from tests.support.writers import check_whole, open_graph

SETTINGS = Settings(fsync=False, actor="ann", lock_timeout_s=30)
INSERT = "query q($n: String) { insert Person { name: $n } }"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(str(tmp_path / "g"), PEOPLE, SETTINGS)


def load(*more: str) -> list[str | Path]:
    return [
        OMNIGRAPH,
        "load",
        "g",
        "--data",
        "-",
        "--mode",
        "append",
        "--branch",
        "x",
        "--from",
        "main",
        *more,
    ]


def person(name: str) -> str:
    return f'{{"type":"Person","data":{{"name":"{name}"}}}}\n'


def people(graph: Graph, branch: str) -> set[str]:
    return set(nodes(graph, "Person", branch=branch))


def killed_load(tmp_path: Path, step: str = "branch.made_for_write") -> None:
    """A load to the new branch x that dies when it has made it."""
    with started(load(), cwd=tmp_path, OMNIGRAPH_FAILPOINTS=f"{step}=kill") as dead:
        dead.say(person("dead"))
        assert dead.ended().code == -signal.SIGKILL


def change(name: str, branch: str) -> list[str | Path]:
    params = json.dumps({"n": name})
    return [OMNIGRAPH, "change", "-e", INSERT, "--params", params, "--branch", branch, "--store", "g"]


# ---- somebody else's branch ----


def test_a_branch_that_somebody_makes_meanwhile_is_written_to_and_stays(
    graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    with started(load("--json"), cwd=tmp_path) as slow:
        slow.feed(person("early"))
        assert omnigraph("branch", "create", "x", "--store", "g").code == 0
        slow.say(person("late"))
        done = slow.ended()
    assert (done.code, json.loads(done.out)["branch_created"]) == (0, False), done.err
    after = open_graph(tmp_path / "g", SETTINGS)
    assert (after.branches(), people(after, "x")) == (["main", "x"], {"early", "late"})
    check_whole(after)


@pytest.mark.parametrize("fails", [False, True])
def test_a_branch_that_somebody_makes_at_the_last_moment_is_not_the_loads(
    fails: bool, graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    """The load has found it missing, and its record is up."""
    with started(load(), cwd=tmp_path, stop_at="staging.recorded") as slow:
        slow.say(person("late"))
        slow.until_stopped()
        assert omnigraph("branch", "create", "x", "--store", "g").code == 0
        if fails:
            slow.kill()
        else:
            slow.go_on()
            assert slow.ended().code == 0
    after = open_graph(tmp_path / "g", SETTINGS)
    assert (after.branches(), people(after, "x")) == (["main", "x"], set() if fails else {"late"})
    check_whole(after)


def test_of_two_loads_into_one_new_name_none_removes_the_branch_of_the_other(
    graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    """The first dies with its branch made and nothing written; the second is about to write to it."""
    with started(load(), cwd=tmp_path, stop_at="staging.recorded") as second:
        second.say(person("second"))
        second.until_stopped()
        killed_load(tmp_path)
        assert omnigraph("branch", "create", "other", "--store", "g").code == 0
        assert "x" in graph.branches(), "a sweep took the branch that a live load is about to write to"
        second.go_on()
        assert second.ended().code == 0
    after = open_graph(tmp_path / "g", SETTINGS)
    assert people(after, "x") == {"second"}
    check_whole(after)


def test_a_branch_of_the_same_name_made_after_it_is_another(
    graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    """A record outlives its branch: somebody removed that one and made one of his own."""
    killed_load(tmp_path)
    (record,) = (tmp_path / "g/__staging").glob("*.json")
    kept = record.read_bytes()
    graph.delete_branch("x")
    graph.create_branch("x")
    record.write_bytes(kept)
    after = open_graph(tmp_path / "g", SETTINGS)
    assert after.branches() == ["main", "x"]
    check_whole(after)


# ---- written to meanwhile ----


def test_a_sweep_removes_no_branch_that_is_being_written_to(graph: Graph, tmp_path: Path) -> None:
    """The sweep stands still between its judgement and the deletion. Whatever the writer is told, is true."""
    killed_load(tmp_path)
    with started(change("main", "main"), cwd=tmp_path, stop_at="branch.to_be_forgotten") as sweep:
        sweep.until_stopped()
        writer = Graph.open(str(tmp_path / "g"), Settings(fsync=False, actor="bob", lock_timeout_s=0.2))
        try:
            writer.change(INSERT, params={"n": "bob"}, branch="x")
            acknowledged = True
        except BusyError:
            acknowledged = False
        sweep.go_on()
        assert sweep.ended().code == 0
    after = open_graph(tmp_path / "g", SETTINGS)
    assert ("x" in after.branches()) is acknowledged, "an acknowledged write is gone with its branch"
    check_whole(after)


def test_a_branch_that_was_written_to_stays_although_its_load_died(graph: Graph, tmp_path: Path) -> None:
    killed_load(tmp_path)
    graph.change(INSERT, params={"n": "bob"}, branch="x")
    after = open_graph(tmp_path / "g", SETTINGS)
    assert people(after, "x") == {"bob"}
    check_whole(after)


def test_a_branch_that_others_build_on_stays(graph: Graph, tmp_path: Path) -> None:
    """Nothing but the trace of the dead load's recovery is on it, and that is where they start."""
    killed_load(tmp_path, "write.after_a")
    graph.door.sweeper.sweep()
    graph.create_branch("y", "x")
    after = open_graph(tmp_path / "g", SETTINGS)
    assert after.branches() == ["main", "x", "y"]
    check_whole(after)


# ---- nobody waits ----


def test_a_sweep_waits_for_no_writer(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    """After a killed load somebody writes to its branch, and somebody else to main."""
    killed_load(tmp_path)
    # Held from before it starts, so that it does not sweep by itself.
    refs = graph.door.storage.locks.lock(layout.REFS_LOCK).acquire()
    with started(change("bob", "x"), cwd=tmp_path, stop_at="write.before_a") as writer:
        with refs:
            writer.until_stopped()
        done = omnigraph(*change("main", "main")[1:], "--lock-timeout", "0")
        assert done.code == 0, done.err
        writer.go_on()
        assert writer.ended().code == 0
    after = open_graph(tmp_path / "g", SETTINGS)
    assert people(after, "x") == {"bob"}
    check_whole(after)


def test_a_sweep_waits_for_nobody_who_makes_branches(
    graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    killed_load(tmp_path)
    with graph.door.storage.locks.lock(layout.REFS_LOCK):
        done = omnigraph(*change("main", "main")[1:], "--lock-timeout", "0")
        assert done.code == 0, done.err
    after = open_graph(tmp_path / "g", SETTINGS)
    assert after.branches() == ["main"]
    check_whole(after)


def test_a_load_that_cannot_remove_its_branch_says_why_it_failed(graph: Graph, tmp_path: Path) -> None:
    """Not that it could not tidy up; the next sweep does that."""
    points = "branch.to_be_forgotten=error,write.before_a=error"
    with started(load(), cwd=tmp_path, OMNIGRAPH_FAILPOINTS=points) as failing:
        failing.say(person("late"))
        done = failing.ended()
    assert (done.code, "injected fault at write.before_a" in done.err) == (74, True), done.err
    assert "x" in graph.branches()
    after = open_graph(tmp_path / "g", SETTINGS)
    assert after.branches() == ["main"]
    check_whole(after)
