"""Parquet of one type to typed rows, a batch at a time.

Names and types of the columns are checked before any row is read; `typed_values` says which
types fit. The number of a row, from 1, stands where other formats have the line.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.errors import StorageError
from omnigraph_core.load.formats.compressed import DamagedInput
from omnigraph_core.load.formats.file_columns import check_columns
from omnigraph_core.load.formats.given_ids import compare_ids, not_its_id
from omnigraph_core.load.formats.limits import PARQUET_BATCH_BYTES
from omnigraph_core.load.formats.parquet_sizes import batch_rows, dictionary_columns
from omnigraph_core.load.formats.side_by_side import in_order
from omnigraph_core.load.formats.source import LocalFile, Place
from omnigraph_core.load.formats.typed_rows import TypedRows, no_rows
from omnigraph_core.load.formats.typed_values import Fault, fits, widen
from omnigraph_core.progress import Progress, ProgressEvent, silent
from omnigraph_core.records import dataclass
from omnigraph_core.rules.violations import InvalidRecords, Violation, Violations
from omnigraph_core.schema import EntityType, NodeType, PropertyType, Scalar
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.schema.files import file_columns
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.values.arrays import any_true
from omnigraph_core.values.coerce import BLOB_PREFIX
from omnigraph_core.values.defaults import absent_column
from omnigraph_core.values.identity import key_ids
from omnigraph_core.values.shown import clipped

if TYPE_CHECKING:
    from pyarrow import parquet as pq

_STRING = PropertyType(Scalar.STRING)
_BUFFER_BYTES = 2**20


class ParquetSource:
    """A Parquet file. Its digest is made beside the reading, which jumps about in the file."""

    def __init__(
        self, path: str, place: Place | None = None, *, batch_bytes: int = PARQUET_BATCH_BYTES
    ) -> None:
        self.place = LocalFile(path) if place is None else place
        self._batch_bytes = batch_bytes
        self.name = path
        self.size = self.place.size()
        self.bytes_read = 0
        self._sha256 = ""

    @property
    def sha256(self) -> str:
        return self._sha256

    def batches(self, entity: EntityType) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        """The rows in batches: the number of the first, how many there are in all, and the batch."""
        with ThreadPoolExecutor(1, thread_name_prefix="digest") as pool:
            digest = pool.submit(self._digest)
            yield from self._read(entity)
            digest.result()

    def _digest(self) -> None:
        with self.place.open() as file:
            found = hashlib.file_digest(file, "sha256")  # type: ignore[arg-type]
            self.bytes_read = file.tell()
        self._sha256 = found.hexdigest()

    def row_groups(self) -> list[int]:
        """How many rows each row group has."""
        with self._opened() as file:
            return [
                file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)
            ]

    def _read(
        self, entity: EntityType, groups: Sequence[int] | None = None
    ) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        with self._opened() as file:
            check_types(file.schema_arrow, entity, self.name)
            sizes = [
                file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)
            ]
            chosen = range(len(sizes)) if groups is None else groups
            first, total = 1 + sum(sizes[: min(chosen, default=0)]), file.metadata.num_rows
            with self._opened(dictionary_columns(file)) as dictionaries:
                rows = batch_rows(file, dictionaries, self._batch_bytes)
            for batch in file.iter_batches(batch_size=rows, row_groups=list(chosen)):
                yield first, total, batch
                first += batch.num_rows

    @contextmanager
    def _opened(self, dictionaries: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
        """The file; columns `dictionaries` are read as they are stored."""
        from pyarrow import parquet as pq

        try:
            with (
                self.place.open() as opened,
                pq.ParquetFile(
                    # Arrow reads a path of its own accord faster than through Python's file.
                    self.place.path if isinstance(self.place, LocalFile) else opened,
                    pre_buffer=False,
                    read_dictionary=list(dictionaries),
                    buffer_size=_BUFFER_BYTES,
                ) as file,
            ):
                yield file
        except (pa.ArrowException, UnicodeDecodeError) as error:  # Names need not be UTF-8.
            raise DamagedInput(self.name, f"not a whole Parquet file ({clipped(str(error))})") from error
        except OSError as error:
            if error.errno is not None:
                raise StorageError(f"reading {self.name} failed: {error.strerror or error}") from error
            raise DamagedInput(self.name, f"the Parquet data is damaged ({clipped(str(error))})") from error


class ParquetSplit(ParquetSource):
    """Some row groups of a file that follow each other; rows keep their numbers in the file."""

    def __init__(self, name: str, place: Place, groups: Sequence[int]) -> None:
        super().__init__(name, place)
        self._groups = groups

    def batches(self, entity: EntityType) -> Iterator[tuple[int, int, pa.RecordBatch]]:
        return self._read(entity, self._groups)


def check_types(schema: pa.Schema, entity: EntityType, source: str) -> None:
    """Raise one InvalidRecords that lists every column that is missing, unknown or of another type."""
    check_columns(schema.names, entity, source, None)
    violations = []
    for field in schema:
        prop = entity.find_property(file_columns(entity)[field.name])
        type_ = _STRING if prop is None else prop.type
        if not fits(field.type, type_):
            expected = str(type_).removesuffix("?")
            message = f"the column '{field.name}' expects {expected}, found {field.type}"
            violations.append(Violation(message, source, None, entity.name, field.name))
    if violations:
        raise InvalidRecords(tuple(violations), len(violations))


class TypedBatches(Protocol):
    """Rows of one type that have types already: a Parquet file, or what a caller holds as Arrow."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int | None: ...

    def batches(self, entity: EntityType) -> Iterator[tuple[int, int, pa.RecordBatch]]: ...


def read_typed(
    source: TypedBatches, entity: EntityType, violations: Violations, progress: Progress = silent
) -> Iterator[TypedRows]:
    """Every good row of a source; what is wrong with the others goes to `violations`.

    Raises InvalidRecords at once for columns that cannot be taken. A source without rows gives
    one piece without rows: it still says which type it is about.
    """
    size = source.size or 0

    def work(task: tuple[int, int, pa.RecordBatch]) -> tuple[_Converted, int]:
        first, total, batch = task
        return _convert(batch, entity, first), size * (first - 1 + batch.num_rows) // max(total, 1)

    found = False
    for converted, done in in_order(source.batches(entity), work, _weight):
        _report(converted, entity, source.name, violations)
        progress(ProgressEvent("read", done, source.size, "bytes"))
        if converted.rows.num_rows:
            found = True
            yield TypedRows(entity, converted.rows, source.name, converted.lines, converted.given)
    if not found:
        yield no_rows(entity, source.name)


def _weight(task: tuple[int, int, pa.RecordBatch]) -> int:
    return int(task[2].nbytes)


def read_batches(
    batches: Iterable[pa.RecordBatch], entity: EntityType, source: str, violations: Violations
) -> Iterator[TypedRows]:
    """The same for batches read elsewhere; rows are numbered from 1."""
    first = 1
    for batch in batches:
        if first == 1:
            check_types(batch.schema, entity, source)
        converted = _convert(batch, entity, first)
        _report(converted, entity, source, violations)
        first += batch.num_rows
        yield TypedRows(entity, converted.rows, source, converted.lines, converted.given)
    if first == 1:
        yield no_rows(entity, source)


@dataclass(frozen=True, slots=True)
class _Converted:
    """A batch: its good rows with their numbers, and the faults of the others by column."""

    batch: pa.RecordBatch
    first: int
    rows: pa.Table
    lines: pa.Array
    given: pa.Array | None
    faults: list[tuple[str | None, Fault]]


def _convert(batch: pa.RecordBatch, entity: EntityType, first: int) -> _Converted:
    faults: list[tuple[str | None, Fault]] = []
    columns: dict[str, pa.Array] = {}
    for name, column in file_columns(entity).items():
        position = batch.schema.get_field_index(name)
        if position < 0:
            continue
        prop = entity.find_property(column)
        widened = widen(batch.column(position), _STRING if prop is None else prop.type)
        columns[column] = widened.values
        faults += [(name, fault) for fault in widened.faults]
        if prop is None and name != ID_COLUMN and widened.values.null_count:
            faults.append((None, Fault(widened.values.is_null(), _missing(name))))
    schema = table_schema(entity)
    for prop in entity.properties:
        if prop.name not in columns:
            columns[prop.name] = absent_column(prop, batch.num_rows)
    columns.setdefault(ID_COLUMN, pa.nulls(batch.num_rows, pa.utf8()))
    rows = pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
    rows, given, more = _identified(rows, entity, _good(faults, batch.num_rows))
    faults += more
    lines = pa.array(np.arange(first, first + batch.num_rows, dtype=np.int64))
    if faults:
        mask = _good(faults, batch.num_rows)
        rows, lines = rows.filter(mask).combine_chunks(), lines.filter(mask)
        given = None if given is None else given.filter(mask)
    return _Converted(batch, first, rows, lines, given, faults)


def _missing(name: str) -> Any:
    return lambda row: f"edge missing '{name}'"


def _good(faults: list[tuple[str | None, Fault]], number: int) -> pa.Array:
    """Which rows have no fault."""
    good = pa.repeat(pa.scalar(True), number)
    for _, fault in faults:
        good = pc.and_not(good, fault.rows)
    return good


def _identified(
    rows: pa.Table, entity: EntityType, good: pa.Array
) -> tuple[pa.Table, pa.Array | None, list[tuple[str | None, Fault]]]:
    """Rows with the ids of keyed nodes filled in, the ids they came with, and those that are wrong."""
    given = rows.column(ID_COLUMN).combine_chunks()
    if not isinstance(entity, NodeType) or entity.key is None:
        empty = pc.fill_null(pc.equal(given, ""), False)
        fault = Fault(empty, lambda row: "an id must not be empty")
        return rows, None, [(ID_COLUMN, fault)] if any_true(empty) else []
    if any_true(pc.invert(good)):
        # A key is only made of values that are right; the others are on their way out.
        canonical = key_ids(rows.filter(good).combine_chunks(), entity.key, entity)
        canonical = pc.replace_with_mask(pa.nulls(len(good), pa.utf8()), good, canonical)
    else:
        canonical = key_ids(rows, entity.key, entity)
    rows = rows.set_column(0, rows.schema.field(ID_COLUMN), canonical)
    found = compare_ids(given, canonical, rows, entity)
    if found.wrong is None:
        return rows, found.renamed, []

    def describe(row: int) -> str:
        return not_its_id(given[row].as_py(), canonical[row].as_py())

    return rows, found.renamed, [(ID_COLUMN, Fault(found.wrong, describe))]


def _report(converted: _Converted, entity: EntityType, source: str, violations: Violations) -> None:
    """Violations in row order; only those that will be shown get a message."""
    found = [
        (int(row), number)
        for number, (_, fault) in enumerate(converted.faults)
        for row in np.flatnonzero(fault.rows.to_numpy(zero_copy_only=False))
    ]

    def word(place: tuple[int, int]) -> Violation:
        row, number = place
        name, fault = converted.faults[number]
        record = record_text(converted.batch, row)
        return Violation(fault.describe(row), source, converted.first + row, entity.name, name, record)

    violations.add_worded(sorted(found), word)


def record_text(batch: pa.RecordBatch, row: int) -> bytes:
    """A row as JSON, as closely as JSON can represent it: for people, and for the rejects file."""
    values = {name: _plain(batch.column(name)[row]) for name in batch.schema.names}
    return json.dumps(values, ensure_ascii=False, default=_text).encode("utf-8", "replace")


def _plain(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return getattr(value, "value", None)  # no Python object is as exact, or as large


def _text(value: object) -> str:
    return BLOB_PREFIX + base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
