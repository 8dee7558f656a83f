"""What pyarrow's parsers make of texts, proven right and converted to what tables hold; or `Unfit`.

Nothing here decides that a value is wrong: what cannot be proven right is left to an exact reader.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.load.formats.given_ids import compare_ids
from omnigraph_core.load.formats.lines import Lines
from omnigraph_core.schema import EntityType, NodeType, PropertyType, Scalar
from omnigraph_core.schema.arrow import arrow_type
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.times import DAY_MAX, DAY_MIN, MS_MAX, MS_MIN
from omnigraph_core.values.arrays import any_true
from omnigraph_core.values.coerce import CoercionError, blob_bytes
from omnigraph_core.values.columns import blob_column
from omnigraph_core.values.identity import key_ids

TIMES = (Scalar.DATE, Scalar.DATE_TIME)


# Added to microseconds before dividing, so that rounding towards zero rounds down.
_BEFORE_YEAR_0_MS = 10**14


class Unfit(Exception):
    """The fast reader cannot take these lines. Says nothing about whether they are valid."""


def parse(lines: Lines, schema: pa.Schema, unexpected: str) -> pa.Table:
    """The lines as pyarrow reads them, one row each; any other number of rows is Unfit."""
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


def json_type(type_: PropertyType, *, numeric: bool) -> pa.DataType:
    """The type a column is parsed as. F32 is read as 64 bits and rounded after, as in `coerce`."""
    if type_.scalar is Scalar.VECTOR:
        return pa.list_(pa.float64())
    if type_.scalar in TIMES:
        item = pa.int64() if numeric else pa.utf8()
    elif type_.scalar is Scalar.F32:
        item = pa.float64()
    elif type_.scalar is Scalar.BLOB:
        item = pa.utf8()
    else:
        item = arrow_type(PropertyType(type_.scalar))
    return pa.list_(item) if type_.is_list else item


def identified(rows: pa.Table, entity: EntityType) -> tuple[pa.Table, pa.Array | None]:
    """Rows with the ids of keyed nodes filled in, and the ids they came with instead, if any did."""
    given = rows.column(ID_COLUMN).combine_chunks()
    if not isinstance(entity, NodeType) or entity.key is None:
        if any_true(pc.equal(given, "")):
            raise Unfit
        return rows, None
    canonical = key_ids(rows, entity.key, entity)
    found = compare_ids(given, canonical, rows, entity)
    if found.wrong is not None:
        raise Unfit
    return rows.set_column(0, rows.schema.field(ID_COLUMN), canonical), found.renamed


def convert(column: pa.Array, type_: PropertyType) -> pa.Array:
    """A parsed column as its table holds it."""
    if type_.scalar is Scalar.VECTOR:
        return _vectors(column, type_)
    if type_.scalar is Scalar.BLOB:
        return _blobs(column)
    return _lists(column, type_) if type_.is_list else _scalars(column, type_)


def _scalars(column: pa.Array, type_: PropertyType) -> pa.Array:
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
    if not pc.all(pc.is_finite(column), min_count=0).as_py():
        raise Unfit
    return column


def _within(column: pa.Array, low: int, high: int) -> pa.Array:
    bounds = pc.min_max(column).as_py()
    if bounds["min"] is not None and not low <= bounds["min"] <= bounds["max"] <= high:
        raise Unfit
    return column


def _milliseconds(texts: pa.Array) -> pa.Array:
    """Instants all with or all without an offset; a mixed column goes to the exact reader."""
    try:
        moments = texts.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        moments = texts.cast(pa.timestamp("us", "UTC"))
    shifted = pc.add(moments.view(pa.int64()), _BEFORE_YEAR_0_MS * 1000)
    return pc.subtract(pc.divide(shifted, 1000), _BEFORE_YEAR_0_MS)


def _lists(column: pa.Array, type_: PropertyType) -> pa.Array:
    items = column.flatten()
    if items.null_count:
        raise Unfit
    converted = _scalars(items, PropertyType(type_.scalar))
    # Null lists are empty ones in what the parser builds, so the offsets fit the items.
    mask = column.is_null() if column.null_count else None
    return pa.ListArray.from_arrays(column.offsets, converted, type=arrow_type(type_), mask=mask)


def _vectors(column: pa.Array, type_: PropertyType) -> pa.Array:
    if any_true(pc.not_equal(pc.list_value_length(column), type_.dimension)) or column.flatten().null_count:
        raise Unfit
    vectors = column.cast(arrow_type(type_))
    _finite(vectors.flatten())
    return vectors


def _blobs(column: pa.Array) -> pa.Array:
    """Inline bytes, one call per blob: decoding dominates, not the calls."""
    texts = column.to_pylist()
    try:
        data = [None if text is None else blob_bytes(text) for text in texts]
    except CoercionError as error:
        raise Unfit from error
    return blob_column(pa.array(data, pa.large_binary()))
