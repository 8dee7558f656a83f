"""Several DataFrames as one commit, from a program that has a Spark session.

    with graph_write(spark, "s3://bucket/graph", branch="etl") as w:
        w.add("Person", people)
        w.add("Knows", friendships)

Edges need their nodes, so they are checked and published together. Executors write the rows of
the DataFrames, and this process keeps the load's record and publishes, as for any other load.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException

from omnigraph_core.errors import UsageError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.ids import new_ulid
from omnigraph_core.layout import MAIN_BRANCH
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.load.roles import Asked, Source
from omnigraph_core.load.run import Load, Loaded
from omnigraph_core.records import dataclass
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.spark.driver import run_job
from omnigraph_core.spark.frames import NamedFrame, given_frames, schema_for
from omnigraph_core.spark.load import source_of
from omnigraph_core.spark.options import SparkOptions, refuse_out_of_reach
from omnigraph_core.spark.spec import JobSpec


class GraphWrite:
    """DataFrames that wait to be written. Once the block has ended, `loaded` says what came of it."""

    def __init__(self, graph: Graph, branch: str, source: str | None, mode: LoadMode) -> None:
        self._graph, self._branch, self._source, self._mode = graph, branch, source, mode
        self._frames: list[tuple[NamedFrame, Any]] = []
        self._schema = schema_for(graph, branch, source)
        self.loaded: Loaded | None = None

    def add(self, type_name: str, frame: Any) -> None:
        """Add the rows of a type; `from` and `to` are the ends of an edge, and an `id` may be given.

        Raises for a type or a column that is not there and for one whose values cannot fit, at once.
        Nothing is computed yet.
        """
        named = NamedFrame(type_name, frame.schema)
        named.entity(self._schema)
        self._frames.append((named, frame))

    def publish(self, spark: Any, actor: str | None, message: str | None) -> Loaded | None:
        """Write what was added, as one commit; nothing was added: no commit."""
        if not self._frames:
            return None
        return self._graph.load(
            [],
            self._mode,
            branch=self._branch,
            source=self._source,
            actor=actor,
            message=message,
            spark=_Frames(spark, self._frames),
        )


@dataclass(frozen=True, slots=True)
class _Frames:
    """DataFrames of this program as the rows of a load."""

    spark: Any
    frames: list[tuple[NamedFrame, Any]]

    def source(self, load: Load, asked: Asked, settings: Settings) -> Source:
        given = given_frames([named for named, _ in self.frames], load.schema)
        pairs = list(zip(given.splits, (frame for _, frame in self.frames), strict=True))
        runner = _Here(self.spark, settings, load, pairs).run
        return source_of(load.request, given, runner, SparkOptions())


class _Here:
    """Runs the job of a load in the Spark of this process, which goes on afterwards."""

    def __init__(self, spark: Any, settings: Settings, load: Load, frames: list[tuple[Any, Any]]) -> None:
        self._context, self._storage, self._frames = spark.sparkContext, load.door.storage, frames
        # What tasks leave in the staging folder is gone with it; nothing is synced.
        self._settings = replace(settings, fsync=False)
        self.rows, self.bad = self._context.accumulator(0), self._context.accumulator(0)

    def begin(self, phase: str) -> None:
        """Spark itself shows how far it is."""

    def run(self, spec: JobSpec) -> None:
        tag = f"omnigraph-{new_ulid()}"
        self._context.addJobTag(tag)
        try:
            run_job(self._context, spec, self._storage, self._settings, self, self._frames)
        except BaseException:
            # An interrupt: tasks that nobody waits for any more must not go on writing.
            self._context.cancelJobsWithTag(tag)
            raise
        finally:
            self._context.removeJobTag(tag)


@contextmanager
def graph_write(
    spark: Any,
    graph: str,
    *,
    branch: str = MAIN_BRANCH,
    source: str | None = None,
    mode: str = "append",
    message: str | None = None,
    actor: str | None = None,
    settings: Settings | None = None,
) -> Iterator[GraphWrite]:
    """Write the DataFrames that are added in the block, as one commit at its end; nothing if it fails.

    `source` is a ref: a branch that does not exist yet starts there, and is not made unless the
    write succeeds. `mode` is append, merge or overwrite, as of any load.
    """
    modes = [each.value for each in LoadMode]
    if mode not in modes:
        raise UsageError(f"'{mode}' is not one of {', '.join(modes)}", field="mode")
    master = _master_of(spark)
    opened = Graph.open(graph, settings or load_settings(), OpenMode.READ_WRITE)
    if not master.startswith("local"):
        refuse_out_of_reach(SparkOptions(master), opened.location, ())
    writing = GraphWrite(opened, branch, source, LoadMode(mode))
    yield writing
    writing.loaded = writing.publish(spark, actor, message)


def _master_of(spark: Any) -> str:
    """Raises for a session of Spark Connect, whose jobs run where this program is not."""
    try:
        return str(spark.sparkContext.master)
    except PySparkException as error:
        raise UsageError(
            "the session has no SparkContext in this process",
            hint="start the program with spark-submit, not with Spark Connect",
        ) from error
