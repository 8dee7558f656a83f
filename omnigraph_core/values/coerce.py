"""The one coercion table: which values a column takes, and what they become.

Records of a load are read by this table value by value; the fast reader of `load` does the same
in Arrow, and a property test holds the two together. Parameters (`query.params`) and assignments
(`query.values`) share its ranges, its rounding, its texts and its times, so that a value that is
taken means the same stored value everywhere. What they take differs where the language says so:

- a parameter may write an integer as a text, a U64 parameter ends where I64 does, and times are
  texts only;
- an assignment takes an integer for a float column only if it is exact, where a record is rounded.

A coerced value is what `column` needs: `str`, `bool`, `int`, a finite `float` already
rounded to the stored width, days for Date, milliseconds for DateTime, `bytes` for
Blob, a list of these, None for null.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable
from typing import TypeVar

from omnigraph_core.schema import PropertyType, Scalar
from omnigraph_core.times import (
    DAY_MAX,
    DAY_MIN,
    MS_MAX,
    MS_MIN,
    parse_date,
    parse_datetime,
)
from omnigraph_core.values.scalars import INTEGER_RANGES, is_unicode, rounded
from omnigraph_core.values.shown import clipped, integer_text, number_text, shown

_T = TypeVar("_T")

BLOB_PREFIX = "base64:"


class CoercionError(ValueError):
    """The value does not fit the type; the message says why, without naming the property."""


def coerce(value: object, type_: PropertyType) -> object:
    """`value` as a column of `type_` holds it, or CoercionError. Null always passes."""
    if value is None:
        return None
    if type_.scalar is Scalar.VECTOR:
        return _vector(value, type_)
    if type_.is_list:
        return _list(value, type_)
    return _SCALARS[type_.scalar](value, type_)


def _wrong_kind(value: object, type_: PropertyType) -> CoercionError:
    return CoercionError(f"expects {_non_null(type_)}, got {shown(value)}")


def _non_null(type_: PropertyType) -> str:
    return str(type_).removesuffix("?")


def _string(value: object, type_: PropertyType) -> str:
    if not isinstance(value, str):
        raise _wrong_kind(value, type_)
    return unicode_text(value)


def unicode_text(value: str) -> str:
    """`value` if it can be stored."""
    if not is_unicode(value):
        raise CoercionError("text with half of a surrogate pair is not valid Unicode")
    return value


def _boolean(value: object, type_: PropertyType) -> bool:
    if not isinstance(value, bool):
        raise _wrong_kind(value, type_)
    return value


def _integer(value: object, type_: PropertyType) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_kind(value, type_)
    low, high = INTEGER_RANGES[type_.scalar]
    if not low <= value <= high:
        raise CoercionError(f"{number_text(value)} is out of range for {type_.scalar.value}")
    return value


def _float(value: object, type_: PropertyType) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong_kind(value, type_)
    stored = rounded(value, type_.scalar)
    if not math.isfinite(stored):
        raise CoercionError(f"{number_text(value)} is not a finite {type_.scalar} number")
    return stored


def _date(value: object, type_: PropertyType) -> int:
    if isinstance(value, str):
        days = parse_date(value)
        if days is None:
            raise CoercionError(f"invalid Date literal '{clipped(value)}'")
        return days
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_kind(value, type_)
    if not DAY_MIN <= value <= DAY_MAX:
        raise CoercionError(f"day {clipped(integer_text(value))} is outside the years 0001 to 9999")
    return value


def _datetime(value: object, type_: PropertyType) -> int:
    if isinstance(value, str):
        milliseconds = parse_datetime(value)
        if milliseconds is None:
            raise CoercionError(f"invalid DateTime literal '{clipped(value)}'")
        return milliseconds
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_kind(value, type_)
    if not MS_MIN <= value <= MS_MAX:
        raise CoercionError(f"millisecond {clipped(integer_text(value))} is outside the years 0001 to 9999")
    return value


def _blob(value: object, type_: PropertyType) -> bytes:
    if not isinstance(value, str):
        raise _wrong_kind(value, type_)
    return blob_bytes(value)


def blob_bytes(text: str) -> bytes:
    """The bytes of a `base64:` text. Any other text would be an external URI, which is not allowed."""
    if not text.startswith(BLOB_PREFIX):
        raise CoercionError(f"external URIs are not allowed: '{clipped(text)}' (inline bytes are base64:…)")
    try:
        return binascii.a2b_base64(text[len(BLOB_PREFIX) :], strict_mode=True)
    except ValueError as error:
        raise CoercionError("invalid base64 blob data") from error


_SCALARS: dict[Scalar, Callable[[object, PropertyType], object]] = {
    Scalar.STRING: _string,
    Scalar.BOOL: _boolean,
    Scalar.I32: _integer,
    Scalar.I64: _integer,
    Scalar.U32: _integer,
    Scalar.U64: _integer,
    Scalar.F32: _float,
    Scalar.F64: _float,
    Scalar.DATE: _date,
    Scalar.DATE_TIME: _datetime,
    Scalar.BLOB: _blob,
}


def _list(value: object, type_: PropertyType) -> list[object]:
    if not isinstance(value, list):
        raise CoercionError(f"expects a JSON array, got {shown(value)}")
    read = _SCALARS[type_.scalar]
    item_type = PropertyType(type_.scalar, enum_values=type_.enum_values)
    return [_item(position, item, item_type, read) for position, item in enumerate(value)]


def _vector(value: object, type_: PropertyType) -> list[float]:
    if not isinstance(value, list):
        raise CoercionError(f"expects a JSON array, got {shown(value)}")
    if len(value) != type_.dimension:
        raise CoercionError(f"expects {type_.dimension} dimensions, got {len(value)}")
    number = PropertyType(Scalar.F32)
    return [_item(position, item, number, _float) for position, item in enumerate(value)]


def _item(position: int, item: object, type_: PropertyType, read: Callable[[object, PropertyType], _T]) -> _T:
    try:
        if item is None:
            raise CoercionError("null is not allowed in a list")
        return read(item, type_)
    except CoercionError as error:
        raise CoercionError(f"item {position}: {error}") from None
