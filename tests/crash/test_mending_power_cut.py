"""The power fails while a graph is mended that nobody can write to before that: `relocate` and `repair`.

Whatever survives, the same command again makes it whole, and one that was acknowledged has done so already.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

from omnigraph_core.graph import Graph
from tests.support.filetrace import record
from tests.support.power_cut_checks import observe
from tests.support.power_cut_programs import ADD, quick, with_branch
from tests.support.powercut import Disk, Survival, draw, turning_points
from tests.support.processes import OMNIGRAPH, clean_environment
from tests.support.writers import check_whole

SEED = 20
SAMPLE = 3


def moved(home: Path) -> None:
    """Made elsewhere, with forks, one of them of a deleted branch."""
    with_branch(home)
    graph = Graph.open(str(home / "g"), quick(home))
    graph.create_branch("gone", "dev")
    graph.change(ADD, params={"n": "lost"}, branch="gone")
    graph.delete_branch("gone")


def drifted(home: Path) -> None:
    """Another program has compacted a table, and published nothing."""
    with_branch(home)
    graph = Graph.open(str(home / "g"), quick(home))
    entry = graph.snapshot().entry("node:Person")
    lance.dataset(str(home / "g" / entry.table_path)).optimize.compact_files()


PREPARED: dict[str, tuple[Callable[[Path], None], tuple[str, ...]]] = {
    "relocate": (moved, ("relocate",)),
    "repair": (drifted, ("repair", "--confirm")),
}


@pytest.mark.parametrize(
    ("name", "is_whole"),
    [(name, False) for name in PREPARED]
    + [pytest.param(name, True, marks=pytest.mark.soak) for name in PREPARED],
)
def test_any_subset_survives(name: str, is_whole: bool, tmp_path: Path) -> None:
    prepare, command = PREPARED[name]
    first = tmp_path / "first"
    prepare(first)
    rows = observe(first)
    home = first.rename(tmp_path / "home") if name == "relocate" else first
    shutil.copytree(home, tmp_path / "before")
    operations = record(
        [str(OMNIGRAPH), *command, "--store", str(home / "g")],
        home,
        clean_environment(OMNIGRAPH_FSYNC="on"),
        tmp_path / "trace.log",
    )
    assert operations, "there was nothing to mend"
    chance, where = random.Random(SEED), turning_points(operations)
    cuts = where if is_whole else chance.choices(where, k=SAMPLE)
    for cut, seed in [(len(operations), ""), *((cut, f"{SEED}/{cut}") for cut in cuts)]:
        disk = Disk(tmp_path / "before")
        for operation in operations[:cut]:
            disk.apply(operation)
        fates = draw(seed, disk.unsynced()) if seed else None
        disk.write_to(home, fates.__getitem__ if fates is not None else Survival.DROPPED)
        if cut < len(operations):
            mend(name, home)
        assert observe(home) == rows, f"after {cut} of {len(operations)} ({seed})"
        graph = Graph.open(str(home / "g"), quick(home))
        for branch in graph.branches():
            graph.change(ADD, params={"n": "later"}, branch=branch)
        if name == "relocate":
            graph.undelete_branch("gone")
            assert ("Person", "lost") in observe(home)["gone"]
        check_whole(graph)


def mend(name: str, home: Path) -> None:
    graph = Graph.open(str(home / "g"), quick(home))
    if name == "relocate":
        graph.relocate()
    else:
        graph.repair(confirm=True)
