"""Processes that are cut short at a system call: what they do, and what must hold afterwards."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support import warm
from tests.support.injection import victim
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.records import PEOPLE
from tests.support.writers import WRITTEN, check_audits, check_whole, content, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")


@dataclass(frozen=True)
class Scenario:
    """A process to be cut. `death` is where an earlier writer died, when it is recovery that is cut."""

    branch: str = "main"
    death: str | None = None
    outcome: str = "before or after"

    def command(self, root: Path) -> list[str]:
        return victim("recover", root) if self.death else victim("write", root, self.branch, "second")


Prepare = Callable[[Scenario, str], Path]


@pytest.fixture
def prepare(tmp_path: Path) -> Prepare:
    """Graphs that are all in the same state, each at a place of its own."""
    pristine = tmp_path / "pristine"
    write_three(Graph.init(str(pristine), PEOPLE, SETTINGS), "first")

    def make(scenario: Scenario, name: str) -> Path:
        root = tmp_path / name
        shutil.copytree(pristine, root)
        if scenario.branch != "main":
            open_graph(root, SETTINGS).create_branch(scenario.branch)
        if scenario.death:
            dead = warm.run(
                victim("write", root, scenario.branch, "second"),
                env=clean_environment(OMNIGRAPH_FAILPOINTS=f"{scenario.death}=kill"),
                cwd=REPOSITORY,
                check=False,
            )
            assert dead.returncode == -signal.SIGKILL
        return root

    return make


def check_outcome(root: Path, scenario: Scenario, *, acknowledged: bool) -> bool:
    """Recover, compare, write again; True if the write is there."""
    open_graph(root, SETTINGS)
    graph = open_graph(root, SETTINGS)
    check_whole(graph)
    check_audits(graph)
    found = content(graph, scenario.branch)
    landed = "second" in found["node:Person"]
    expected = {"first", "second"} if landed else {"first"}
    assert {key: found[key] for key in WRITTEN} == dict.fromkeys(WRITTEN, expected)
    if acknowledged and not scenario.death:
        assert landed, "an acknowledged write is lost"
    if scenario.outcome != "before or after":
        assert landed == (scenario.outcome == "after")
    write_three(graph, "third", scenario.branch)
    check_whole(open_graph(root, SETTINGS))
    return landed
