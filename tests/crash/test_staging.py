"""Staging records: a live one is spared, a dead one's files go."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from omnigraph_core.write.staging import StagingRecord, staging, sweep_staging
from tests.conftest import PEOPLE, REPOSITORY, clean_environment
from tests.writers import check_whole, open_graph

SETTINGS = Settings(fsync=False, actor="ann")

LONG_WRITE = """
import sys, time
from pathlib import Path
from omnigraph_core.settings import Settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.write.staging import StagingRecord, staging
root = Path(sys.argv[1])
storage = open_storage(parse_location(str(root), root), Settings(fsync=False))
record = StagingRecord("01LONG", "Load", "main", "ann", ("nodes/x/data/a.lance", "nodes/y"), ())
with staging(storage, record):
    (root / "nodes/x/data").mkdir(parents=True)
    (root / "nodes/x/data/a.lance").write_text("staged")
    (root / "nodes/y/data").mkdir(parents=True)
    (root / "nodes/y/data/b.lance").write_text("staged")
    print("staged", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(str(tmp_path / "g"), PEOPLE, SETTINGS)


def test_a_finished_write_leaves_nothing(graph: Graph) -> None:
    record = StagingRecord("01SHORT", "Load", "main", "ann", (), (("node:Person", 1),))
    storage = graph.door.storage
    with staging(storage, record):
        assert storage.control.list("__staging") == ["01SHORT.json"]
        assert sweep_staging(storage, lambda name, start, identity: None) == []
        assert storage.control.list("__staging") == ["01SHORT.json"]
    assert storage.control.list("__staging") == []
    assert not [name for name in storage.control.list("__locks") if "staging" in name]


def test_a_killed_write_is_swept_by_the_next_writer(graph: Graph) -> None:
    root = graph.location.path
    process = subprocess.Popen(
        [sys.executable, "-c", LONG_WRITE, str(root)],
        env=clean_environment(),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "staged\n"
    open_graph(root, SETTINGS)
    assert (root / "nodes/x/data/a.lance").exists()
    process.kill()
    process.wait()
    check_whole(open_graph(root, SETTINGS))
    assert not (root / "nodes/x/data/a.lance").exists()
    assert not (root / "nodes/y").exists()


def test_a_failed_write_is_swept_too(graph: Graph) -> None:
    record = StagingRecord("01FAILS", "Load", "main", "ann", ("nodes/z",), ())
    storage = graph.door.storage

    def fail() -> None:
        with staging(storage, record):
            (graph.location.path / "nodes/z").mkdir()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert sweep_staging(storage, lambda name, start, identity: None) == ["01FAILS"]
    assert not (graph.location.path / "nodes/z").exists()
    check_whole(graph)
