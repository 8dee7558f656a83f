"""The fast reader of JSON lines: one type at a time, by pyarrow with that type's schema.

It never decides that a record is wrong. When it meets anything that it cannot prove to be
right it raises `Unfit`, and the exact reader looks at the lines again. What it accepts
must be exactly what the exact reader accepts, with the same rows.

What pyarrow's JSON reader does by itself: wrong kinds of value, unknown and repeated
keys, integers out of range, fractions for integers, halves of surrogate pairs and text
after a record are errors. What it lets pass, and is looked for here: NaN and
infinities, values too large for 32-bit floats, null in lists, two records on a line,
null where a key was not to be null, bytes that are not UTF-8, year 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from omnigraph_core.change.coerce import CoercionError, blob_bytes, blob_column
from omnigraph_core.change.identity import key_ids
from omnigraph_core.load.exact import JsonObject, NotJson, parse_strict
from omnigraph_core.load.lines import Lines
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EdgeType, EntityType, NodeType, PropertyType, Scalar
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.times import DAY_MAX, DAY_MIN, MS_MAX, MS_MIN

if TYPE_CHECKING:
    import pyarrow as pa

_TIMES = (Scalar.DATE, Scalar.DATE_TIME)
_SNIFFED_LINES = 8
# Added to microseconds before dividing, so that rounding towards zero rounds down.
_BEFORE_YEAR_0_MS = 10**14


class Unfit(Exception):
    """The lines are not for the fast reader. Says nothing about whether they are right."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What records of one type look like in a file, as far as the type leaves it open.

    `numeric_times` are the Date and DateTime properties written as numbers. A key that
    the shape does not have is not told to the parser, which is then sure not to meet it.
    """

    has_data: bool
    has_id: bool
    numeric_times: frozenset[str]

    @property
    def widest(self) -> Shape:
        return Shape(True, True, self.numeric_times)

    @staticmethod
    def of(lines: Lines, entity: EntityType) -> Shape:
        """The shape of the first few records; the others of a file mostly have the same."""
        records = [_object(text) for text in lines.texts.slice(0, _SNIFFED_LINES).to_pylist()]
        every = [_object(record.get("data")) for record in records]
        times = [prop.name for prop in entity.properties if prop.type.scalar in _TIMES]
        numeric = frozenset(name for name in times if _is_numeric(data.get(name) for data in every))
        has_data = any("data" in record for record in records)
        return Shape(has_data, any(ID_COLUMN in data for data in every), numeric)


def _object(value: object) -> Mapping[str, object]:
    """A JSON object, from its text or as it was parsed; an empty one if it is something else."""
    try:
        parsed = parse_strict(value) if isinstance(value, bytes) else value
    except NotJson:
        return {}
    return parsed if isinstance(parsed, JsonObject) else {}


def _is_numeric(values: Iterable[object]) -> bool:
    """Is the first time among the values a number? Lists are judged by what is in them."""
    for value in values:
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, int | str):
            return isinstance(first, int)
    return False


def read_rows(lines: Lines, entity: EntityType) -> pa.Table:
    """The rows of lines that all name `entity`, as `TypedRows` has them; or Unfit."""
    shape = Shape.of(lines, entity)
    try:
        return _read_shaped(lines, entity, shape)
    except Unfit:
        if shape == shape.widest:
            raise
        return _read_shaped(lines, entity, shape.widest)


def _read_shaped(lines: Lines, entity: EntityType, shape: Shape) -> pa.Table:
    import pyarrow as pa

    from omnigraph_core.schema.arrow import table_schema

    try:
        parsed = parse(lines, _envelope_schema(entity, shape), "error")
        columns = _data_columns(lines, entity, parsed, shape)
        if isinstance(entity, EdgeType):
            columns[SRC_COLUMN] = _all_given(parsed.column("from"))
            columns[DST_COLUMN] = _all_given(parsed.column("to"))
        schema = table_schema(entity)
        rows = pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
        return identified(rows, entity)
    except pa.ArrowException as error:
        raise Unfit from error


def read_names(lines: Lines) -> tuple[pa.Array, pa.Array]:
    """What each line has under `type` and `edge`, wherever in the record; or Unfit."""
    import pyarrow as pa

    try:
        parsed = parse(lines, pa.schema([("type", pa.utf8()), ("edge", pa.utf8())]), "ignore")
    except pa.ArrowException as error:
        raise Unfit from error
    return parsed.column("type").chunk(0), parsed.column("edge").chunk(0)


def parse(lines: Lines, schema: pa.Schema, unexpected: str) -> pa.Table:
    """pyarrow's reading of the lines, one row each; a row too many or too few is Unfit."""
    import pyarrow as pa
    from pyarrow import json

    text = lines.joined
    if not lines.is_ascii:
        _refuse_other_bytes(text)
    parsed = json.read_json(
        pa.BufferReader(text),
        read_options=json.ReadOptions(use_threads=False, block_size=text.size),
        parse_options=json.ParseOptions(
            explicit_schema=schema, newlines_in_values=False, unexpected_field_behavior=unexpected
        ),
    )
    if parsed.num_rows != len(lines):
        raise Unfit
    return parsed.combine_chunks()


def _refuse_other_bytes(text: pa.Buffer) -> None:
    """Unfit if the bytes are not UTF-8, which pyarrow would not notice."""
    try:
        str(text, "utf-8")
    except UnicodeDecodeError as error:
        raise Unfit from error


def _envelope_schema(entity: EntityType, shape: Shape) -> pa.Schema:
    import pyarrow as pa

    names = ("edge", "from", "to") if isinstance(entity, EdgeType) else ("type",)
    fields = [pa.field(name, pa.utf8()) for name in names]
    if not shape.has_data:
        return pa.schema(fields)
    data = [pa.field(ID_COLUMN, pa.utf8())] if shape.has_id else []
    data += [
        pa.field(prop.name, json_type(prop.type, numeric=prop.name in shape.numeric_times))
        for prop in entity.properties
    ]
    return pa.schema([*fields, pa.field("data", pa.struct(data))])


def json_type(type_: PropertyType, *, numeric: bool) -> pa.DataType:
    """What a column is parsed as. F32 is read at full width: rounded twice, as in `coerce`."""
    import pyarrow as pa

    from omnigraph_core.schema.arrow import arrow_type

    if type_.scalar is Scalar.VECTOR:
        return pa.list_(pa.float64())
    if type_.scalar in _TIMES:
        item = pa.int64() if numeric else pa.utf8()
    elif type_.scalar is Scalar.F32:
        item = pa.float64()
    elif type_.scalar is Scalar.BLOB:
        item = pa.utf8()
    else:
        item = arrow_type(PropertyType(type_.scalar))
    return pa.list_(item) if type_.is_list else item


def _data_columns(lines: Lines, entity: EntityType, parsed: pa.Table, shape: Shape) -> dict[str, pa.Array]:
    """The columns `id` and the properties', converted to what their table holds."""
    import pyarrow as pa

    from omnigraph_core.schema.arrow import arrow_type

    given: dict[str, pa.Array] = {}
    if shape.has_data:
        data = parsed.column("data").chunk(0)
        _refuse_nulls(data, "data", lines)
        given = {data.type.field(i).name: field for i, field in enumerate(data.flatten())}
    columns = {ID_COLUMN: pa.nulls(len(lines), pa.utf8())}
    if ID_COLUMN in given:
        columns[ID_COLUMN] = given[ID_COLUMN]
        _refuse_nulls(given[ID_COLUMN], ID_COLUMN, lines)
    for prop in entity.properties:
        if prop.name in given:
            columns[prop.name] = convert(given[prop.name], prop.type)
        else:
            columns[prop.name] = pa.nulls(len(lines), arrow_type(prop.type))
    return columns


def _refuse_nulls(column: pa.Array, name: str, lines: Lines) -> None:
    """Unfit if `name` stands in a line whose value for it is null: it may be missing, not null.

    The letters of a key can be written as escapes, `\\u00` and two digits.
    """
    import pyarrow.compute as pc

    if column.null_count:
        missing = lines.texts.filter(column.is_null())
        if any(_any(pc.match_substring(missing, pattern=part)) for part in (f'"{name}"', "\\u00")):
            raise Unfit


def _all_given(column: pa.ChunkedArray) -> pa.Array:
    if column.null_count:
        raise Unfit
    return column.chunk(0)


def identified(rows: pa.Table, entity: EntityType) -> pa.Table:
    """Rows with the ids of keyed nodes filled in, and given ids compared with them."""
    import pyarrow.compute as pc

    given = rows.column(ID_COLUMN)
    if not isinstance(entity, NodeType) or entity.key is None:
        if _any(pc.equal(given, "")):
            raise Unfit
        return rows
    canonical = key_ids(rows, entity.key, entity)
    if _any(pc.not_equal(given, canonical)):
        raise Unfit
    return rows.set_column(0, rows.schema.field(ID_COLUMN), canonical)


def _any(mask: pa.Array) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(mask).as_py())


def convert(column: pa.Array, type_: PropertyType) -> pa.Array:
    """A parsed column as its table holds it."""
    if type_.scalar is Scalar.VECTOR:
        return _vectors(column, type_)
    if type_.scalar is Scalar.BLOB:
        return _blobs(column)
    return _lists(column, type_) if type_.is_list else _scalars(column, type_)


def _scalars(column: pa.Array, type_: PropertyType) -> pa.Array:
    import pyarrow as pa

    if type_.scalar in (Scalar.F32, Scalar.F64):
        return _finite(column.cast(pa.float32()) if type_.scalar is Scalar.F32 else column)
    if type_.scalar is Scalar.DATE:
        days = column if column.type == pa.int64() else column.cast(pa.date32()).view(pa.int32())
        return _within(days, DAY_MIN, DAY_MAX).cast(pa.int32()).view(pa.date32())
    if type_.scalar is Scalar.DATE_TIME:
        moments = column if column.type == pa.int64() else _milliseconds(column)
        return _within(moments, MS_MIN, MS_MAX).view(pa.date64())
    return column


def _finite(column: pa.Array) -> pa.Array:
    import pyarrow.compute as pc

    if not pc.all(pc.is_finite(column), min_count=0).as_py():
        raise Unfit
    return column


def _within(column: pa.Array, low: int, high: int) -> pa.Array:
    import pyarrow.compute as pc

    bounds = pc.min_max(column).as_py()
    if bounds["min"] is not None and not low <= bounds["min"] <= bounds["max"] <= high:
        raise Unfit
    return column


def _milliseconds(texts: pa.Array) -> pa.Array:
    """Moments with an offset, or moments without; a column of both is the exact reader's."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        moments = texts.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        moments = texts.cast(pa.timestamp("us", "UTC"))
    shifted = pc.add(moments.view(pa.int64()), _BEFORE_YEAR_0_MS * 1000)
    return pc.subtract(pc.divide(shifted, 1000), _BEFORE_YEAR_0_MS)


def _lists(column: pa.Array, type_: PropertyType) -> pa.Array:
    import pyarrow as pa

    from omnigraph_core.schema.arrow import arrow_type

    items = column.flatten()
    if items.null_count:
        raise Unfit
    converted = _scalars(items, PropertyType(type_.scalar))
    # Null lists are empty ones in what the parser builds, so the offsets fit the items.
    mask = column.is_null() if column.null_count else None
    return pa.ListArray.from_arrays(column.offsets, converted, type=arrow_type(type_), mask=mask)


def _vectors(column: pa.Array, type_: PropertyType) -> pa.Array:
    import pyarrow.compute as pc

    from omnigraph_core.schema.arrow import arrow_type

    if _any(pc.not_equal(pc.list_value_length(column), type_.dimension)) or column.flatten().null_count:
        raise Unfit
    vectors = column.cast(arrow_type(type_))
    _finite(vectors.flatten())
    return vectors


def _blobs(column: pa.Array) -> pa.Array:
    """Inline bytes. One call for each blob: decoding them is the work, not the calls."""
    import pyarrow as pa

    texts = column.to_pylist()
    try:
        data = [None if text is None else blob_bytes(text) for text in texts]
    except CoercionError as error:
        raise Unfit from error
    return blob_column(pa.array(data, pa.large_binary()))
