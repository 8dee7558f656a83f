"""The driver of a load: turns splits into tasks, and reports into one result.

It moves no HEAD, and talks to the front through the staging folder alone: the job is read
from there, progress and result are written there.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.settings import Settings, load_settings, s3_environment
from omnigraph_core.spark.check import CheckTask, DealCommittedTask, DealTask, committed_parts
from omnigraph_core.spark.exported import ExportTask, read_export
from omnigraph_core.spark.intake import WrittenType
from omnigraph_core.spark.outcome import (
    JobAborted,
    Json,
    Parsed,
    SplitOutcome,
    TypeOutcome,
    decode_failure,
    decode_outcome,
    write_failed,
    write_result,
)
from omnigraph_core.spark.progress import JobProgress, write_progress
from omnigraph_core.spark.spec import JobKind, JobSpec, Target, encode_splits, read_spec
from omnigraph_core.spark.splits import Split
from omnigraph_core.spark.task import ParseTask, TakeTask, failure_in
from omnigraph_core.storage import Storage, open_storage, parse_location

KIND_CONF = "spark.omnigraph.kind"
PLACE_CONF = "spark.omnigraph.place"
OPERATION_CONF = "spark.omnigraph.operation"
# The name makes Spark hide the value wherever it shows its configuration.
ACCESS_CONF = "spark.omnigraph.secret.environment"

_TICK_S = 0.5
_WATCH_TICKS = 6
_BATCH_ROWS = 64 * 1024


def main() -> None:
    """Run the job that the configuration names, in the Spark that was submitted to."""
    from pyspark import SparkContext

    context = SparkContext.getOrCreate()
    conf = context.getConf()
    access = conf.get(ACCESS_CONF)
    settings = decode_access(access) if access else load_settings()
    work = run_export if conf.get(KIND_CONF) == JobKind.EXPORT else run
    work(context, conf.get(PLACE_CONF), conf.get(OPERATION_CONF), settings)
    context.stop()


def encode_access(settings: Settings) -> str:
    """The S3 access of a driver elsewhere, as text without anything that a properties file would change."""
    return base64.b64encode(json.dumps(s3_environment(settings.s3)).encode()).decode()


def decode_access(text: str) -> Settings:
    return load_settings(json.loads(base64.b64decode(text)))


def run(context: Any, graph: str, operation_id: str, settings: Settings) -> None:
    """Run the job; the result or the failure is written to the result file."""
    # What tasks and driver leave in the staging folder is gone with it; nothing is synced.
    settings = replace(settings, fsync=False)
    storage = open_storage(parse_location(graph, settings.working_directory), settings)
    spec = read_spec(storage, operation_id)
    with _Companion(context, spec, storage) as companion:
        frames = None if spec.reader is None else _read_by_spark(spec)
        run_job(context, spec, storage, settings, companion, frames)


def run_export(context: Any, place: str, operation_id: str, settings: Settings) -> None:
    """Run an export: every part of the tables is a task that writes files."""
    storage = open_storage(parse_location(place, settings.working_directory), settings)
    spec = read_export(storage, operation_id)
    with _Companion(context, spec, storage) as companion:
        companion.begin("write")
        try:
            task = ExportTask(replace(spec, parts=()), settings, companion.rows)
            written = _collected(context.parallelize(spec.parts, max(1, len(spec.parts))).mapPartitions(task))
            write_result(storage, spec.folder, written, {})
        except OmnigraphError as error:
            write_failed(storage, spec.folder, error)


Frames = Sequence[tuple[Split, Any]]
"""DataFrames, each with what is known of its rows."""


class Watch(Protocol):
    """Whoever follows the job."""

    @property
    def rows(self) -> Any:
        """An accumulator of the rows that were read."""

    @property
    def bad(self) -> Any:
        """And of what was wrong with them."""

    def begin(self, phase: str) -> None: ...


def run_job(
    context: Any, spec: JobSpec, storage: Storage, settings: Settings, watch: Watch, frames: Frames | None
) -> None:
    """Read the splits, or take the frames; the result or the failure is written to the result file."""
    try:
        watch.begin("parse")
        if frames is None:
            outcomes = _parse(context, spec, settings, watch)
        else:
            spec, outcomes = _taken(spec, settings, watch, frames)
        checked = _check(context, spec, settings, outcomes, watch)
        more = {"checked": checked, "splits": encode_splits(spec.splits)}
        write_result(storage, spec.folder, outcomes, more)
    except OmnigraphError as error:
        write_failed(storage, spec.folder, error)


def _parse(context: Any, spec: JobSpec, settings: Settings, watch: Watch) -> list[Json]:
    splits = list(spec.splits)
    task = ParseTask(spec.without_splits(), settings, watch.rows, watch.bad)
    # The largest first: a small one at the end keeps nobody waiting.
    splits.sort(key=lambda split: -split.size)
    found = _collected(context.parallelize(splits, len(splits)).mapPartitions(task))
    return sorted(found, key=lambda outcome: int(outcome["split"]))


def _read_by_spark(spec: JobSpec) -> Frames:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    (split,) = spec.splits
    with _spark_failures():
        return [(split, session.read.format(spec.reader).load(list(spec.paths)))]


def _taken(spec: JobSpec, settings: Settings, watch: Watch, frames: Frames) -> tuple[JobSpec, list[Json]]:
    """What Spark has, taken as it comes in Arrow batches; and the splits as they turned out."""
    splits: list[Split] = []
    outcomes: list[Json] = []
    for split, frame in frames:
        task = TakeTask(spec.without_splits(), settings, watch.rows, watch.bad, split)
        with _spark_failures(), _without_pandas(), _batches_of(frame.sparkSession, _BATCH_ROWS):
            rows = frame.mapInArrow(task.__call__, "outcome string").collect()
        found = sorted((json.loads(row.outcome) for row in rows), key=lambda each: int(each["split"]))
        mine, reports = numbered_parts(split, found, len(splits))
        splits += mine
        outcomes += reports
    return replace(spec, splits=tuple(splits)), outcomes


def numbered_parts(split: Split, found: Sequence[Json], start: int) -> tuple[list[Split], list[Json]]:
    """The partitions of a frame, numbered on from `start`. One without any still names its type."""
    assert split.table_key is not None
    nothing = SplitOutcome(0, 0, {split.table_key: TypeOutcome()}).encode()
    splits, outcomes = [], []
    for number, each in enumerate(found or [nothing], start):
        splits.append(replace(split.partition(int(each["split"])), number=number))
        outcomes.append({**each, "split": number})
    return splits, outcomes


@contextmanager
def _batches_of(session: Any, rows: int) -> Iterator[None]:
    """Batches of so many rows, in this query alone."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = session.conf.get(name)
    session.conf.set(name, rows)
    try:
        yield
    finally:
        session.conf.set(name, before)


@contextmanager
def _without_pandas() -> Iterator[None]:
    """Work around pyspark 4.3: mapInArrow asks for pandas, of which it makes no use."""
    from importlib import import_module

    functions: Any = import_module("pyspark.sql.pandas.functions")
    before = functions.require_minimum_pandas_version
    functions.require_minimum_pandas_version = lambda: None
    try:
        yield
    finally:
        functions.require_minimum_pandas_version = before


def _check(
    context: Any, spec: JobSpec, settings: Settings, outcomes: list[Json], watch: Watch
) -> list[Json] | None:
    """What the rules say, part by part; None where the front asks them, because keys are few enough.

    Which rows to reject is for the front to find out: it takes several rounds.
    """
    parsed = Parsed.of(spec.splits, [decode_outcome(each) for each in outcomes])
    if spec.target is Target.PIECES or spec.is_rejecting or parsed.is_bad:
        return None
    entities = [entity for entity in spec.schema.types() if entity.table_key in parsed.keys]
    types = {
        each.table_key: WrittenType.of(each, spec.tables[each.table_key].ref, parsed) for each in entities
    }
    number = parts_to_ask(spec, types)
    if number == 1:
        return None
    watch.begin("validate")
    number = max(number, int(context.defaultParallelism))
    fragments = [(key, index) for key, each in types.items() for index in range(len(each.fragments))]
    common = (spec.without_splits(), settings, types, number)
    dealt = context.parallelize(fragments, len(fragments)).mapPartitions(DealTask(*common))
    committed = committed_parts(spec, settings, types, number)
    if committed:
        task = DealCommittedTask(spec.without_splits(), settings, number)
        dealt = dealt.union(context.parallelize(committed, len(committed)).mapPartitions(task))
    return _collected(dealt.partitionBy(number, int).mapPartitionsWithIndex(CheckTask(*common)))


def parts_to_ask(spec: JobSpec, types: Mapping[str, WrittenType]) -> int:
    """In how many parts any load would look at so many keys."""
    return len(MemoryBudget(spec.memory_limit_bytes).parts(sum(each.key_bytes for each in types.values())))


def _collected(work: Any) -> list[Json]:
    with _spark_failures():
        found: list[Json] = work.collect()
    return found


@contextmanager
def _spark_failures() -> Iterator[None]:
    """Raise a failure that survived all attempts as the original error."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        # The text of the error has the stack trace of the JVM, but not always.
        text = f"{error}\n{getattr(error, 'java_exception', '')}"
        failure = failure_in(text)
        if failure is not None:
            raise decode_failure(failure) from error
        raise JobAborted(f"the Spark job failed: {_reason(text)}") from error


def _reason(text: str) -> str:
    """The line of Spark's output that says why."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "Job aborted" in line or "cancelled" in line]
    others = [line for line in lines if not line.startswith("An error occurred")]
    return (telling or others or lines)[0]


class Watched(Protocol):
    """What the companion of a job needs to know of it."""

    @property
    def folder(self) -> str: ...

    @property
    def record(self) -> str:
        """A file that is there as long as somebody waits for the job."""

    @property
    def front_pid(self) -> int | None: ...


class _Companion:
    """A thread beside the job: reports progress to the front, and ends the job if nobody waits for it."""

    def __init__(self, context: Any, spec: Watched, storage: Storage) -> None:
        self.rows, self.bad = context.accumulator(0), context.accumulator(0)
        self._context, self._spec, self._storage = context, spec, storage
        self._phase = "start"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> _Companion:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self._thread.join()

    def begin(self, phase: str) -> None:
        self._phase = phase

    def _run(self) -> None:
        last: JobProgress | None = None
        ticks = 0
        while not self._over.wait(_TICK_S):
            ticks += 1
            if ticks % _WATCH_TICKS == 0 and not self._is_wanted():
                # Tasks must not write after the front, or whoever cleaned up after it, is gone.
                os._exit(1)
            now = self._now()
            if now != last:
                last = now
                _tolerant(lambda now=now: write_progress(self._storage, self._spec.folder, now))

    def _now(self) -> JobProgress:
        tracker = self._context.statusTracker()
        stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        done = sum(stage.numCompletedTasks for stage in known)
        return JobProgress(
            self._phase,
            done,
            sum(stage.numTasks for stage in known),
            int(self.rows.value),
            int(self.bad.value),
        )

    def _is_wanted(self) -> bool:
        pid = self._spec.front_pid
        if pid is not None and not is_alive(pid):
            return False
        try:
            return self._storage.control.exists(self._spec.record)
        except OmnigraphError:
            return True


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _tolerant(write: Any) -> None:
    """Failing to report progress must not fail the job."""
    try:
        write()
    except OmnigraphError:
        return
