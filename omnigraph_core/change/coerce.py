"""The one coercion table: which values a column takes, and what they become.

Whatever way a value comes in (a JSON record, a parameter, a literal), it is read by this
table, so that the same text means the same stored value everywhere. The fast reader
of `load` does the same in Arrow; a property test holds the two together.

A coerced value is what `column` needs: `str`, `bool`, `int`, a finite `float` already
rounded to the stored width, days for Date, milliseconds for DateTime, `bytes` for
Blob, a list of these, None for null.
"""

from __future__ import annotations

import binascii
import math
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from omnigraph_core.schema import Property, PropertyType, Scalar
from omnigraph_core.times import (
    DAY_MAX,
    DAY_MIN,
    MS_MAX,
    MS_MIN,
    parse_date,
    parse_datetime,
)

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")

BLOB_PREFIX = "base64:"
_SHOWN_CHARACTERS_MAX = 60

_INTEGER_BOUNDS = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}


class CoercionError(ValueError):
    """The value does not fit the type; the message says why, without naming the property."""


def coerce(value: object, type_: PropertyType) -> object:
    """`value` as a column of `type_` holds it, or CoercionError. Null passes: it is no value."""
    if value is None:
        return None
    if type_.scalar is Scalar.VECTOR:
        return _vector(value, type_)
    if type_.is_list:
        return _list(value, type_)
    return _SCALARS[type_.scalar](value, type_)


def shown(value: object) -> str:
    """A value as messages name it: its JSON kind and, for scalars, a beginning of it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean {str(value).lower()}"
    if isinstance(value, str):
        return f"string '{clipped(value)}'"
    if isinstance(value, int):
        return f"integer {clipped(_integer_text(value))}"
    if isinstance(value, float):
        return f"number {value!r}"
    return "array" if isinstance(value, list) else "object"


def clipped(text: str) -> str:
    """Text for a message: one line that can be printed anywhere, the beginning if it is long."""
    beginning = text[:_SHOWN_CHARACTERS_MAX]
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in beginning)
    return safe if len(text) <= _SHOWN_CHARACTERS_MAX else safe + "…"


def _integer_text(value: int) -> str:
    """Decimal digits; Python refuses to write out the very long ones."""
    return str(value) if value.bit_length() < 1024 else "of hundreds of digits"


def _wrong_kind(value: object, type_: PropertyType) -> CoercionError:
    return CoercionError(f"expects {_non_null(type_)}, got {shown(value)}")


def _non_null(type_: PropertyType) -> str:
    return str(type_).removesuffix("?")


def _string(value: object, type_: PropertyType) -> str:
    if not isinstance(value, str):
        raise _wrong_kind(value, type_)
    return unicode_text(value)


def unicode_text(value: str) -> str:
    """`value` if it can be stored as UTF-8: JSON escapes can write half of a surrogate pair."""
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise CoercionError("text with half of a surrogate pair is not valid Unicode") from error
    return value


def _boolean(value: object, type_: PropertyType) -> bool:
    if not isinstance(value, bool):
        raise _wrong_kind(value, type_)
    return value


def _integer(value: object, type_: PropertyType) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_kind(value, type_)
    low, high = _INTEGER_BOUNDS[type_.scalar]
    if not low <= value <= high:
        raise CoercionError(f"{_number_text(value)} is out of range for {type_.scalar.value}")
    return value


def _float(value: object, type_: PropertyType) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong_kind(value, type_)
    single = type_.scalar in (Scalar.F32, Scalar.VECTOR)
    stored = _rounded(value, single=single)
    if stored is None:
        width = "F32" if single else "F64"
        raise CoercionError(f"{_number_text(value)} is not a finite {width} number")
    return stored


def _rounded(value: int | float, *, single: bool) -> float | None:
    """The nearest float of the stored width; None if that is not finite."""
    try:
        real = float(value)
        if single:
            (real,) = struct.unpack("f", struct.pack("f", real))
    except OverflowError:
        return None
    return real if math.isfinite(real) else None


def _number_text(value: int | float) -> str:
    if isinstance(value, float):
        return repr(value)
    text = _integer_text(value)
    return clipped(text) if text[-1].isdigit() else f"an integer {text}"


def _date(value: object, type_: PropertyType) -> int:
    if isinstance(value, str):
        days = parse_date(value)
        if days is None:
            raise CoercionError(f"invalid Date literal '{clipped(value)}'")
        return days
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_kind(value, type_)
    if not DAY_MIN <= value <= DAY_MAX:
        raise CoercionError(f"day {clipped(_integer_text(value))} is outside the years 0001 to 9999")
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
        raise CoercionError(f"millisecond {clipped(_integer_text(value))} is outside the years 0001 to 9999")
    return value


def _blob(value: object, type_: PropertyType) -> bytes:
    if not isinstance(value, str):
        raise _wrong_kind(value, type_)
    return blob_bytes(value)


def blob_bytes(text: str) -> bytes:
    """The bytes of a `base64:` text. Any other text is an external URI; there is no allow-list."""
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


def column(values: Sequence[object], prop: Property) -> pa.Array:
    """Coerced values as an Arrow array of exactly the type of the property's column."""
    import pyarrow as pa

    from omnigraph_core.schema.arrow import arrow_type

    if prop.type.scalar is Scalar.BLOB:
        return blob_column(pa.array(values, pa.large_binary()))
    return pa.array(values, arrow_type(prop.type))


def blob_column(data: pa.Array) -> pa.Array:
    """Blob values that are all inline bytes; a null stays null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from omnigraph_core.schema.arrow import BLOB_STORAGE

    data = data.cast(pa.large_binary())
    rest = [pa.nulls(len(data), BLOB_STORAGE.field(name).type) for name in ("uri", "position", "size")]
    fields = [BLOB_STORAGE.field(position) for position in range(BLOB_STORAGE.num_fields)]
    mask = pc.is_null(data) if data.null_count else None
    return pa.StructArray.from_arrays([data, *rest], fields=fields, mask=mask)
