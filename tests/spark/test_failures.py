"""Tasks that fail, other writers, and loads that are given up: never a row twice, nothing left behind."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core import layout
from omnigraph_core.errors import BadDataError, OmnigraphError, StorageError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.ids import new_ulid
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings
from omnigraph_core.spark import load as spark_load
from omnigraph_core.spark import splits
from omnigraph_core.spark.intake import FragmentsGone
from omnigraph_core.spark.outcome import JobAborted, read_result, write_failed
from omnigraph_core.spark.spec import JobSpec
from omnigraph_core.spark.submit import SparkFailed, Submission
from omnigraph_core.write.plan import WritePlan
from omnigraph_core.write.staging import read_record, staged_operations
from tests.spark.conftest import SPARK
from tests.spark.twins import leftovers
from tests.support.records import edge, edges, node, nodes, write_jsonl
from tests.support.writers import check_whole

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("in_process")]

SCHEMA = "node P { k: String @key n: I32? } edge Link: P -> P { w: I32? }"
RECORDS = [
    *(node("P", k=f"p{number}", n=number) for number in range(20)),
    *(edge("Link", f"p{number}", f"p{(number * 7) % 20}") for number in range(20)),
]


@pytest.fixture
def graph(new_graph: Callable[[str, str], Graph], monkeypatch: pytest.MonkeyPatch) -> Graph:
    monkeypatch.setattr(splits, "SPLIT_BYTES", 500)
    monkeypatch.setattr(spark_load, "ROWS_PER_FRAGMENT", 4)
    return new_graph("graph", SCHEMA)


@pytest.fixture
def data(tmp_path: Path) -> str:
    return write_jsonl(tmp_path / "in.jsonl", RECORDS)


def armed(graph: Graph, failpoints: str) -> Graph:
    """The same graph; only its tasks know of the failpoints."""
    graph.settings = replace(graph.settings, failpoints=failpoints)
    return graph


@pytest.mark.parametrize("how", ["error", "kill"])
@pytest.mark.parametrize("mode", ["append", "merge"])
def test_an_attempt_that_fails_after_writing_leaves_no_row_and_no_file(
    how: str, mode: str, graph: Graph, data: str
) -> None:
    loaded = armed(graph, f"spark.parsed.1.0={how},spark.parsed.2.0={how}").load(
        [data], LoadMode(mode), spark=SPARK
    )
    assert loaded.counts == {"edge:Link": 20, "node:P": 20}
    assert len(nodes(graph, "P")) == len(edges(graph, "Link")) == 20
    check_whole(graph)
    assert leftovers(graph) == []


def test_a_task_that_always_fails_fails_the_load(
    graph: Graph, data: str, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    head = graph.head()
    points = ",".join(f"spark.parsed.1.{attempt}=error" for attempt in range(3))
    with pytest.raises(StorageError, match=r"injected fault at spark\.parsed\.1"):
        armed(graph, points).load([data], LoadMode.APPEND, spark=SPARK)
    assert graph.head() == head
    wait_for(lambda: leftovers(graph) == [])


def test_a_job_without_a_result(graph: Graph, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fragments are written, and then the driver is gone."""
    run = Submission.run

    def dies(self: Submission, spec: JobSpec) -> None:
        run(self, spec)
        assert leftovers(graph)
        assert read_result(self._storage, spec.folder) is not None
        raise SparkFailed("the Spark job ended", hint="Spark's log is in …")

    monkeypatch.setattr(Submission, "run", dies)
    with pytest.raises(SparkFailed):
        graph.load([data], LoadMode.APPEND, spark=SPARK)
    assert leftovers(graph) == []
    check_whole(graph)


def test_what_is_worth_its_log(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that Spark gave up on; not one that says what was wrong with the input."""
    monkeypatch.undo()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    failures: list[tuple[OmnigraphError | None, bool]] = [
        (JobAborted("the Spark job failed: no more memory"), True),
        (BadDataError("not like this"), False),
        (None, True),
    ]
    spec = JobSpec("op", "", None, *[None] * 11)  # type: ignore[arg-type, call-arg]
    for failure, is_kept in failures:

        def ran(self: Submission, spec: JobSpec, folder: Path, log: Path, failure: Any = failure) -> int:
            log.write_text("what Spark said")
            (folder / "blocks").mkdir()
            if failure is not None:
                write_failed(self._storage, spec.folder, failure)
            return 1

        monkeypatch.setattr(Submission, "_run", ran)
        submission = Submission(graph.door.storage, graph.settings, SPARK, lambda event: None)
        if is_kept:
            with pytest.raises(SparkFailed) as failed:
                submission.run(spec)
            (log,) = tmp_path.glob("omnigraph-spark-*/*")
            assert str(log) in str(failed.value.hint)
            shutil.rmtree(log.parent)
        else:
            submission.run(spec)
        assert list(tmp_path.glob("omnigraph-spark-*")) == []
        graph.door.storage.control.delete_prefix(spec.folder)


def test_whoever_writes_next_clears_what_a_dead_load_left(
    graph: Graph, data: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the process had been killed: nothing of its own is put away."""
    run = Submission.run

    def dies(self: Submission, spec: JobSpec) -> None:
        run(self, spec)
        raise KeyboardInterrupt

    monkeypatch.setattr(Submission, "run", dies)
    monkeypatch.setattr("omnigraph_core.spark.running.RunningJob._clean_up", lambda self: self.storage.locks)
    monkeypatch.setattr("omnigraph_core.write.staging.KeptRecord.end", lambda self: None)
    with pytest.raises(KeyboardInterrupt):
        graph.load([data], LoadMode.APPEND, spark=SPARK)
    monkeypatch.undo()
    assert len(leftovers(graph)) > 10
    check_whole(Graph.open(graph.location.uri, settings, OpenMode.READ_WRITE))
    assert leftovers(graph) == []


def late(graph: Graph, meanwhile: str, monkeypatch: pytest.MonkeyPatch, other: Graph) -> None:
    """Have another writer be faster, once."""
    publish, left = graph.door.publish, [meanwhile]

    def slow(plan: WritePlan) -> Any:
        if left:
            other.change(left.pop())
        return publish(plan)

    monkeypatch.setattr(graph.door, "publish", slow)


@pytest.mark.parametrize("tasks_check", [False, True])
def test_another_writer_was_faster(
    tasks_check: bool,
    graph: Graph,
    data: str,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fragments are kept, the rules asked again: the insert is no obstacle, the taken key is one."""
    if tasks_check:
        monkeypatch.setattr("omnigraph_core.spark.driver.parts_to_ask", lambda *_: 2)
    other = Graph.open(graph.location.uri, settings, OpenMode.READ_WRITE)
    with monkeypatch.context() as patch:
        late(graph, 'query q() { insert P { k: "small" } }', patch, other)
        graph.load([data], LoadMode.APPEND, spark=SPARK)
    assert len(nodes(graph, "P")) == 21
    with monkeypatch.context() as patch:
        late(graph, 'query q() { insert P { k: "x1" } }', patch, other)
        more = write_jsonl(Path(data).with_name("more.jsonl"), [node("P", k=f"x{each}") for each in range(6)])
        with pytest.raises(Exception, match="id 'x1' already exists"):
            graph.load([more], LoadMode.APPEND, spark=SPARK)
    assert len(nodes(graph, "P")) == 22
    check_whole(graph)
    assert leftovers(graph) == []


def clean_up_everything(graph: Graph) -> None:
    """Another writer, then upkeep that keeps as little as it may, of files that look two days old."""
    graph.change(f'query q() {{ insert P {{ k: "{new_ulid()}" }} }}')
    then = time.time() - 200_000
    for path in graph.location.path.rglob("*"):
        if path.parent.name != layout.STAGING_DIR:  # A live record's own time is part of its e-tag.
            os.utime(path, (then, then))
    graph.maintain(keep=3, grace_s=0.0)
    assert not graph.cleanup(keep=1, grace_s=0.0, force=True).has_failed


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_cleanup_takes_nothing_of_a_job_at_work(
    mode: str, graph: Graph, data: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what its tasks have staged, nor what it reads: after its tasks, and before it publishes."""
    other = Graph.open(graph.location.uri, settings, OpenMode.READ_WRITE)
    graph.load([data], LoadMode.MERGE)
    run, publish, left = Submission.run, graph.door.publish, [1]

    def ran(self: Submission, spec: JobSpec) -> None:
        run(self, spec)
        clean_up_everything(other)

    def slow(plan: WritePlan) -> Any:
        if left:
            clean_up_everything(other)
            left.pop()
        return publish(plan)

    monkeypatch.setattr(Submission, "run", ran)
    monkeypatch.setattr(graph.door, "publish", slow)
    rows = [node("P", k=f"new{number}", n=number) for number in range(20)]
    rows += [node("P", k="p0", n=99)] if mode == "merge" else []
    graph.load([write_jsonl(Path(data).with_name("more.jsonl"), rows)], LoadMode(mode), spark=SPARK)
    monkeypatch.undo()
    found = nodes(graph, "P")
    assert {f"new{number}" for number in range(20)} <= found.keys()
    assert (len(found), found["p0"]["n"]) == (42, 99 if mode == "merge" else 0)
    check_whole(other)
    assert leftovers(graph) == []


def test_fragments_that_are_gone_end_the_load_and_the_next_one_works(
    graph: Graph, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a fork that another writer had to clear; the rows are nowhere else, so planning again is no use."""
    graph.create_branch("dev")
    publish, plans = graph.door.publish, []

    def lost(plan: WritePlan) -> Any:
        plans.append(plan)
        for write in plan.staged:
            for file in write.files:
                graph.door.storage.control.delete(file.path)
        return publish(plan)

    with monkeypatch.context() as patch:
        patch.setattr(graph.door, "publish", lost)
        with pytest.raises(FragmentsGone):
            graph.load([data], LoadMode.APPEND, branch="dev", spark=SPARK)
    assert len(plans) == 1
    assert leftovers(graph) == []
    graph.load([data], LoadMode.APPEND, branch="dev", spark=SPARK)
    assert len(nodes(graph, "P", "dev")) == 20
    check_whole(graph)


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_load_keeps_one_record(mode: str, graph: Graph, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its job, its fragments and the branch that is made for it are all in that one."""
    monkeypatch.setattr("omnigraph_core.load.staging.ROWS_PER_FRAGMENT", 4)
    publish, found = graph.door.publish, []

    def looked(plan: WritePlan) -> Any:
        storage = graph.door.storage
        found.extend(read_record(storage, each) for each in staged_operations(storage))
        return publish(plan)

    monkeypatch.setattr(graph.door, "publish", looked)
    loaded = graph.load([data], LoadMode(mode), branch="new", source="main", spark=SPARK)
    assert loaded.branch_created
    (record,) = found
    assert record is not None
    assert (record.branch, record.made_twin is not None, record.lists is not None) == ("new", True, True)
    assert {key for key, _ in record.pinned} == {"node:P", "edge:Link"}
    assert staged_operations(graph.door.storage) == []
    assert leftovers(graph) == []
    check_whole(graph)


def test_a_worker_that_is_killed_again_and_again(
    graph: Graph, data: str, wait_for: Callable[[Callable[[], bool]], None]
) -> None:
    """Other tasks may be writing when the job ends. They find that out as they put a file on their list."""
    points = ",".join(f"spark.parsed.0.{attempt}=kill" for attempt in range(3))
    with pytest.raises(StorageError, match=r"the Spark job failed: .*Job aborted"):
        armed(graph, points).load([data], LoadMode.APPEND, spark=SPARK)
    wait_for(lambda: leftovers(graph) == [])
    check_whole(graph)
