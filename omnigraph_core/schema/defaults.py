"""`@default(value)`: which text a property can hold as its default, and the value it is.

Annotations keep text, so `@default(3)` and `@default("3")` are the same default and the type of
the property says what it means. The value is the one a JSON record would give for the property:
dates and moments stay text, and every way into the graph reads it by its one coercion table.
"""

from __future__ import annotations

import math
import re
import struct

from omnigraph_core.patterns import pattern
from omnigraph_core.schema.model import Property, PropertyType, Range, Scalar, annotation_value
from omnigraph_core.times import parse_date, parse_datetime

DEFAULT = "default"

DefaultValue = str | bool | int | float

_INTEGER_BOUNDS = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}
_INTEGER = pattern(r"-?\d+", re.ASCII)
_NUMBER = pattern(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
# Python refuses to convert very long digit strings; no value of any type is near this long.
_DIGITS_MAX = 400
_BOOLEANS = {"true": True, "false": False}


class DefaultFault(ValueError):
    """The property cannot hold the text; the message says why, without naming the property."""


def default_of(prop: Property) -> DefaultValue | None:
    """What the property takes where no value is given; None if it has no default.

    A schema compiled before `@default` meant anything may carry a text that is no value of the
    property. It was metadata then, and it fills nothing now.
    """
    text = annotation_value(prop.annotations, DEFAULT)
    if text is None:
        return None
    try:
        return read_default(text, prop.type)
    except DefaultFault:
        return None


def read_default(text: str, type_: PropertyType) -> DefaultValue:
    """The value `text` stands for, or `DefaultFault` if no column of `type_` holds it."""
    kind = unsupported_default(type_)
    if kind is not None:
        raise DefaultFault(f"a {kind} property has no default")
    if type_.scalar.is_integer:
        return _integer(text, type_)
    if type_.scalar.is_numeric:
        return _float(text, type_)
    if type_.scalar is Scalar.BOOL:
        if text not in _BOOLEANS:
            raise DefaultFault("expects true or false")
        return _BOOLEANS[text]
    if type_.enum_values is not None and text not in type_.enum_values:
        raise DefaultFault(f"expects one of {', '.join(type_.enum_values)}")
    if type_.scalar is Scalar.DATE and parse_date(text) is None:
        raise DefaultFault('expects a day such as "2024-01-31"')
    if type_.scalar is Scalar.DATE_TIME and parse_datetime(text) is None:
        raise DefaultFault('expects a moment such as "2024-01-31T08:00:00Z"')
    return text


def unsupported_default(type_: PropertyType) -> str | None:
    """What kind of property `@default` cannot stand on, if this is one."""
    if type_.is_list:
        return "list"
    return {Scalar.VECTOR: "vector", Scalar.BLOB: "blob"}.get(type_.scalar)


def outside_range(value: DefaultValue, type_: PropertyType, range_: Range) -> bool:
    """Would the stored value break the range? F32 rounds, so it is the rounded value that counts."""
    if not isinstance(value, (int, float)):
        return False
    stored = _single(value) if type_.scalar is Scalar.F32 else value
    low, high = range_.minimum, range_.maximum
    return (low is not None and stored < low) or (high is not None and stored > high)


def _integer(text: str, type_: PropertyType) -> int:
    if len(text) > _DIGITS_MAX or _INTEGER.fullmatch(text) is None:
        raise DefaultFault("expects a whole number")
    value = int(text)
    low, high = _INTEGER_BOUNDS[type_.scalar]
    if not low <= value <= high:
        raise DefaultFault(f"is out of range for {type_.scalar.value}")
    return value


def _float(text: str, type_: PropertyType) -> float:
    if len(text) > _DIGITS_MAX or _NUMBER.fullmatch(text) is None:
        raise DefaultFault("expects a number")
    value = float(text)
    if not math.isfinite(_single(value) if type_.scalar is Scalar.F32 else value):
        raise DefaultFault(f"is not a finite {type_.scalar.value} number")
    return value


def _single(value: float) -> float:
    """The nearest F32; infinite beyond the largest."""
    try:
        (rounded,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(rounded)
