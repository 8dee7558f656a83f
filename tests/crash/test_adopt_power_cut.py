"""The power fails while a graph of the original is adopted, and any subset of what was not synced survives.

The graph is the original's as it was, or ours; the next `adopt` ends whole; one that was acknowledged is
there. See `tests/support/powercut.py` for the model of the disk.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.maintenance.findings import Severity
from tests.support.filetrace import Operation, record
from tests.support.originals import SETTINGS, commits, exported, unpack_in_place
from tests.support.powercut import Disk, Survival, draw, turning_points
from tests.support.processes import OMNIGRAPH, clean_environment

SEED = 28
SAMPLE = 3
SOAK_SAMPLE = 3
FIXTURES = ("merged", "deletes", "rich")
"""With a branch, with drift, with null blobs."""


class Recorded:
    """An adoption to its end, and the graph as it was before."""

    def __init__(self, name: str, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.root = unpack_in_place(name, self.home)
        self._before = folder / "before"
        shutil.copytree(self.home, self._before)
        graph = Graph.open(str(self.root), SETTINGS)
        self.rows = {branch: exported(graph, branch) for branch in graph.branches()}
        self.commits = {branch: commits(graph, branch) for branch in graph.branches()}
        self.operations: list[Operation] = record(
            [str(OMNIGRAPH), "adopt", str(self.root), "--yes", "--as", "bob"],
            self.home,
            clean_environment(OMNIGRAPH_FSYNC="on"),
            folder / "trace.log",
        )

    def check(self, cut: int, seed: str) -> None:
        disk = Disk(self._before)
        for operation in self.operations[:cut]:
            disk.apply(operation)
        fates = draw(seed, disk.unsynced()) if seed else None
        disk.write_to(self.home, fates.__getitem__ if fates is not None else Survival.DROPPED)
        graph = Graph.open(str(self.root), SETTINGS)
        assert {branch: exported(graph, branch) for branch in graph.branches()} == self.rows
        is_acknowledged = cut == len(self.operations)
        assert not (is_acknowledged and graph.is_original())
        graph.adopt(actor="ann")
        graph = Graph.open(str(self.root), SETTINGS, OpenMode.READ_WRITE)
        assert not graph.is_original()
        assert {branch: exported(graph, branch) for branch in graph.branches()} == self.rows
        assert {branch: commits(graph, branch) for branch in graph.branches()} == self.commits
        adopted = [each.actor_id for each in graph.log().commits.values() if each.operation == "adopt"]
        assert adopted == ["bob"] if is_acknowledged else adopted in (["ann"], ["bob"])
        for branch in graph.branches():
            name = "Thing" if "node:Thing" in graph.snapshot().tables else "Person"
            graph.change(f'query q() {{ insert {name} {{ name: "Zoe" }} }}', branch=branch)
        assert [each for each in graph.doctor(deep=True) if each.severity is not Severity.NOTE] == []


@pytest.mark.parametrize("name", FIXTURES)
def test_any_subset_survives(name: str, tmp_path: Path) -> None:
    """In the normal run the end and a few moments; all of them in `make soak`."""
    recorded = Recorded(name, tmp_path)
    recorded.check(len(recorded.operations), "")
    chance = random.Random(SEED)
    for number in range(SAMPLE):
        recorded.check(chance.choice(turning_points(recorded.operations)), f"{SEED}/{number}")


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FIXTURES)
def test_any_subset_survives_at_every_moment(name: str, tmp_path: Path) -> None:
    recorded = Recorded(name, tmp_path)
    for cut in turning_points(recorded.operations):
        for seed in ("", *map(str, range(SOAK_SAMPLE))):
            recorded.check(cut, f"{cut}/{seed}" if seed else "")
