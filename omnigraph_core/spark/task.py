"""One task: reads and writes a part of the input. Runs in an executor."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraph_core import faults
from omnigraph_core.errors import BadDataError, LimitError, OmnigraphError, UsageError
from omnigraph_core.load.formats.parquet import read_batches
from omnigraph_core.load.formats.typed_rows import TypedRows
from omnigraph_core.records import dataclass
from omnigraph_core.rules.violations import SHOWN_MAX, Violations
from omnigraph_core.settings import Settings
from omnigraph_core.spark.outcome import Json, SplitOutcome, TypeOutcome, encode_failure
from omnigraph_core.spark.parse import FragmentWriter, PieceWriter, Workplace, Writer
from omnigraph_core.spark.reading import SplitReader
from omnigraph_core.spark.spec import JobSpec, Target
from omnigraph_core.spark.splits import Split
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.tables.dataset import Tables

FAILURE_MARK = "@@omnigraph@@"

# A worker runs many tasks, and opening a graph takes a moment.
_opened: dict[str, Tables] = {}


class TaskFailed(Exception):
    """A transient failure: Spark retries the task. The text carries it to the driver."""

    def __init__(self, error: OmnigraphError) -> None:
        super().__init__(f"{FAILURE_MARK}{json.dumps(encode_failure(error))}{FAILURE_MARK}")


def failure_in(text: str) -> Json | None:
    """The failure that a task's exception carried, found in what Spark says about it."""
    parts = text.split(FAILURE_MARK)
    if len(parts) < 3:
        return None
    found: Json = json.loads(parts[1])
    return found


def opened(spec: JobSpec, settings: Settings) -> Tables:
    if spec.graph not in _opened:
        location = parse_location(spec.graph, settings.working_directory)
        _opened[spec.graph] = Tables(open_storage(location, settings))
    return _opened[spec.graph]


@dataclass(frozen=True, slots=True)
class _Writing:
    """What every task of the parse phase knows, and does with the rows of its part."""

    spec: JobSpec
    settings: Settings
    rows_read: Any
    bad_found: Any
    """Accumulators, for the progress bar."""

    def _attempt(self, number: int, read: Callable[[Violations], Iterator[TypedRows]]) -> SplitOutcome:
        """One attempt at one part; raises TaskFailed for what another may not meet with."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        faults.arm(self.settings.failpoints)
        try:
            found = self._write(number, f"{number}-{context.taskAttemptId()}", read)
            # By part and attempt, so that a test can break the first attempt and not the second.
            faults.hit(f"spark.parsed.{number}.{context.attemptNumber()}")
        except OmnigraphError as error:
            raise TaskFailed(error) from error
        return found

    def _write(
        self, number: int, name: str, read: Callable[[Violations], Iterator[TypedRows]]
    ) -> SplitOutcome:
        place = Workplace(self.spec, opened(self.spec, self.settings), name)
        violations = Violations(None if self.spec.is_rejecting else SHOWN_MAX)
        writers: dict[str, Writer] = {}
        try:
            for piece in read(violations):
                key = piece.entity.table_key
                if key not in writers:
                    writers[key] = (
                        PieceWriter(place)
                        if self.spec.target is Target.PIECES
                        else FragmentWriter(place, piece.entity)
                    )
                writers[key].take(piece, violations)
                self.rows_read.add(piece.rows.num_rows)
            found: dict[str, TypeOutcome] = {}
            if self.spec.target is Target.PIECES or self.spec.is_rejecting or not violations.total:
                found = {key: writer.finish() for key, writer in writers.items()}
        except (BadDataError, LimitError, UsageError) as error:
            return SplitOutcome(number, 0, {}, failure=encode_failure(error))
        self.bad_found.add(violations.total)
        return SplitOutcome(number, 0, found, violations.first, violations.total)


@dataclass(frozen=True, slots=True)
class ParseTask(_Writing):
    """Reads the splits of one partition."""

    def __call__(self, splits: Iterable[Split]) -> Iterator[Json]:
        for split in splits:
            reader = SplitReader(split, self.spec.schema, self.settings.s3)
            found = self._attempt(split.number, reader.rows)
            yield replace(found, lines=reader.lines).encode()


@dataclass(frozen=True, slots=True)
class TakeTask(_Writing):
    """Takes what Spark has read: a partition is a part, and its rows are counted as lines."""

    split: Split

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        counted = _Counted(batches)
        entity = next(each for each in self.spec.schema.types() if each.table_key == self.split.table_key)

        def read(violations: Violations) -> Iterator[TypedRows]:
            return read_batches(counted, entity, self.split.name, violations)

        found = replace(self._attempt(context.partitionId(), read), lines=counted.rows)
        yield pa.RecordBatch.from_pydict({"outcome": [json.dumps(found.encode())]})


class _Counted:
    """Counts batches as they pass."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch
