"""Publishers in processes of their own, all after the same row: one wins each round, nobody is fooled."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.settings import Settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.tables.dataset import Tables
from tests.support.graphs import new_manifest
from tests.support.publishers import A, B, Workers, assert_no_duplicates, race

ROUNDS = 100


def graph(tmp_path: Path) -> Manifest:
    storage = open_storage(parse_location("g", tmp_path), Settings(fsync=False))
    return new_manifest(Tables(storage), A, B)


@pytest.mark.parametrize("sees_head", [False, True], ids=["tables", "head"])
@pytest.mark.parametrize("processes", [2, 4])
def test_one_publisher_of_a_version_wins_each_round(processes: int, sees_head: bool, tmp_path: Path) -> None:
    manifest = graph(tmp_path)
    with Workers(tmp_path / "g", [A] * processes, sees_head=sees_head) as workers:
        race(manifest, workers, ROUNDS)


def test_publishers_of_different_tables_both_land_without_a_lock(tmp_path: Path) -> None:
    """They meet in the head row: the second sees the first and publishes on top of it."""
    manifest = graph(tmp_path)
    rounds = ROUNDS // 4
    with Workers(tmp_path / "g", [A, B], sees_head=False) as workers:
        for number in range(rounds):
            outcomes = workers.round()
            assert all("won" in outcome for outcome in outcomes), f"round {number}: {outcomes}"
            assert len({outcome["won"] for outcome in outcomes}) == 2
    snapshot = manifest.snapshot()
    assert {key: entry.table_version for key, entry in snapshot.tables.items()} == {
        A: rounds + 1,
        B: rounds + 1,
    }
    assert_no_duplicates(manifest)


def test_publishers_of_different_tables_exclude_each_other_by_the_head(tmp_path: Path) -> None:
    manifest = graph(tmp_path)
    rounds = ROUNDS // 4
    losses: Counter[str] = Counter()
    with Workers(tmp_path / "g", [A, B], sees_head=True) as workers:
        for number in range(rounds):
            outcomes = workers.round()
            assert sum("won" in outcome for outcome in outcomes) == 1, f"round {number}: {outcomes}"
            losses.update(str(outcome["lost"]) for outcome in outcomes if "lost" in outcome)
    assert losses == {"HeadChanged": rounds}
    snapshot = manifest.snapshot()
    assert sum(entry.table_version - 1 for entry in snapshot.tables.values()) == rounds
    assert_no_duplicates(manifest)
