"""CSV of one type to typed rows: pyarrow for what it can prove, record by record for the rest.

The first record is the header: names as in `file_columns`, in any order. An unquoted empty
field is null, `""` is the empty text; what other texts mean is said in `text_values`. The
encoding is UTF-8, and NUL is no character of a text file. A column that the file does not
have is filled with its property's default. As with JSON lines, the fast
path never decides that a record is wrong: it raises `Unfit`, and the exact path, which
names every value that is wrong, has the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from omnigraph_core.load.formats.csv_quoting import Cut, Misquoted, cut_records, split_fields
from omnigraph_core.load.formats.fallback import by_type, halving
from omnigraph_core.load.formats.file_columns import check_columns
from omnigraph_core.load.formats.limits import BLOCK_LINES_MAX
from omnigraph_core.load.formats.lines import Lines
from omnigraph_core.load.formats.parsed import Unfit, identified
from omnigraph_core.load.formats.record import Collected, Record, finish_identity
from omnigraph_core.load.formats.side_by_side import in_order
from omnigraph_core.load.formats.source import Source
from omnigraph_core.load.formats.text_values import convert_texts, read_text
from omnigraph_core.load.formats.typed_rows import TypedRows, no_rows
from omnigraph_core.progress import Progress, ProgressEvent, silent
from omnigraph_core.records import dataclass
from omnigraph_core.rules.violations import InvalidRecords, Violation, Violations
from omnigraph_core.schema import EntityType
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.schema.files import end_columns, file_columns
from omnigraph_core.values.coerce import CoercionError
from omnigraph_core.values.defaults import absent_column, default_values

_EXACT_RECORDS = 256


def read_csv(
    source: Source, entity: EntityType, violations: Violations, progress: Progress = silent
) -> Iterator[TypedRows]:
    """Every good record of a file; what is wrong with the others goes to `violations`.

    Raises InvalidRecords at once for a header with which no record could be right. A file
    without records gives one piece without rows: it still says which type it is about.
    """
    done = 0

    def on_bytes(number: int) -> None:
        nonlocal done
        done += number
        progress(ProgressEvent("read", done, source.size, "bytes"))

    cuts = cut_records(source.blocks(on_bytes), source.line_bytes_max)
    header, rest = _read_header(cuts, source.name, entity)
    reader = _CsvReader(source.name, entity, header)
    found = False
    for read in in_order(_in_pieces(rest), reader.read, _weight):
        violations.extend(read.violations)
        found = found or bool(read.rows)
        yield from read.rows
    if not found:
        yield no_rows(entity, source.name)


def _read_header(cuts: Iterator[Cut], source: str, entity: EntityType) -> tuple[list[str], Iterator[Cut]]:
    """The checked names in the first record, and everything after it."""
    for cut in cuts:
        if cut.misquoted and (not len(cut.records) or cut.misquoted[0].line < cut.records.numbers[0].as_py()):
            first = cut.misquoted[0]
            raise _refused(source, first.line, f"the header: {first.message}")
        if len(cut.records):
            line, text = cut.records.numbers[0].as_py(), cut.records.texts[0].as_py()
            names = _names(text, source, line)
            check_columns(names, entity, source, line)
            return names, _chained(Cut(cut.records.slice(1, len(cut.records) - 1), cut.misquoted), cuts)
    raise _refused(source, 1, "the input is empty: CSV begins with a header line")


def _names(record: bytes, source: str, line: int) -> list[str]:
    try:
        return [(each or b"").decode("utf-8") for each in split_fields(record)]
    except UnicodeDecodeError as error:
        raise _refused(source, line, "the header is not UTF-8 text") from error


def _refused(source: str, line: int, message: str) -> InvalidRecords:
    return InvalidRecords((Violation(message, source, line),), 1)


def _in_pieces(cuts: Iterable[Cut]) -> Iterator[Cut]:
    """Some records at a time, and what could not be cut with the first of them."""
    for cut in cuts:
        yield Cut(cut.records.slice(0, BLOCK_LINES_MAX), cut.misquoted)
        for start in range(BLOCK_LINES_MAX, len(cut.records), BLOCK_LINES_MAX):
            yield Cut(cut.records.slice(start, BLOCK_LINES_MAX))


def _weight(cut: Cut) -> int:
    return int(cut.records.texts.nbytes) + sum(len(each.text) for each in cut.misquoted)


def _chained(first: Cut, rest: Iterable[Cut]) -> Iterator[Cut]:
    yield first
    yield from rest


@dataclass(frozen=True, slots=True)
class _ReadCut:
    rows: list[TypedRows]
    violations: list[Violation]


class _CsvReader:
    """Reads records under one header; stateless, so threads can share it."""

    def __init__(self, source: str, entity: EntityType, header: list[str]) -> None:
        self._source = source
        self._entity = entity
        known = file_columns(entity)
        self._columns = [known[name] for name in header]
        self._ends = {column: name for name, column in end_columns(entity).items()}
        absent = default_values(entity)
        self._absent = {name: value for name, value in absent.items() if name not in self._columns}

    def read(self, cut: Cut) -> _ReadCut:
        tables, refused = halving(cut.records, self._read_fast, _EXACT_RECORDS)
        pieces = [
            TypedRows(self._entity, rows, self._source, part.numbers, given) for part, (rows, given) in tables
        ]
        violations = [self._misquoted(each) for each in cut.misquoted]
        for records in refused:
            good, bad = self._read_exact(records)
            pieces.append(good)
            violations += bad
        return _ReadCut(by_type(pieces), sorted(violations, key=lambda violation: violation.line or 0))

    # ---- fast ----

    def _read_fast(self, records: Lines) -> tuple[pa.Table, pa.Array | None]:
        """The rows and given ids of the records, or Unfit."""
        try:
            texts = self._parse(records)
            columns = {name: texts.column(name).combine_chunks() for name in self._columns}
        except pa.ArrowException as error:
            raise Unfit from error
        schema = table_schema(self._entity)
        arrays = [self._converted(columns.get(field.name), field, len(records)) for field in schema]
        return identified(pa.Table.from_arrays(arrays, schema=schema), self._entity)

    def _parse(self, records: Lines) -> pa.Table:
        """All fields as texts, one row per record; an empty field is null."""
        from pyarrow import csv

        text = records.joined
        if b"\0" in text.to_pybytes():
            raise Unfit
        parsed = csv.read_csv(
            pa.BufferReader(text),
            read_options=csv.ReadOptions(
                use_threads=False, block_size=max(text.size, 1), column_names=self._columns
            ),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(self._columns, pa.utf8()),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        if parsed.num_rows != len(records):
            raise Unfit
        return parsed

    def _converted(self, texts: pa.Array | None, field: pa.Field, number: int) -> pa.Array:
        prop = self._entity.find_property(field.name)
        if texts is None:
            return pa.nulls(number, field.type) if prop is None else absent_column(prop, number)
        if prop is not None:
            return convert_texts(texts, prop.type)
        if field.name in self._ends and texts.null_count:
            raise Unfit
        return texts

    # ---- exact ----

    def _read_exact(self, records: Lines) -> tuple[TypedRows, list[Violation]]:
        good = Collected(self._entity, {name: [] for name in self._entity.columns})
        violations: list[Violation] = []
        for number, text in records.pairs():
            record = Record(self._source, number, text.rstrip(b"\r\n"), self._entity)
            self._examine(record, split_fields(text))
            if record.violations:
                violations += record.violations
            else:
                good.append(record)
        return good.typed_rows(self._source), violations

    def _examine(self, record: Record, fields: list[bytes | None]) -> None:
        if len(fields) != len(self._columns):
            record.wrong(f"has {len(fields)} fields where the header has {len(self._columns)}")
            return
        for column, data in zip(self._columns, fields, strict=True):
            if data is None:
                if column in self._ends:
                    record.wrong(f"edge missing '{self._ends[column]}'")
                continue
            try:
                record.values[column] = self._value(column, data)
            except CoercionError as error:
                record.wrong(str(error), self._ends.get(column, column))
        record.values.update(self._absent)
        finish_identity(record, self._entity)

    def _value(self, column: str, data: bytes) -> object:
        text = _decoded(data)
        prop = self._entity.find_property(column)
        return text if prop is None else read_text(text, prop.type)

    def _misquoted(self, misquoted: Misquoted) -> Violation:
        return Violation(
            misquoted.message,
            self._source,
            misquoted.line,
            self._entity.name,
            record=misquoted.text.rstrip(b"\r\n"),
        )


def _decoded(data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CoercionError(f"not valid UTF-8: byte 0x{data[error.start]:02x}") from error
    if "\0" in text:
        raise CoercionError("contains a NUL byte")
    return text
