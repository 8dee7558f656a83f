"""Publishers in processes of their own, all after the same row: one wins each round, nobody is fooled."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import omnigraph_core
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.settings import Settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.tables.dataset import Tables
from tests.conftest import clean_environment
from tests.contract.graphs import new_manifest

A, B = "node:A", "node:B"
ROUNDS = 100
LOSSES = {"ExpectedVersionMismatch", "HeadChanged", "RowLevelCasContention"}

# Reads when told "look", so that all see the same head; publishes when told "go".
WORKER = """
import json, sys
from pathlib import Path
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.manifest import publisher as publisher_module
from omnigraph_core.manifest.publisher import Publish, Publisher, Update
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.tables.fence import merge_fenced
from omnigraph_core.manifest.rows import OUTCOME_APPLIED, GraphHead, VersionMetadata
from omnigraph_core.settings import load_settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.tables.dataset import Tables

merges = 0

def counted(*arguments):
    global merges
    merges += 1
    return merge_fenced(*arguments)

publisher_module.merge_fenced = counted
place, me, table_key, sees_head = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4] == "head"
manifest = Manifest(Tables(open_storage(parse_location(place, Path("/")), load_settings())))
publisher = Publisher(manifest)

def head(number, parent):
    return GraphHead(
        commit_id=f"{me}-{number}", parent_commit_id=parent, merged_parent_commit_id=None, actor_id=me,
        created_at=number, operation_id=f"{me}-{number}", operation="load", outcome=OUTCOME_APPLIED,
        schema_hash="sha256:0", lock_token=1,
    )

def answer(text):
    print(text, flush=True)

for number, line in enumerate(sys.stdin):
    seen = manifest.snapshot()
    version = seen.entry(table_key).table_version
    request = Publish(
        "main",
        head(number, seen.head.commit_id),
        updates=[Update(table_key, version + 1, None, int(me), VersionMetadata(""))],
        expected_versions={table_key: version},
        expected_head=seen.head.commit_id if sees_head else None,
    )
    answer("ready")
    merges = 0
    sys.stdin.readline()
    try:
        after = publisher.publish(request, lambda: None)
        answer(json.dumps({"won": after.manifest_version, "head": after.head.commit_id, "merges": merges}))
    except OmnigraphError as error:
        answer(json.dumps({"lost": type(error).__name__, "merges": merges}))
    sys.stdin.readline()
    publisher.compact("main", f"{me}-{number}-compact", lambda: None)
    answer("done")
"""


class Workers:
    """Processes that publish in step; the parent's pipes are the barrier."""

    def __init__(
        self,
        place: str | Path,
        table_keys: list[str],
        *,
        sees_head: bool,
        environment: dict[str, str] | None = None,
    ) -> None:
        root = Path(omnigraph_core.__file__).parents[1]
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-c", WORKER, str(place), str(me), key, "head" if sees_head else "tables"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=root,
                env=clean_environment(**(environment or {})),
            )
            for me, key in enumerate(table_keys)
        ]

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    def tell(self) -> list[str]:
        """Let all of them take one step at once, and wait for what each has to say."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        return [self._line(process) for process in self._processes]

    @staticmethod
    def _line(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "a publisher died; its traceback is above"
        return line.strip()

    def round(self) -> list[dict[str, str | int]]:
        assert set(self.tell()) == {"ready"}
        outcomes = [json.loads(text) for text in self.tell()]
        assert set(self.tell()) == {"done"}
        return outcomes


def graph(tmp_path: Path) -> Manifest:
    storage = open_storage(parse_location("g", tmp_path), Settings(fsync=False))
    return new_manifest(Tables(storage), A, B)


def assert_no_duplicates(manifest: Manifest) -> list[str]:
    object_ids: list[str] = manifest.open("main").read(["object_id"]).column("object_id").to_pylist()
    assert [key for key, times in Counter(object_ids).items() if times > 1] == []
    return object_ids


def race(manifest: Manifest, workers: Workers, rounds: int) -> None:
    """All publish the next version of one table, again and again; one of them gets through each time."""
    winners: Counter[int] = Counter()
    fenced = 0
    for number in range(rounds):
        outcomes = workers.round()
        won = [me for me, outcome in enumerate(outcomes) if "won" in outcome]
        assert len(won) == 1, f"round {number}: {outcomes}"
        assert {str(outcome["lost"]) for outcome in outcomes if "lost" in outcome} <= LOSSES
        snapshot = manifest.snapshot()
        assert snapshot.entry(A).table_version == number + 2
        assert snapshot.entry(A).row_count == won[0]
        assert snapshot.head is not None
        assert snapshot.head.commit_id == outcomes[won[0]]["head"] == f"{won[0]}-{number}"
        winners.update(won)
        fenced += sum(1 for outcome in outcomes if "lost" in outcome and outcome["merges"])
    object_ids = assert_no_duplicates(manifest)
    assert sum(object_id.startswith(f"{A}$") for object_id in object_ids) == rounds + 1
    assert len(winners) > 1, "the same process won every round: this was no race"
    assert fenced > rounds // 10, f"only {fenced} publishes were decided by the fence: this was no race"


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
