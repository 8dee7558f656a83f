"""Loads that others took for dead: they stop, and publish nothing whose files are gone.

On S3 a load that was killed, or that sleeps, is swept by commands that look once: its lease
is old by the clock of the store. What happens between a load and a sweep at each of its
steps is tried on a local disk, where the lock file is taken away as a lease runs out.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core import faults, layout
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load import intake, staging
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.write.staging import StagingSwept, staging_lock
from omnigraph_core.write.staging import staging as kept_while
from omnigraph_core.write.staging_record import StagingRecord
from tests.support.paused import started
from tests.support.processes import Omnigraph
from tests.support.records import node, nodes, write_jsonl
from tests.support.writers import check_whole

SCHEMA = "node P { k: String @key n: I32? }"
RECORDS = [node("P", k=f"p{number}") for number in range(6)]
INSERT = 'query q() { insert P { k: "other" } }'


def data_files(graph: Graph) -> set[str]:
    folder = f"{layout.table_path('node', 'P')}/data"
    return set(graph.door.storage.control.list(folder))


# ---- each step, on a local disk ----

STEPS = ["load.fragment_written", "write.before_a", "write.after_a"]


@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize("step", STEPS)
def test_a_load_that_was_swept_stops_and_leaves_nothing(
    step: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its branch lock is still its own: only what it staged was taken for a dead writer's."""
    settings = Settings(fsync=False, actor="ann")
    for module in (staging, intake):
        monkeypatch.setattr(module, "ROWS_PER_FRAGMENT", 2)
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, settings)
    graph.change(INSERT)
    before, head = data_files(graph), graph.head()
    hit = faults.hit

    def swept(name: str) -> None:
        hit(name)
        if name == step:
            control = graph.door.storage.control
            (record,) = control.list(layout.STAGING_DIR)
            graph.door.storage.locks.forget(staging_lock(record.removesuffix(".json")))
            Graph.open(str(tmp_path / "g"), settings, OpenMode.READ_WRITE)
            assert (control.list(layout.STAGING_DIR), data_files(graph)) == ([], before)

    monkeypatch.setattr(faults, "hit", swept)
    with pytest.raises(StagingSwept) as refused:
        graph.load([write_jsonl(tmp_path / "in.jsonl", RECORDS)], LoadMode(mode))
    monkeypatch.undo()
    assert refused.value.retryable
    assert (graph.head(), data_files(graph), set(nodes(graph, "P"))) == (head, before, {"other"})
    assert not graph.has_pending()
    check_whole(graph)
    assert graph.load([str(tmp_path / "in.jsonl")], LoadMode(mode)).total == 6


# ---- on S3 ----

TTL_S = 1.0
DEAD_AFTER_S = 3.0


@pytest.fixture
def environment(s3_environment: dict[str, str]) -> dict[str, str]:
    return {
        **s3_environment,
        "OMNIGRAPH_LEASE_TTL": str(TTL_S),
        "OMNIGRAPH_LEASE_DEAD_AFTER": str(DEAD_AFTER_S),
        "OMNIGRAPH_ACTOR": "ann",
    }


@pytest.fixture
def graph(s3_location: Callable[[], str], environment: dict[str, str]) -> Graph:
    graph = Graph.init(s3_location(), SCHEMA, load_settings(environment, Path("/")))
    graph.change(INSERT)
    return graph


def until_old(graph: Graph) -> None:
    """Wait until everything that is there now is old by the clock of the store."""
    control = graph.door.storage.control

    def now_s() -> float:
        control.put("__locks/of-the-test", str(time.time_ns()).encode())
        found = control.get("__locks/of-the-test")
        assert found is not None
        assert found.modified_s is not None
        return found.modified_s

    begun = now_s()
    while now_s() - begun <= DEAD_AFTER_S + 1:
        time.sleep(0.1)


def loader(graph: Graph, tmp_path: Path) -> list[str]:
    path = write_jsonl(tmp_path / "in.jsonl", RECORDS)
    return [sys.executable, "-m", "tests.support.loader", graph.location.uri, path, "append"]


def test_a_command_that_looks_once_sweeps_the_dead_and_not_the_living(
    graph: Graph, environment: dict[str, str], omnigraph: Omnigraph, tmp_path: Path
) -> None:
    before = data_files(graph)
    points = {"OMNIGRAPH_FAILPOINTS": "load.fragment_written=kill"}
    with started(loader(graph, tmp_path), **environment, **points) as dead:
        assert dead.ended().code == -signal.SIGKILL
    assert data_files(graph) > before
    storage = open_storage(
        parse_location(graph.location.uri, Path("/")),
        load_settings({**environment, "OMNIGRAPH_LEASE_TTL": "30"}, Path("/")),
    )
    alive = StagingRecord("01AVEXXXXXXXXXXXXXXXXXXXXX", "Load", "main", "bob")
    with kept_while(storage, alive):
        careful = {**environment, "OMNIGRAPH_LEASE_DEAD_AFTER": "3600"}
        done = omnigraph("branch", "create", "a", "--store", graph.location.uri, environment=careful)
        assert done.code == 0, done.err
        assert len(storage.control.list(layout.STAGING_DIR)) == 2, "it may still be alive"
        until_old(graph)
        done = omnigraph("branch", "create", "b", "--store", graph.location.uri, environment=environment)
        assert done.code == 0, done.err
        assert storage.control.list(layout.STAGING_DIR) == ["01AVEXXXXXXXXXXXXXXXXXXXXX.json"]
    assert data_files(graph) == before
    check_whole(graph)


def test_a_listing_recovers_what_a_long_dead_writer_left(
    graph: Graph, environment: dict[str, str], omnigraph: Omnigraph, tmp_path: Path
) -> None:
    points = {"OMNIGRAPH_FAILPOINTS": "write.after_b=kill"}
    with started(loader(graph, tmp_path), **environment, **points) as dead:
        assert dead.ended().code == -signal.SIGKILL
    until_old(graph)
    done = omnigraph("commit", "list", "--store", graph.location.uri, environment=environment)
    assert (done.code, "pending" in done.err) == (0, False), done.err
    assert not graph.has_pending()
    assert len(nodes(graph, "P")) == 7


@pytest.mark.parametrize("step", [*STEPS, "load.handed_over"])
def test_a_load_that_slept_while_it_was_swept_stops(
    step: str, graph: Graph, environment: dict[str, str], omnigraph: Omnigraph, tmp_path: Path
) -> None:
    with started(loader(graph, tmp_path), stop_at=step, **environment) as sleeper:
        sleeper.until_stopped()
        until_old(graph)
        done = omnigraph(
            "change", "-e", 'query q() { insert P { k: "new" } }', "--store", graph.location.uri,
            environment=environment,
        )  # fmt: skip
        assert done.code == 0, done.err
        assert graph.door.storage.control.list(layout.STAGING_DIR) == []
        sleeper.go_on()
        ended = sleeper.ended()
    assert ended.code != 0
    assert ("StagingSwept" in ended.err) or ("LockLost" in ended.err), ended.err
    assert set(nodes(graph, "P")) == {"other", "new"}
    check_whole(Graph.open(graph.location.uri, graph.settings, OpenMode.READ_WRITE))
