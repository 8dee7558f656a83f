"""Two writers stage on one fresh fork; one of them dies and is recovered. The other one finishes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings
from omnigraph_core.write.phases import Published
from omnigraph_core.write.plan import WritePlan
from tests.support.dying import die
from tests.support.writers import check_whole, content, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")

# What becomes of the write that dies at a step.
DEATHS = {
    "write.after_a": False,
    "write.table_committed.1": False,
    "write.table_committed.2": False,
    "write.after_b": True,
    "write.published": True,
}


@pytest.fixture
def graph(graph: Graph) -> Graph:
    write_three(graph, "first")
    graph.create_branch("dev")
    return graph


def before_the_first_publish(graph: Graph, happens: Callable[[WritePlan], object]) -> list[WritePlan]:
    """Let something happen when everything is staged; the plans that came to be published."""
    publish, plans = graph.door.publish, []

    def interrupted(plan: WritePlan) -> Published:
        plans.append(plan)
        if len(plans) == 1:
            happens(plan)
        return publish(plan)

    graph.door.publish = interrupted  # type: ignore[method-assign]
    return plans


def load_alive(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "alive.jsonl"
    path.write_text(
        json.dumps({"type": "Person", "data": {"name": "alive"}})
        + "\n"
        + json.dumps({"edge": "Knows", "from": "alive", "to": "alive", "data": {"id": "alive"}})
        + "\n"
    )
    graph.load([str(path)], LoadMode.APPEND, branch="dev")


def check_alive(graph: Graph, *, dead: bool) -> None:
    check_whole(open_graph(graph.location.path, SETTINGS))
    people = {"first", "alive"} | ({"dead"} if dead else set())
    assert content(graph, "dev")["node:Person"] == people
    assert content(graph)["node:Person"] == {"first"}
    write_three(graph, "next", "dev")
    check_whole(graph)


@pytest.mark.parametrize("step", DEATHS)
def test_who_shares_a_fork_with_a_dead_writer_finishes(step: str, graph: Graph, tmp_path: Path) -> None:
    """What it has staged is still there when it is planned again, and is used again."""
    plans = before_the_first_publish(graph, lambda _: die(graph, step, "dead", "dev"))
    load_alive(graph, tmp_path)
    files = [{file.path for write in plan.staged for file in write.files} for plan in plans]
    assert all(each == files[0] for each in files)
    check_alive(graph, dead=DEATHS[step])


def test_a_fork_that_a_dead_writer_has_not_moved_stays(graph: Graph) -> None:
    die(graph, "write.after_a", "dead", "dev")
    fork = graph.snapshot("dev").entry("node:Person").ref.on("dev")
    graph = open_graph(graph.location.path, SETTINGS)
    assert graph.door.tables.open(fork).version == graph.snapshot().entry("node:Person").table_version
    assert graph.snapshot("dev").entry("node:Person").table_branch is None
    check_whole(graph)


def test_a_fork_that_a_dead_writer_has_moved_is_restored_and_published(graph: Graph) -> None:
    die(graph, "write.table_committed.1", "dead", "dev")
    graph = open_graph(graph.location.path, SETTINGS)
    moved, untouched = (graph.snapshot("dev").entry(key) for key in ("node:Person", "node:Company"))
    assert (moved.table_branch, untouched.table_branch) == ("dev", None)
    assert content(graph, "dev")["node:Person"] == {"first"}
    check_whole(graph)


def test_staged_files_that_are_gone_are_written_again(graph: Graph, tmp_path: Path) -> None:
    """Somebody had to clear the fork; a plan that keeps relying on them would never get anywhere."""

    def lose(plan: WritePlan) -> None:
        for write in plan.staged:
            for file in write.files:
                (graph.location.path / file.path).unlink()

    plans = before_the_first_publish(graph, lose)
    load_alive(graph, tmp_path)
    assert len(plans) == 2
    check_alive(graph, dead=False)


def test_a_late_version_of_a_fork_is_undone_on_the_fork(graph: Graph) -> None:
    """Its sidecar is gone. The parent has moved on meanwhile, and is nobody's business on the branch."""
    heads: dict[str, int] = {}

    def move_late(_: WritePlan) -> None:
        die(graph, "write.table_committed.1", "dead", "dev")
        (left,) = graph.pending()
        graph.door.storage.control.delete(left.path)
        write_three(open_graph(graph.location.path, SETTINGS), "on-main")
        heads.update(main_heads(graph))

    before_the_first_publish(graph, move_late)
    write_three(graph, "alive", "dev")
    assert main_heads(graph) == heads
    assert content(graph, "dev")["node:Person"] == {"first", "alive"}
    assert [each.sidecar_writer_kind for each in graph.recoveries()] == ["LateWriter"]
    check_whole(graph)


def main_heads(graph: Graph) -> dict[str, int]:
    return {key: graph.door.tables.open(entry.ref).version for key, entry in graph.snapshot().tables.items()}
