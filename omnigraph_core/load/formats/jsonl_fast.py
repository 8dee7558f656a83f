"""The fast reader of JSON lines: one type at a time, by pyarrow with that type's schema.

It never decides that a record is wrong. When it meets anything that it cannot prove to be
right it raises `Unfit`, and the exact reader looks at the lines again. What it accepts
must be exactly what the exact reader accepts, with the same rows.

What pyarrow's JSON reader does by itself: wrong kinds of value, unknown and repeated
keys, integers out of range, fractions for integers, halves of surrogate pairs and text
after a record are errors. What it lets pass, and is looked for here: NaN and
infinities, values too large for 32-bit floats, null in lists, two records on a line,
null where a key was not to be null, bytes that are not UTF-8, year 0. It does not tell a
null from a value that is missing, which a default is for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.load.formats.lines import Lines
from omnigraph_core.load.formats.parsed import TIMES, Unfit, convert, identified, json_type, parse
from omnigraph_core.load.formats.strict_json import JsonObject, NotJson, parse_strict
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EdgeType, EntityType, Property
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.values.arrays import any_true
from omnigraph_core.values.defaults import absent_column, default_scalar

_SNIFFED_LINES = 8
_ENVELOPE = frozenset({"type", "edge", "from", "to", "data"})
_ESCAPED_LETTER = r"\\u00[2-7]"


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
        """The shape of the first few records; most files keep it throughout."""
        records = [_object(text) for text in lines.texts.slice(0, _SNIFFED_LINES).to_pylist()]
        every = [_object(record.get("data")) for record in records]
        times = [prop.name for prop in entity.properties if prop.type.scalar in TIMES]
        numeric = frozenset(name for name in times if _is_numeric(data.get(name) for data in every))
        has_data = any("data" in record for record in records)
        return Shape(has_data, any(ID_COLUMN in data for data in every), numeric)


def _object(value: object) -> Mapping[str, object]:
    """A JSON object, from text or already parsed; an empty one for anything else."""
    try:
        parsed = parse_strict(value) if isinstance(value, bytes) else value
    except NotJson:
        return {}
    return parsed if isinstance(parsed, JsonObject) else {}


def _is_numeric(values: Iterable[object]) -> bool:
    """Is the first time among the values a number? For lists, the first item decides."""
    for value in values:
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, int | str):
            return isinstance(first, int)
    return False


def read_rows(lines: Lines, entity: EntityType) -> tuple[pa.Table, pa.Array | None]:
    """The rows and given ids of lines that all name `entity`, as `TypedRows` has them; or Unfit."""
    shape = Shape.of(lines, entity)
    try:
        return _read_shaped(lines, entity, shape)
    except Unfit:
        if shape == shape.widest:
            raise
        return _read_shaped(lines, entity, shape.widest)


def _read_shaped(lines: Lines, entity: EntityType, shape: Shape) -> tuple[pa.Table, pa.Array | None]:
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
    try:
        parsed = parse(lines, pa.schema([("type", pa.utf8()), ("edge", pa.utf8())]), "ignore")
    except pa.ArrowException as error:
        raise Unfit from error
    return parsed.column("type").chunk(0), parsed.column("edge").chunk(0)


def _envelope_schema(entity: EntityType, shape: Shape) -> pa.Schema:
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


def _data_columns(lines: Lines, entity: EntityType, parsed: pa.Table, shape: Shape) -> dict[str, pa.Array]:
    """The `id` and property columns, converted to the types of their table."""
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
            columns[prop.name] = _filled(convert(given[prop.name], prop.type), prop, lines)
        else:
            columns[prop.name] = absent_column(prop, len(lines))
    return columns


def _filled(column: pa.Array, prop: Property, lines: Lines) -> pa.Array:
    """The default where a record does not mention the property; a null that it gives stays.

    A key can only be followed by a colon, and no other text can, so `"name":` in a line is the key.
    Unfit where that is not the whole truth: a name that a record has beside `data`, too, and letters
    written as escapes.
    """
    default = default_scalar(prop) if column.null_count else None
    if default is None:
        return column
    nulls = column.is_null()
    texts = lines.texts.filter(nulls)
    if prop.name in _ENVELOPE or any_true(pc.match_substring_regex(texts, pattern=_ESCAPED_LETTER)):
        raise Unfit
    mentioned = pc.match_substring_regex(texts, pattern=f'"{re.escape(prop.name)}"\\s*:')
    missing = pc.replace_with_mask(nulls, nulls, pc.invert(mentioned))
    return pc.if_else(missing, default, column)


def _refuse_nulls(column: pa.Array, name: str, lines: Lines) -> None:
    """Unfit if `name` stands in a line whose value for it is null: it may be missing, not null.

    The letters of a key can be written as escapes, `\\u00` and two digits.
    """
    if column.null_count:
        missing = lines.texts.filter(column.is_null())
        if any(any_true(pc.match_substring(missing, pattern=part)) for part in (f'"{name}"', "\\u00")):
            raise Unfit


def _all_given(column: pa.ChunkedArray) -> pa.Array:
    if column.null_count:
        raise Unfit
    return column.chunk(0)
