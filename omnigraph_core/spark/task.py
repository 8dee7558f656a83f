"""One task: a part of the input read and written down. Runs in an executor."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from omnigraph_core import faults
from omnigraph_core.change.violations import SHOWN_MAX, Violations
from omnigraph_core.errors import BadDataError, LimitError, OmnigraphError, UsageError
from omnigraph_core.records import dataclass
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
    """A failure that may pass: Spark tries the task again. The text carries it to the driver."""

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
class ParseTask:
    """What every task of the parse phase knows; called with the parts of one partition."""

    spec: JobSpec
    settings: Settings
    rows_read: Any
    """An accumulator, for the progress bar."""

    def __call__(self, splits: Iterable[Split]) -> Iterator[Json]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        faults.arm(self.settings.failpoints)
        for split in splits:
            attempt = context.attemptNumber()
            try:
                found = self._parse(split, f"{split.number}-{context.taskAttemptId()}")
                # By part and attempt, so that a test can break the first attempt and not the second.
                faults.hit(f"spark.parsed.{split.number}.{attempt}")
            except OmnigraphError as error:
                raise TaskFailed(error) from error
            yield found.encode()

    def _parse(self, split: Split, name: str) -> SplitOutcome:
        place = Workplace(self.spec, opened(self.spec, self.settings), name)
        violations = Violations(None if self.spec.is_rejecting else SHOWN_MAX)
        reader = SplitReader(split, self.spec.schema, self.settings.s3)
        writers: dict[str, Writer] = {}
        try:
            for piece in reader.rows(violations):
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
            if self.spec.is_rejecting or not violations.total:
                found = {key: writer.finish() for key, writer in writers.items()}
        except (BadDataError, LimitError, UsageError) as error:
            return SplitOutcome(split.number, reader.lines, {}, failure=encode_failure(error))
        kept = violations.first
        return SplitOutcome(split.number, reader.lines, found, kept, violations.total)
