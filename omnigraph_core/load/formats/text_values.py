"""Values written as text, as in a CSV field: which texts a column takes, one by one and in columns.

| type | texts |
|---|---|
| String, enum | any |
| Bool | `true`, `false` |
| I32 I64 U32 U64 | a JSON integer: decimal digits, `-` before them, no leading zero, no fraction |
| F32 F64 | a JSON number: the same with an optional fraction and exponent; never NaN or infinite |
| Date | `YYYY-MM-DD`, or a JSON integer: days since 1970 |
| DateTime | ISO 8601 as `omnigraph_core.times` reads it, or a JSON integer: milliseconds since 1970 |
| list, Vector(n) | a JSON array |
| Blob | `base64:` and standard base64 |

No spaces around any of them. What a text stands for is a JSON value, and what becomes of
that is said by `values.coerce` alone. `convert_texts` does the same for a whole column
in Arrow; like all of the fast reader it never decides that a text is wrong, but raises
`Unfit`.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.load.formats.lines import Lines
from omnigraph_core.load.formats.parsed import TIMES, Unfit, convert, json_type, parse
from omnigraph_core.load.formats.strict_json import NotJson, parse_strict
from omnigraph_core.schema import PropertyType, Scalar
from omnigraph_core.schema.arrow import arrow_type
from omnigraph_core.values.arrays import any_true
from omnigraph_core.values.coerce import CoercionError, coerce
from omnigraph_core.values.shown import clipped

_INTEGER = r"-?(?:0|[1-9][0-9]*)"
_NUMBER = rf"{_INTEGER}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_INTEGER_TEXT = re.compile(_INTEGER, re.ASCII)
_NUMBER_TEXT = re.compile(_NUMBER, re.ASCII)
_BOOLEANS = {"true": True, "false": False}


def read_text(text: str, type_: PropertyType) -> object:
    """The coerced value that a text stands for in a column of `type_`, or CoercionError."""
    return coerce(_json_value(text, type_), type_)


def _json_value(text: str, type_: PropertyType) -> object:
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        return _array(text)
    if type_.scalar is Scalar.BOOL:
        if text not in _BOOLEANS:
            raise CoercionError(f"expects true or false, got '{clipped(text)}'")
        return _BOOLEANS[text]
    if type_.scalar.is_numeric:
        # Numbers that are no integers reach an integer column as what they are, and are refused.
        if not _NUMBER_TEXT.fullmatch(text):
            raise CoercionError(f"expects {type_.scalar.value}, got '{clipped(text)}'")
        return parse_strict(text.encode())
    if type_.scalar in TIMES and _INTEGER_TEXT.fullmatch(text):
        return parse_strict(text.encode())
    return text


def _array(text: str) -> list[object]:
    try:
        value = parse_strict(text.encode())
    except NotJson as error:
        raise CoercionError(f"expects a JSON array: {error}") from None
    if not isinstance(value, list):
        raise CoercionError(f"expects a JSON array, got '{clipped(text)}'")
    return value


def convert_texts(texts: pa.Array, type_: PropertyType) -> pa.Array:
    """A column of texts as its table holds it, null for null; or Unfit."""
    try:
        if type_.is_list or type_.scalar is Scalar.VECTOR:
            return _arrays(texts, type_)
        if type_.scalar is Scalar.BOOL:
            return _booleans(texts)
        if type_.scalar.is_integer:
            return _integers(texts, type_.scalar)
        if type_.scalar.is_numeric:
            return convert(_numbers(texts), type_)
        if type_.scalar in TIMES:
            return _times(texts, type_)
        return convert(texts, type_)
    except pa.ArrowException as error:
        raise Unfit from error


def _booleans(texts: pa.Array) -> pa.Array:
    truths = pc.equal(texts, "true")
    if any_true(pc.invert(pc.or_(truths, pc.equal(texts, "false")))):
        raise Unfit
    return truths


def _integers(texts: pa.Array, scalar: Scalar) -> pa.Array:
    """Arrow also accepts hexadecimal and leading zeros, so only texts that it would write itself pass."""
    numbers = texts.cast(arrow_type(PropertyType(scalar)))
    if not pc.all(pc.equal(numbers.cast(pa.utf8()), texts), min_count=0).as_py():
        raise Unfit
    return numbers


def _numbers(texts: pa.Array) -> pa.Array:
    """F64 from texts that are JSON numbers; Arrow accepts more than these."""
    if not pc.all(pc.match_substring_regex(texts, pattern=rf"\A{_NUMBER}\z"), min_count=0).as_py():
        raise Unfit
    return texts.cast(pa.float64())


def _times(texts: pa.Array, type_: PropertyType) -> pa.Array:
    """A column of all ISO texts or all numbers; a mixed column goes to the exact reader."""
    try:
        return convert(texts, type_)
    except pa.ArrowException:
        return convert(_integers(texts, Scalar.I64), type_)


def _arrays(texts: pa.Array, type_: PropertyType) -> pa.Array:
    """JSON arrays, by the JSON reader: each text as the only member of a record on its own line."""
    given = texts.drop_null()
    if not len(given):
        return pa.nulls(len(texts), arrow_type(type_))
    lines = _records(given)
    try:
        parsed = parse(lines, _record_schema(type_, numeric=False), "error")
    except pa.ArrowException:
        if type_.scalar not in TIMES:
            raise
        parsed = parse(lines, _record_schema(type_, numeric=True), "error")
    arrays = parsed.column("v").chunk(0)
    if arrays.null_count:
        raise Unfit
    return convert(_spread(arrays, texts), type_)


def _record_schema(type_: PropertyType, *, numeric: bool) -> pa.Schema:
    return pa.schema([("v", json_type(type_, numeric=numeric))])


def _records(texts: pa.Array) -> Lines:
    """`{"v":TEXT}`, a line each. A text with a newline in it would be two lines."""
    if any_true(pc.match_substring(texts, pattern="\n")):
        raise Unfit
    records = pc.binary_join_element_wise('{"v":', texts, "}\n", "")
    if isinstance(records, pa.ChunkedArray):
        raise Unfit
    return Lines(records.cast(pa.binary()), pa.nulls(len(records), pa.int64()), is_ascii=True)


def _spread(values: pa.Array, texts: pa.Array) -> pa.Array:
    """The values of the non-null texts, spread out so that null texts stay null."""
    if len(values) == len(texts):
        return values
    valid = texts.is_valid().to_numpy(zero_copy_only=False)
    positions = np.where(valid, np.cumsum(valid) - 1, 0)
    return values.take(pa.array(positions, mask=~valid))
