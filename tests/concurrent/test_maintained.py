"""Writers, a merging agent and `maintain` side by side, killed at random: nothing is lost, little is left."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.graph import Graph
from tests.support.processes import Omnigraph
from tests.support.records import PEOPLE
from tests.support.restarted import acknowledged, run_with_kills
from tests.support.upkeep import KEEP, SETTINGS, process
from tests.support.writers import WRITTEN, check_audits, check_whole, content, open_graph

DAYS_S = 200_000.0


def run_all(root: Path, writes: int, merges: int, runs: int, kills: int, chance: random.Random) -> None:
    everyone = [
        *(process("write", root, f"w{number}", writes) for number in range(4)),
        process("merge", root, "m", merges),
        process("maintain", root, "k", runs),
    ]
    run_with_kills(everyone, kills, chance)


def check(root: Path, omnigraph: Omnigraph) -> None:
    graph = open_graph(root, SETTINGS)
    keys = {key for path in root.parent.glob("*.journal") for key in acknowledged(path) if key[0] != "k"}
    for table in WRITTEN:
        assert keys <= content(graph)[table], "an acknowledged write is lost"
    for branch in graph.branches():  # Of merging agents that were killed.
        if branch != "main":
            graph.delete_branch(branch)
    age_everything(root)
    for _ in range(2):
        assert not graph.cleanup(keep=KEEP, grace_s=0.0).has_failed
    check_whole(graph)
    check_audits(graph)
    check_small(graph)
    found = omnigraph("doctor", str(root))
    assert found.code == 0, found.out


def age_everything(root: Path) -> None:
    """As if all of it had been days ago, so that what killed writers staged counts as left."""
    then = time.time() - DAYS_S
    for path in root.rglob("*"):
        os.utime(path, (then, then))


def check_small(graph: Graph) -> None:
    """What is on disk follows the commits that are kept, not those there have been."""
    folders = [layout.MANIFEST, layout.COMMITS, layout.COMMIT_ACTORS]
    folders += [entry.table_path for entry in graph.snapshot().tables.values()]
    for folder in folders:
        place = graph.location.path / folder
        versions = list((place / "_versions").glob("*.manifest"))
        assert len(versions) <= KEEP + 2, (folder, len(versions))
        assert not (place / "tree").exists() or not list((place / "tree").rglob("*.lance")), folder
    assert list(graph.location.path.rglob(".og-tmp.*")) == []
    tables = [graph.door.tables.open(entry.ref) for entry in graph.snapshot().tables.values()]
    used = sum(table.count_fragments() for table in tables)
    data = [path for table in tables for path in (graph.location.path / table.ref.path / "data").glob("*")]
    assert len(data) <= used + 8 * KEEP * len(tables), "files that nothing refers to"


def test_maintain_beside_writers_that_are_killed(tmp_path: Path, omnigraph: Omnigraph) -> None:
    Graph.init(str(tmp_path / "g"), PEOPLE, SETTINGS)
    run_all(tmp_path / "g", writes=8, merges=2, runs=4, kills=5, chance=random.Random(7))
    check(tmp_path / "g", omnigraph)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_maintain_beside_writers_that_are_killed_for_long(tmp_path: Path, omnigraph: Omnigraph) -> None:
    """About ten minutes on two quiet cores."""
    Graph.init(str(tmp_path / "g"), PEOPLE, SETTINGS)
    chance = random.Random()
    run_all(tmp_path / "g", writes=1_500, merges=200, runs=150, kills=200, chance=chance)
    check(tmp_path / "g", omnigraph)
