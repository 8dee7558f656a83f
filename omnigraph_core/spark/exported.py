"""An export by executors: which parts there are, and the task that writes one.

A part is some fragments of one table, and becomes one file, or several where it is large. Names
carry the export's id and the attempt, so that no two attempts write the same file; only those that
were reported to the driver count.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, ClassVar

import pyarrow as pa

from omnigraph_core import faults
from omnigraph_core.errors import InternalError, OmnigraphError
from omnigraph_core.export.csv import csv_header, csv_records
from omnigraph_core.export.jsonl import jsonl_lines
from omnigraph_core.export.parquet import write_parquet_rows
from omnigraph_core.export.rows import blob_columns
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, Schema, parse_compiled, pretty_json
from omnigraph_core.schema.files import Format
from omnigraph_core.settings import Settings
from omnigraph_core.spark.outcome import Json
from omnigraph_core.spark.spec import JobKind, TableAt, decode_tables, encode_tables
from omnigraph_core.spark.task import TaskFailed
from omnigraph_core.spark.worker import tables_at
from omnigraph_core.storage import Storage, open_storage, parse_location

_FORMAT_VERSION = 1
_BATCH_ROWS = 1 << 15
_BLOB_BATCH_ROWS = 64
# A file is one object and is sent whole, so a task holds one at a time.
_FILE_BYTES = 128 * 2**20
WORK_FOLDER = "_temporary"


@dataclass(frozen=True, slots=True)
class ExportPart:
    """Fragments of one table."""

    number: int
    table_key: str
    folder: str
    """Where the files of its type go, below the place of the export."""
    fragments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExportSpec:
    """One export. Its place is where the files go, and nothing is ever written to the graph."""

    operation_id: str
    place: str
    graph: str
    schema: Schema
    format: Format
    tables: dict[str, TableAt]
    parts: tuple[ExportPart, ...]
    front_pid: int | None

    kind: ClassVar[JobKind] = JobKind.EXPORT

    @property
    def folder(self) -> str:
        return work_folder(self.operation_id)

    @property
    def record(self) -> str:
        return f"{self.folder}/job.json"

    def entity(self, key: str) -> EntityType:
        return next(each for each in self.schema.types() if each.table_key == key)

    def write(self, storage: Storage) -> None:
        content = {
            "format": _FORMAT_VERSION,
            "graph": self.graph,
            "schema": pretty_json(self.schema),
            "files": self.format.value,
            "tables": encode_tables(self.tables),
            "parts": [asdict(part) for part in self.parts],
            "front_pid": self.front_pid,
        }
        storage.control.put(self.record, json.dumps(content, ensure_ascii=False).encode())


def work_folder(operation_id: str) -> str:
    return f"{WORK_FOLDER}/{operation_id}"


def read_export(storage: Storage, operation_id: str) -> ExportSpec:
    found = storage.control.get(f"{work_folder(operation_id)}/job.json")
    if found is None:
        raise InternalError(f"the export {operation_id} no longer exists")
    content: dict[str, Any] = json.loads(found.data)
    if content["format"] != _FORMAT_VERSION:
        raise InternalError("the job was submitted by another version of OmniGraph")
    return ExportSpec(
        operation_id,
        storage.location.uri,
        content["graph"],
        parse_compiled(content["schema"]),
        Format(content["files"]),
        decode_tables(content["tables"]),
        tuple(ExportPart(**{**each, "fragments": tuple(each["fragments"])}) for each in content["parts"]),
        content["front_pid"],
    )


@dataclass(frozen=True, slots=True)
class ExportTask:
    """Writes the files of some parts."""

    spec: ExportSpec
    settings: Settings
    rows_written: Any
    """An accumulator, for the progress bar."""

    def __call__(self, parts: Iterable[ExportPart]) -> Iterator[Json]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        faults.arm(self.settings.failpoints)
        for part in parts:
            try:
                name = f"part-{part.number:05}-{self.spec.operation_id.lower()}-{context.taskAttemptId()}"
                yield {"table_key": part.table_key, "number": part.number, "files": self._write(part, name)}
                faults.hit(f"spark.exported.{part.number}.{context.attemptNumber()}")
            except OmnigraphError as error:
                raise TaskFailed(error) from error

    def _write(self, part: ExportPart, name: str) -> list[Json]:
        location = parse_location(self.spec.place, self.settings.working_directory)
        control = open_storage(location, self.settings).control
        entity, found = self.spec.entity(part.table_key), []
        for number, (data, rows) in enumerate(self._files(part, entity)):
            path = f"{part.folder}/{name}-{number}.{self.spec.format.value}"
            control.put(path, data)
            found.append({"path": path, "rows": rows, "bytes": len(data)})
            self.rows_written.add(rows)
        return found

    def _files(self, part: ExportPart, entity: EntityType) -> Iterator[tuple[bytes, int]]:
        waiting: list[pa.Table] = []
        for rows in self._rows(part, entity):
            waiting.append(rows)
            if sum(each.nbytes for each in waiting) >= _FILE_BYTES:
                yield self._encoded(waiting, entity)
                waiting = []
        # A type without rows still says what its columns are.
        if waiting or (not part.fragments and self.spec.format is not Format.JSONL):
            yield self._encoded(waiting, entity)

    def _rows(self, part: ExportPart, entity: EntityType) -> Iterator[pa.Table]:
        if not part.fragments:
            return
        at = self.spec.tables[part.table_key]
        table = tables_at(self.spec.graph, self.settings).open(at.ref, at.version)
        blobs = bool(blob_columns(entity))
        size = _BLOB_BATCH_ROWS if blobs else _BATCH_ROWS
        names = list(entity.columns)
        for batch in table.scan(names, fragment_ids=part.fragments, blobs=blobs, batch_rows=size):
            if batch.num_rows:
                yield pa.Table.from_batches([batch])

    def _encoded(self, rows: list[pa.Table], entity: EntityType) -> tuple[bytes, int]:
        file = io.BytesIO()
        if self.spec.format is Format.PARQUET:
            write_parquet_rows(file, rows, entity)
        elif self.spec.format is Format.CSV:
            file.writelines([csv_header(entity), *(csv_records(each, entity) for each in rows)])
        else:
            file.writelines(jsonl_lines(each, entity) for each in rows)
        return file.getvalue(), sum(each.num_rows for each in rows)
