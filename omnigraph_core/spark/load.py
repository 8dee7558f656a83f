"""A load with Spark, in the process that was asked: where its rows come from, and how they are staged.

Append and overwrite: tasks write fragments of the tables themselves; their keys are read
back and asked by the rules of every load, and the fragments are published through the door.
Merge, and a dry run: tasks leave the rows they read in the staging folder, and from there
on it is a load like any other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.load.formats.typed_rows import TypedRows, no_rows
from omnigraph_core.load.identified import Identified
from omnigraph_core.load.local import RowsHere
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.load.record import LoadRecord
from omnigraph_core.load.request import LoadRequest
from omnigraph_core.load.roles import Asked, Read, Reading, RowStaging, Source
from omnigraph_core.load.run import InputsOutdated, Load
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.rules.parts import Part
from omnigraph_core.rules.violations import Violations
from omnigraph_core.schema import EntityType, Schema, schema_hash
from omnigraph_core.settings import Settings
from omnigraph_core.spark.digests import Digests
from omnigraph_core.spark.given import Given, resolve
from omnigraph_core.spark.intake import WrittenRows, WrittenType
from omnigraph_core.spark.options import SparkOptions
from omnigraph_core.spark.outcome import Parsed
from omnigraph_core.spark.parse import LINE_COLUMN, read_piece
from omnigraph_core.spark.running import RunningJob
from omnigraph_core.spark.spec import JobSpec, TableAt, Target
from omnigraph_core.spark.submit import Runner, Submission
from omnigraph_core.storage import Storage
from omnigraph_core.tables.limits import ROWS_PER_FRAGMENT
from omnigraph_core.tables.moved import Moved
from omnigraph_core.tables.sink import RowSink
from omnigraph_core.tables.staged import StagedWrite
from omnigraph_core.write.writable import WritableTable


def spark_source(load: Load, settings: Settings, options: SparkOptions, asked: Asked) -> Source:
    """The source of a load whose inputs a job reads."""
    given = resolve(asked, load.schema, options, settings, load.door.storage.location)
    runner = Submission(load.door.storage, settings, options, load.progress).run
    return source_of(load.request, given, runner, options)


def source_of(request: LoadRequest, given: Given, runner: Runner, options: SparkOptions) -> Source:
    """The source whose rows a runner provides."""
    if request.mode is LoadMode.MERGE or request.dry_run:
        return ReadSource(given, runner, options)
    return WrittenSource(given, runner, options)


def _spec(reading: Reading, given: Given, target: Target, options: SparkOptions) -> JobSpec:
    return JobSpec(
        operation_id=reading.record.operation_id,
        graph=reading.door.storage.location.uri,
        schema=reading.schema,
        mode=reading.request.mode,
        target=target,
        is_rejecting=reading.request.is_rejecting,
        rows_per_fragment=ROWS_PER_FRAGMENT,
        tables={},
        committed={},
        memory_limit_bytes=reading.budget.limit_bytes,
        splits=given.splits,
        reader=options.reader,
        paths=given.paths,
        front_pid=None if options.in_cluster else os.getpid(),
    )


class ReadSource:
    """Rows that tasks have read, and that wait here from then on."""

    writes_tables = False

    def __init__(self, given: Given, runner: Runner, options: SparkOptions) -> None:
        self._given, self._runner, self._options = given, runner, options
        self._here = RowsHere()
        self._open = ExitStack()

    def read(self, reading: Reading) -> Read:
        storage, request = reading.door.storage, reading.request
        job = RunningJob(storage, self._runner, reading.record)
        job.begin()
        if request.start is None:
            reading.record.pin(reading.door.attempt(request.branch).snapshot)
        digests = self._open.enter_context(Digests(self._given))
        parsed, _ = job.run(_spec(reading, self._given, Target.PIECES, self._options))
        self._here.take(_pieces(reading.schema, parsed, storage, reading.violations), reading)
        return Read(self._here.rows, digests.result)

    def staging(self, reading: Reading) -> RowStaging:
        return self._here.staging(reading)

    def close(self) -> None:
        self._open.close()
        self._here.close()


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
    lines = pc.add(rows.column(LINE_COLUMN).combine_chunks(), before)
    return TypedRows(entity, rows.select(rows.column_names[:-1]), source, lines)


def report(parsed: Parsed, number: int, violations: Violations) -> None:
    """Violations of one part: those it kept, and how many more there are."""
    kept = parsed.violations_of(number)
    violations.add_counted(kept, parsed.outcomes[number].total)


class WrittenSource:
    """Rows that tasks have written into fragments, and whose keys they may have checked."""

    writes_tables = True

    def __init__(self, given: Given, runner: Runner, options: SparkOptions) -> None:
        self._given, self._runner, self._options = given, runner, options
        self._rows: dict[str, WrittenRows] = {}
        self._job: RunningJob | None = None
        self._open = ExitStack()

    def read(self, reading: Reading) -> Read:
        door, schema = reading.door, reading.schema
        attempt = door.attempt(reading.request.branch)
        if attempt.schema_hash != schema_hash(schema):
            raise InputsOutdated(attempt.branch)
        job = self._job = RunningJob(door.storage, self._runner, reading.record)
        job.begin()
        reading.record.pin(attempt.snapshot)
        digests = self._open.enter_context(Digests(self._given))
        keys = self._given.keys or {entity.table_key for entity in schema.types()}
        tables = {key: door.open_for_write(attempt, key).table for key in sorted(keys)}
        committed = {
            key: TableAt(each.ref, each.table_version) for key, each in attempt.snapshot.tables.items()
        }
        spec = replace(
            _spec(reading, self._given, Target.TABLES, self._options),
            tables={key: TableAt(table.ref, table.version) for key, table in tables.items()},
            committed=committed,
        )
        parsed, checked = job.run(spec)
        for number in range(len(parsed.outcomes)):
            report(parsed, number, reading.violations)
        for entity in schema.types():
            key = entity.table_key
            if key in parsed.keys:
                written = WrittenType.of(entity, tables[key].ref, parsed)
                self._rows[key] = WrittenRows(written, door.storage, tables[key])
        return Read(self._rows, digests.result, checked)

    def staging(self, reading: Reading) -> RowStaging:
        assert self._job is not None
        return WrittenStager(self._job, reading.record, self._rows)

    def close(self) -> None:
        self._open.close()


class WrittenStager:
    """Stages what was written elsewhere."""

    is_long = True

    def __init__(self, job: RunningJob, record: LoadRecord, rows: Mapping[str, WrittenRows]) -> None:
        self._job, self._record, self._rows = job, record, rows
        self._sinks: dict[str, RowSink] = {}

    def begin(self, read_base: Callable[[], Snapshot]) -> None:
        """The versions were pinned before the job began."""

    def begin_attempt(self) -> None:
        """The rows are nowhere else: if they are gone, the load cannot be planned again."""
        if self._sinks:
            for rows in self._rows.values():
                rows.check_files()

    @property
    def files(self) -> frozenset[str]:
        return frozenset(file.path for sink in self._sinks.values() for file in sink.files)

    def stage(
        self, writable: WritableTable, identified: Identified, parts: tuple[Part, ...], operation_id: str
    ) -> StagedWrite:
        change = identified.change
        rows = self._rows[change.key]
        sink = rows.sink(identified.stays, lambda files: self._job.add_files(file.path for file in files))
        self._sinks[change.key] = sink
        if change.replaces:
            return sink.stage_overwrite(writable.table, operation_id)
        return sink.stage_append(writable.table.version, operation_id)

    def restage(
        self, writable: WritableTable, identified: Identified, moved: Moved, operation_id: str
    ) -> StagedWrite:
        return self._sinks[identified.change.key].stage_append(writable.table.version, operation_id)

    def guard(self) -> None:
        self._record.check()

    def hand_over(self) -> None:
        self._job.hand_over(self.files)

    def stop(self) -> None:
        """There is nothing that takes long."""
