"""Publishers in processes of their own that publish in step."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import omnigraph_core
from omnigraph_core.manifest.reader import Manifest
from tests.support import warm
from tests.support.processes import clean_environment

A, B = "node:A", "node:B"


LOSSES = {"ExpectedVersionMismatch", "HeadChanged", "RowLevelCasContention"}


# Reads when told "look", so that all see the same head; publishes when told "go".
WORKER = """
import json, sys
from pathlib import Path
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.manifest import publisher as publisher_module
from omnigraph_core.manifest.publisher import Publisher
from omnigraph_core.manifest.request import Publish, Update
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.manifest.fenced import upsert_fenced
from omnigraph_core.manifest.branch import MAIN
from omnigraph_core.manifest.commit import Commit
from omnigraph_core.manifest.rows import GraphHead, Outcome, VersionMetadata
from omnigraph_core.settings import load_settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.tables.dataset import Tables

merges = 0

def counted(*arguments):
    global merges
    merges += 1
    return upsert_fenced(*arguments)

publisher_module.upsert_fenced = counted
place, me, table_key, sees_head = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4] == "head"
manifest = Manifest(Tables(open_storage(parse_location(place, Path("/")), load_settings())))
publisher = Publisher(manifest)

def head(number, parent):
    commit = Commit(
        commit_id=f"{me}-{number}", parent_commit_id=parent, merged_parent_commit_id=None, actor_id=me,
        created_at=number, operation="load", schema_hash="sha256:0",
    )
    return GraphHead(commit, f"{me}-{number}", Outcome.APPLIED, lock_token=1)

def answer(text):
    print(text, flush=True)

for number, line in enumerate(sys.stdin):
    seen = manifest.snapshot()
    version = seen.entry(table_key).table_version
    request = Publish(
        MAIN,
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
            warm.Popen(
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
