"""`load --spark` in the process that was asked: the job submitted, its rows checked and published.

Append and overwrite: tasks write fragments of the tables themselves; their keys are read
back and asked by the rules of every load, and the fragments are published through the door.
Merge, and a dry run: tasks leave the rows they read in the staging folder, and from there
on it is a load like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from omnigraph_core.change.changeset import ChangeSet, Verb
from omnigraph_core.change.committed import Committed
from omnigraph_core.change.parts import Part
from omnigraph_core.change.plan import Intent
from omnigraph_core.change.validate import raise_found
from omnigraph_core.change.violations import Violations
from omnigraph_core.history.log import GraphCommit
from omnigraph_core.load.assemble import LoadMode
from omnigraph_core.load.intake import Identified, Intake
from omnigraph_core.load.records import TypedRows, no_rows
from omnigraph_core.load.run import Load, Loaded, Rejecting
from omnigraph_core.load.staging import Stager
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.progress import Progress
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, Schema
from omnigraph_core.settings import Settings
from omnigraph_core.spark.check import Checked
from omnigraph_core.spark.digests import Digests
from omnigraph_core.spark.given import Asked, Given, resolve
from omnigraph_core.spark.intake import WrittenIntake, WrittenType
from omnigraph_core.spark.options import SparkOptions
from omnigraph_core.spark.outcome import Parsed
from omnigraph_core.spark.parse import LINE_COLUMN, read_piece
from omnigraph_core.spark.running import RunningJob
from omnigraph_core.spark.spec import JobSpec, TableAt, Target
from omnigraph_core.spark.submit import Submission
from omnigraph_core.storage import Storage
from omnigraph_core.tables.fragments import ROWS_PER_FRAGMENT
from omnigraph_core.tables.sink import RowSink
from omnigraph_core.tables.staged import StagedWrite
from omnigraph_core.write.branches import branch_for_write
from omnigraph_core.write.door import Door
from omnigraph_core.write.plan import WriterKind
from omnigraph_core.write.writable import WritableTable

if TYPE_CHECKING:
    import pyarrow as pa


class _NothingLoaded(Exception):
    """There was nothing to load, so the branch that was made for it has to go."""

    def __init__(self, outcome: Loaded) -> None:
        super().__init__("nothing to load")
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class SparkLoader:
    """Loads into one graph with one Spark."""

    door: Door
    settings: Settings
    options: SparkOptions
    schema: Schema
    progress: Progress

    def load(
        self,
        asked: Asked,
        mode: LoadMode,
        intent: Intent,
        rejecting: Rejecting | None,
        branch: str,
        start: GraphCommit | None,
        *,
        dry_run: bool,
    ) -> Loaded:
        given = resolve(asked, self.schema, self.options, self.settings, self.door.storage.location)
        runner = Submission(self.door.storage, self.settings, self.options, self.progress).run
        common = (self.door, self.schema, mode, intent, self.settings.memory_limit_bytes, self.progress)
        if mode is LoadMode.MERGE or dry_run:
            with closing(_ReadLoad(*common, rejecting, self.settings.load_concurrency)) as read:
                job = RunningJob(self.door, runner, self.options, branch, intent.actor)
                with job.recorded(start):
                    read.take(job, given)
                    return read.finish(branch, start, dry_run=dry_run)
        with closing(_WrittenLoad(*common, rejecting, self.settings.load_concurrency)) as written:
            job = RunningJob(self.door, runner, self.options, branch, intent.actor)
            if start is None:
                return written.run(job, given, branch)
            try:
                with branch_for_write(self.door, branch, start, WriterKind.LOAD.value, intent.actor):
                    loaded = written.run(job, given, branch)
                    if loaded.commit_id is None:
                        raise _NothingLoaded(loaded)
            except _NothingLoaded as nothing:
                return nothing.outcome
            return replace(loaded, branch_created=True)


class _SparkLoad(Load):
    """What the two ways have in common."""

    def _spec(self, job: RunningJob, given: Given, target: Target) -> JobSpec:
        return JobSpec(
            operation_id="",
            graph="",
            schema=self._schema,
            mode=self._mode,
            target=target,
            is_rejecting=self._rejecting is not None,
            rows_per_fragment=ROWS_PER_FRAGMENT,
            tables={},
            committed={},
            memory_limit_bytes=self._budget.limit_bytes,
            splits=given.splits,
            reader=job.reader,
            paths=given.paths,
            front_pid=None,
        )


class _ReadLoad(_SparkLoad):
    """A load whose rows tasks have read."""

    def take(self, job: RunningJob, given: Given) -> None:
        with Digests(given) as digests:
            parsed, _ = job.run(self._spec(job, given, Target.PIECES))
            violations = self._collector()
            self._take(_pieces(self._schema, parsed, job.storage, violations), violations)
            self._examine(violations)
            self._intent = replace(self._intent, inputs=digests.result())


def _pieces(schema: Schema, parsed: Parsed, storage: Storage, violations: Violations) -> Iterator[TypedRows]:
    """The rows of all parts in the order of the input; what was wrong with others goes to `violations`."""
    entities = {entity.table_key: entity for entity in schema.types()}
    for split, outcome, before in zip(parsed.splits, parsed.outcomes, parsed.lines_before, strict=True):
        report(parsed, outcome.split, violations)
        for key, found in outcome.types.items():
            for path in found.pieces:
                yield _typed(entities[key], read_piece(storage, path), split.name, before)
            if not found.pieces:
                yield no_rows(entities[key], split.name)


def _typed(entity: EntityType, rows: pa.Table, source: str, before: int) -> TypedRows:
    import pyarrow.compute as pc

    lines = pc.add(rows.column(LINE_COLUMN).combine_chunks(), before)
    return TypedRows(entity, rows.select(rows.column_names[:-1]), source, lines)


def report(parsed: Parsed, number: int, violations: Violations) -> None:
    """Violations of one part: those it kept, and how many more there are."""
    kept = parsed.violations_of(number)
    violations.add_counted(kept, parsed.outcomes[number].total)


class _WrittenLoad(_SparkLoad):
    """A load whose fragments tasks have written, and whose keys they may have checked."""

    _checked: Checked | None = None

    def run(self, job: RunningJob, given: Given, branch: str) -> Loaded:
        with job.recorded(None):
            with Digests(given) as digests:
                self._take_written(job, given, self._door.base(branch))
                self._intent = replace(self._intent, inputs=digests.result())
            if not self._intakes:
                self._write_rejects()
                self._keep_rejects()
                return self.outcome()
            stager = _WrittenStager(job, branch, self._intent.actor, self._progress)
            published = self._door.write(branch, partial(self._plan, stager))
        self._keep_rejects()
        warnings = published.warnings + self._index(branch, published)
        return self.outcome(published.commit_id, warnings)

    def _take_written(self, job: RunningJob, given: Given, base: Snapshot) -> None:
        keys = given.keys or {entity.table_key for entity in self._schema.types()}
        tables = {key: self._door.open_for_write(base, key).table for key in sorted(keys)}
        committed = {key: TableAt(each.ref, each.table_version) for key, each in base.tables.items()}
        spec = replace(
            self._spec(job, given, Target.TABLES),
            tables={key: TableAt(table.ref, table.version) for key, table in tables.items()},
            committed=committed,
        )
        parsed, self._checked = job.run(spec)
        violations = self._collector()
        for number in range(len(parsed.outcomes)):
            report(parsed, number, violations)
        for entity in self._schema.types():
            key = entity.table_key
            if key in parsed.keys:
                written = WrittenType.of(entity, tables[key].ref, parsed)
                self._intakes[key] = WrittenIntake(
                    written,
                    self._mode,
                    self._budget,
                    job.storage,
                    tables[key],
                    rejecting=self._rejecting is not None,
                )
        self._examine(violations)

    def _examine(self, violations: Violations) -> None:
        if self._checked is None:
            super()._examine(violations)
            return
        violations.raise_if_any()
        self._checked.among.raise_if_any()

    def _ask(self, changes: ChangeSet, committed: Committed, violations: Violations) -> None:
        """What tasks have found holds while nothing has moved that they looked at.

        A taken id is asked for again: of a row that it would replace no unique tuple is
        held, which takes the ids of all parts to know.
        """
        checked = self._checked
        if checked is None or checked.key_conflict is not None or not _is_current(checked, committed.base):
            super()._ask(changes, committed, violations)
            return
        for key in checked.reads:
            committed.table(key)
        raise_found(checked.violations, checked.conflicts, checked.key_conflict)


def _is_current(checked: Checked, base: Snapshot) -> bool:
    return all(base.entry(key).table_version == version for key, version in checked.reads.items())


class _WrittenStager(Stager):
    """Stages what was written elsewhere."""

    def __init__(self, job: RunningJob, branch: str, actor: str | None, progress: Progress) -> None:
        super().__init__(job.storage, branch, actor, progress)
        self._job = job
        self._sinks: dict[str, RowSink] = {}

    @property
    def files(self) -> frozenset[str]:
        return frozenset(file.path for sink in self._sinks.values() for file in sink.files)

    def stage(
        self,
        writable: WritableTable,
        intake: Intake,
        identified: Identified,
        parts: tuple[Part, ...],
        operation_id: str,
    ) -> StagedWrite:
        assert isinstance(intake, WrittenIntake)
        change = identified.change
        sink = intake.sink(lambda files: self._job.add_files(file.path for file in files))
        self._sinks[change.key] = sink
        if change.verb is Verb.REPLACE:
            return sink.stage_overwrite(writable.table, operation_id)
        return sink.stage_append(writable.table.version, operation_id)

    def hand_over(self) -> None:
        self._job.hand_over(self.files)
