"""`df.write.format("omnigraph")`: the rows of one type as one commit.

    df.write.format("omnigraph").mode("append").option("type", "Person").save("s3://bucket/graph")

Tasks write fragments as those of any load with Spark; the front (`spark/front.py`) checks and
publishes them when Spark commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from omnigraph_core.errors import UsageError
from omnigraph_core.graph import Graph
from omnigraph_core.layout import MAIN_BRANCH
from omnigraph_core.settings import Settings
from omnigraph_core.spark.failing import failures
from omnigraph_core.spark.frames import NamedFrame, schema_for
from omnigraph_core.spark.front import Front, Wanted
from omnigraph_core.spark.outcome import Json
from omnigraph_core.spark.spec import JobSpec, read_spec
from omnigraph_core.spark.splits import Split
from omnigraph_core.spark.task import TakeTask, TaskFailed
from omnigraph_core.storage import open_storage, parse_location

_OPTIONS = ("path", "type", "mode", "branch", "from", "message", "as")
_MODES = ("append", "merge", "overwrite")


def open_writer(
    options: Mapping[str, str], columns: StructType, settings: Settings, *, overwrite: bool
) -> OmnigraphWriter:
    """Check everything that can be checked without a row, and begin the load. Nothing is left if it fails."""
    given = {name.lower(): value for name, value in options.items()}
    unknown = sorted(set(given) - set(_OPTIONS))
    if unknown:
        raise UsageError(f"unknown option '{unknown[0]}'", hint=f"options are: {', '.join(_OPTIONS)}")
    for name, what in (("path", "no graph is named"), ("type", "the option 'type' is missing")):
        if name not in given:
            raise UsageError(what, hint='write .option("type", "Person").save("path or s3://…")')
    graph = Graph.open(given["path"], settings)
    branch, source = given.get("branch", MAIN_BRANCH), given.get("from")
    split = NamedFrame(given["type"], columns).split(schema_for(graph, branch, source))
    place = graph.location.uri
    mode = _mode(given.get("mode"), overwrite=overwrite)
    wanted = Wanted(place, mode, branch, source, given.get("as"), given.get("message"))
    front, operation_id = Front.start(wanted, split, settings)
    try:
        storage = open_storage(parse_location(place, settings.working_directory), settings)
        spec = read_spec(storage, operation_id).without_splits()
    except BaseException:
        front.abort()
        raise
    return OmnigraphWriter(front, spec, settings, split)


def _mode(asked: str | None, *, overwrite: bool) -> str:
    """Spark has no merge; it is an append that says so."""
    if asked is None:
        return "overwrite" if overwrite else "append"
    if asked not in _MODES:
        raise UsageError(f"the option 'mode' is one of {', '.join(_MODES)}, not '{asked}'")
    if overwrite != (asked == "overwrite"):
        said = "overwrite" if overwrite else "append"
        raise UsageError(
            f"mode('{said}') and the option mode={asked} contradict each other",
            hint="for a merge write .mode('append').option('mode', 'merge')",
        )
    return asked


class PartWritten(WriterCommitMessage):  # type: ignore[misc]
    """What a task reports about its partition."""

    def __init__(self, outcome: Json) -> None:
        self.outcome = outcome


class _Uncounted:
    """Stands for an accumulator where there is none."""

    def add(self, number: int) -> None: ...


class OmnigraphWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Pickled into every task, and into the process that commits."""

    def __init__(self, front: Front, spec: JobSpec, settings: Settings, split: Split) -> None:
        self._front, self._spec, self._settings, self._split = front, spec, settings, split

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartWritten:
        counter: Any = _Uncounted()
        # What tasks leave in the staging folder is gone with it; nothing is synced.
        settings = replace(self._settings, fsync=False)
        task = TakeTask(self._spec, settings, counter, counter, self._split)
        with failures():
            try:
                outcome = task.take(iterator)
            except TaskFailed as failed:  # Spark shows it; there is no driver of ours to read it.
                raise failed.error from None
        return PartWritten(outcome.encode())

    def commit(self, messages: list[PartWritten | None]) -> None:
        with failures():
            self._front.commit([each.outcome for each in messages if each is not None])

    def abort(self, messages: list[PartWritten | None]) -> None:
        self._front.abort()
