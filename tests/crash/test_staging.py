"""Staging records: a live one is spared, a dead one's files go, and one that cannot be read stays."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from omnigraph_core.write.plan import WriterKind
from omnigraph_core.write.staging import StagingSwept, staging, sweep_staging
from omnigraph_core.write.staging_record import LOAD_KIND, StagingRecord, StagingUnreadable
from tests.support import warm
from tests.support.processes import REPOSITORY, Omnigraph, clean_environment
from tests.support.writers import check_whole, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")
TABLE = "nodes/0123456789abcdef"

LONG_WRITE = """
import sys, time
from pathlib import Path
from omnigraph_core.settings import Settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.write.staging import staging
from omnigraph_core.write.staging_record import StagingRecord
root = Path(sys.argv[1])
storage = open_storage(parse_location(str(root), root), Settings(fsync=False))
files = [sys.argv[2] + "/data/a.lance", sys.argv[2] + "/tree/dev/data/b.lance"]
operation = "01XNGXXXXXXXXXXXXXXXXXXXXX"
record = StagingRecord(operation, "Load", "main", "ann", (*files, f"__staging/{operation}"))
with staging(storage, record):
    for file in [*files, "__staging/01XNGXXXXXXXXXXXXXXXXXXXXX/list"]:
        (root / file).parent.mkdir(parents=True)
        (root / file).write_text("staged")
    print("staged", flush=True)
    time.sleep(600)
"""


def forget_nothing(record: StagingRecord) -> bool:
    return True


def test_a_finished_write_leaves_nothing(graph: Graph) -> None:
    record = StagingRecord("01SHRTXXXXXXXXXXXXXXXXXXXX", "Load", "main", "ann", pinned=(("node:Person", 1),))
    storage = graph.door.storage
    with staging(storage, record):
        assert storage.control.list("__staging") == ["01SHRTXXXXXXXXXXXXXXXXXXXX.json"]
        assert sweep_staging(storage, forget_nothing).swept == ()
        assert storage.control.list("__staging") == ["01SHRTXXXXXXXXXXXXXXXXXXXX.json"]
    assert storage.control.list("__staging") == []
    assert not [name for name in storage.control.list("__locks") if "staging" in name]


def test_a_killed_write_is_swept_by_the_next_writer(graph: Graph) -> None:
    root = graph.location.path
    process = warm.Popen(
        [sys.executable, "-c", LONG_WRITE, str(root), TABLE],
        env=clean_environment(),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "staged\n"
    open_graph(root, SETTINGS)
    assert (root / TABLE / "data/a.lance").exists()
    process.kill()
    process.wait()
    check_whole(open_graph(root, SETTINGS))
    assert not (root / TABLE / "data/a.lance").exists()
    assert not (root / TABLE / "tree/dev/data/b.lance").exists()
    assert not (root / "__staging/01XNGXXXXXXXXXXXXXXXXXXXXX").exists()


def test_a_failed_write_is_swept_too(graph: Graph) -> None:
    record = StagingRecord("01FASXXXXXXXXXXXXXXXXXXXXX", "Load", "main", "ann", (f"{TABLE}/data/z.lance",))
    storage = graph.door.storage
    file = graph.location.path / record.paths[0]

    def fail() -> None:
        with staging(storage, record):
            file.parent.mkdir(parents=True)
            file.touch()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert sweep_staging(storage, forget_nothing).swept == ("01FASXXXXXXXXXXXXXXXXXXXXX",)
    assert not file.exists()
    check_whole(graph)


# ---- whose record is it? ----


def test_a_write_that_was_swept_cannot_change_its_record(graph: Graph) -> None:
    """Its lock file is taken away, as a lease is that ran out while its holder slept."""
    storage = graph.door.storage
    record = StagingRecord("01SPTXXXXXXXXXXXXXXXXXXXXX", "Load", "main", "ann")
    with staging(storage, record) as kept:
        kept.amend(paths=(f"{TABLE}/data/z.lance",))
        storage.locks.forget("staging.01SPTXXXXXXXXXXXXXXXXXXXXX")
        assert sweep_staging(storage, forget_nothing).swept == ("01SPTXXXXXXXXXXXXXXXXXXXXX",)
        with pytest.raises(StagingSwept):
            kept.amend(paths=())
        assert storage.control.list("__staging") == []
        with pytest.raises(StagingSwept):
            kept.check()


def test_a_lock_that_was_lost_while_nobody_came_is_taken_again(graph: Graph) -> None:
    storage = graph.door.storage
    with staging(storage, StagingRecord("01SPTXXXXXXXXXXXXXXXXXXXXX", "Load", "main", "ann")) as kept:
        storage.locks.forget("staging.01SPTXXXXXXXXXXXXXXXXXXXXX")
        kept.check()
        assert sweep_staging(storage, forget_nothing).swept == ()
    assert storage.control.list("__staging") == []


def test_a_sweep_that_slept_takes_nothing_from_a_write_that_went_on(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the record, and before it acts the record is another."""
    storage = graph.door.storage
    file = graph.location.path / TABLE / "data/z.lance"
    file.parent.mkdir(parents=True)
    file.touch()
    with staging(storage, StagingRecord("01AWAKEXXXXXXXXXXXXXXXXXXX", "Load", "main", "ann")) as kept:
        kept.amend(paths=(f"{TABLE}/data/z.lance",))
        storage.locks.forget("staging.01AWAKEXXXXXXXXXXXXXXXXXXX")
        monkeypatch.setattr("omnigraph_core.write.staging.listed_files", lambda *_: kept.amend() or [])
        sweep_staging(storage, forget_nothing)
        assert file.exists()
        kept.amend(paths=())


# ---- records that cannot be read ----

GOOD: dict[str, Any] = json.loads(
    StagingRecord(
        "01BADBADBADBADBADBADBADBAD",
        "Load",
        "main",
        "ann",
        (f"{TABLE}/data/a.lance", "__staging/01BADBADBADBADBADBADBADBAD"),
        (("node:Person", 1),),
        made_from="01C",
        made_twin="uuid",
        lists="__staging/01BADBADBADBADBADBADBADBAD/files",
    ).encode()
)
# Without a digest, which would tell of any change before the fields do.
PLAIN = {name: value for name, value in GOOD.items() if name != "digest"}
BAD = {
    "empty": b"",
    "cut short": json.dumps(PLAIN).encode()[:-20],
    "not an object": b"[]",
    "of a newer version": json.dumps(PLAIN | {"schema_version": 2}).encode(),
    "of another operation": json.dumps(PLAIN | {"operation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}).encode(),
    "of an unknown kind": json.dumps(PLAIN | {"kind": "Teleport"}).encode(),
    **{
        f"{name} is {value!r}": json.dumps(PLAIN | {name: value}).encode()
        for name, value in [
            ("branch", 7),
            ("actor_id", ["ann"]),
            ("made_from", 1),
            ("made_twin", {}),
            ("started_at", "soon"),
            ("lists", "__staging"),
            ("lists", "nodes"),
            ("paths", "nodes"),
            ("paths", [1]),
            ("paths", ["nodes"]),
            ("paths", [TABLE]),
            ("paths", [f"{TABLE}/data"]),
            ("paths", [f"{TABLE}/tree/dev"]),
            ("paths", [f"{TABLE}/data/../../x/data/y"]),
            ("paths", ["/etc/passwd"]),
            ("paths", ["__manifest/data/x.lance"]),
            ("paths", ["__staging/01OTHER"]),
            ("pinned", [{"table_key": "node:Person", "version": "1"}]),
            ("pinned", [1]),
            ("pinned", [{"table_key": "node:Person", "version": 1, "more": 1}]),
            ("started_at", 5),
            ("started_at", "9" * 40),
            ("branch", "../main"),
            ("branch", None),
            ("actor_id", "\ud800"),
            ("paths", [f"{TABLE}/data//x"]),
            ("more", 1),
        ]
    },
}


def test_a_good_record_is_read_back() -> None:
    record = StagingRecord.decode("01BADBADBADBADBADBADBADBAD", json.dumps(GOOD).encode())
    assert json.loads(record.encode()) == GOOD
    assert WriterKind.LOAD.value == LOAD_KIND


@pytest.mark.parametrize("what", BAD)
def test_a_record_is_understood_in_full_or_not_at_all(what: str) -> None:
    with pytest.raises(StagingUnreadable):
        StagingRecord.decode("01BADBADBADBADBADBADBADBAD", BAD[what])


def test_a_record_that_cannot_be_read_stays_and_stops_nobody(graph: Graph) -> None:
    root = graph.location.path
    damaged = ("empty", "of a newer version", "paths is ['nodes']")
    files = [root / f"__staging/{number:026}.json" for number in range(len(damaged))]
    files[0].parent.mkdir(exist_ok=True)
    for file, what in zip(files, damaged, strict=True):
        file.write_bytes(BAD[what].replace(b"01BADBADBADBADBADBADBADBAD", file.stem.encode()))
    opened = open_graph(root, SETTINGS)
    assert all(file.name in text for file, text in zip(files, opened.warnings, strict=True))
    write_three(opened, "ann")
    for file in files:
        file.unlink()
    check_whole(open_graph(root, SETTINGS))


def test_a_record_that_cannot_be_read_is_reported(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (graph.location.path / "__staging").mkdir(exist_ok=True)
    (graph.location.path / "__staging/01BADBADBADBADBADBADBADBAD.json").write_bytes(b"")
    (graph.location.path / "__staging/notes.txt~").write_bytes(b"an editor's")
    done = omnigraph("branch", "create", "b", "--store", "g")
    assert (
        done.code,
        done.err.count("warning: __staging/01BADBADBADBADBADBADBADBAD.json cannot be read"),
    ) == (0, 1), done.err
    assert "warning: __staging/01BADBADBADBADBADBADBADBAD.json" in omnigraph("recovery", "run", "g").err


def test_a_list_that_cannot_be_read_keeps_its_record(graph: Graph) -> None:
    """It names files that nobody else knows of."""
    storage = graph.door.storage
    record = StagingRecord.decode("01BADBADBADBADBADBADBADBAD", json.dumps(GOOD).encode())
    storage.control.create(record.path, replace(record, made_twin=None).encode())
    storage.control.create("__staging/01BADBADBADBADBADBADBADBAD/files/task.json", b'["nodes"]')
    found = sweep_staging(storage, forget_nothing)
    assert (found.swept, len(found.kept)) == ((), 1)
    assert storage.control.exists("__staging/01BADBADBADBADBADBADBADBAD/files/task.json")
    assert storage.control.exists(record.path)
