"""Numbers and texts as columns store them."""

from __future__ import annotations

import math
import struct

from omnigraph_core.schema import Scalar

INTEGER_RANGES = {
    Scalar.I32: (-(2**31), 2**31 - 1),
    Scalar.I64: (-(2**63), 2**63 - 1),
    Scalar.U32: (0, 2**32 - 1),
    Scalar.U64: (0, 2**64 - 1),
}
# How Arrow spells the types, in casts and in messages.
ARROW_NUMBERS = {
    Scalar.I32: "Int32",
    Scalar.I64: "Int64",
    Scalar.U32: "UInt32",
    Scalar.U64: "UInt64",
    Scalar.F32: "Float32",
    Scalar.F64: "Float64",
}
_SINGLE_MAX = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
_DOUBLE_MAX = math.nextafter(math.inf, 0)


def double(value: int | float) -> float:
    """The nearest 64-bit float; infinite beyond their range."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def single(value: int | float) -> float:
    """The nearest 32-bit float; infinite beyond their range."""
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", double(value)))
    except OverflowError:
        return math.copysign(math.inf, value)
    return float(rounded)


def rounded(value: int | float, scalar: Scalar) -> float:
    """The nearest float that a column of this type, F32 or F64, stores; infinite beyond its range."""
    return single(value) if scalar is Scalar.F32 else double(value)


def is_unicode(text: str) -> bool:
    """Can it be stored as UTF-8? JSON escapes can write half of a surrogate pair."""
    try:
        return text.isascii() or text.encode("utf-8") is not None
    except UnicodeEncodeError:
        return False


def neighbour(scalar: Scalar, value: int | float) -> int | float:
    """The value itself if a column can hold it, else one next to it that the column can hold.

    No value of the column lies between the two, which is all a comparison needs. Python
    compares ints with floats exactly, so `neighbour(…) == value` says which case it is.
    """
    if scalar in INTEGER_RANGES:
        low, high = INTEGER_RANGES[scalar]
        return min(max(math.floor(value), low), high)
    largest = _SINGLE_MAX if scalar is Scalar.F32 else _DOUBLE_MAX
    return min(max(rounded(value, scalar), -largest), largest)
