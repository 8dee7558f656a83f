"""One task: reads and writes a part of the input. Runs in an executor."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraph_core import faults
from omnigraph_core.errors import BadDataError, LimitError, OmnigraphError, UsageError
from omnigraph_core.load.formats.parquet import read_batches, record_text
from omnigraph_core.load.formats.typed_rows import TypedRows
from omnigraph_core.records import dataclass
from omnigraph_core.rules.violations import SHOWN_MAX, Violation, Violations
from omnigraph_core.settings import Settings
from omnigraph_core.spark.batches import from_spark
from omnigraph_core.spark.outcome import Json, SplitOutcome, TypeOutcome, encode_failure
from omnigraph_core.spark.parse import FragmentWriter, PieceWriter, Workplace, Writer, without_renamed
from omnigraph_core.spark.reading import SplitReader
from omnigraph_core.spark.spec import JobSpec, Target
from omnigraph_core.spark.splits import Split
from omnigraph_core.spark.worker import tables_at
from omnigraph_core.values.shown import clipped

FAILURE_MARK = "@@omnigraph@@"


class TaskFailed(Exception):
    """A transient failure: Spark retries the task. The text carries it to the driver."""

    def __init__(self, error: OmnigraphError) -> None:
        super().__init__(f"{FAILURE_MARK}{json.dumps(encode_failure(error))}{FAILURE_MARK}")
        self.error = error


def failure_in(text: str) -> Json | None:
    """The failure that a task's exception carried, found in what Spark says about it."""
    parts = text.split(FAILURE_MARK)
    if len(parts) < 3:
        return None
    found: Json = json.loads(parts[1])
    return found


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
        place = Workplace(self.spec, tables_at(self.spec.graph, self.settings), name)
        violations = Violations(None if self.spec.is_rejecting else SHOWN_MAX)
        writers: dict[str, Writer] = {}
        try:
            for piece in read(violations):
                piece = without_renamed(piece, violations)
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
    """Takes what Spark has: a partition is a part, and its rows are counted as lines."""

    split: Split

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = self.take(batches)
        yield pa.RecordBatch.from_pydict({"outcome": [json.dumps(found.encode())]})

    def take(self, batches: Iterable[pa.RecordBatch]) -> SplitOutcome:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        counted = _Counted(batches)
        entity = next(each for each in self.spec.schema.types() if each.table_key == self.split.table_key)

        def read(violations: Violations) -> Iterator[TypedRows]:
            name = self.split.partition(number).name
            for piece in read_batches(from_spark(counted, entity, name), entity, name, violations):
                yield piece
                counted.sample(violations)

        found = replace(self._attempt(number, read), lines=counted.rows)
        if self.split.format is not None:
            return found
        # Files have lines to look at; of a DataFrame there is nothing but its rows.
        return replace(found, violations=counted.with_sample(found.violations))


class _Counted:
    """Counts batches as they pass, and keeps the first row that is wrong."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self._last: pa.RecordBatch | None = None
        self._sample: str | None = None
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            self._last = batch
            yield batch

    def sample(self, violations: Violations) -> None:
        """Called after a batch was judged."""
        if not violations.first or self._sample is not None or self._last is None:
            return
        line = violations.first[0].line
        row = -1 if line is None else line - 1 - (self.rows - self._last.num_rows)
        if 0 <= row < self._last.num_rows:
            self._sample = clipped(record_text(self._last, row).decode("utf-8", "replace"))

    def with_sample(self, violations: tuple[Violation, ...]) -> tuple[Violation, ...]:
        if self._sample is None or not violations:
            return violations
        first = violations[0]
        return replace(first, message=f"{first.message}; the row is {self._sample}"), *violations[1:]
