"""Columns that have types already, as those of Parquet: which ones a property takes, without loss.

A column is refused as a whole when its type could lose something in every value (F64 to F32,
a text for a number). Within a type that fits, single values can still be wrong: an integer out
of range (data frames have 64 bits where 32 are meant), or one that no float of the width equals,
a moment with a part below the millisecond, a day with hours, NaN, a null in a list. These are
found for all rows at once, and said row by row.

| property | Arrow types |
|---|---|
| String, enum, `id` and ends | string, large_string, string_view |
| Bool | bool |
| I32 I64 U32 U64 | integers of any width, in range |
| F32 | float16, float32, integers if exact |
| F64 | float16, float32, float64, integers if exact |
| Date | date32, date64 of whole days |
| DateTime | timestamp of any unit and zone (none is UTC), date32, date64 |
| list | list, large_list, fixed_size_list, list_view of a type that fits |
| Vector(n) | the same of float16 or float32, n of them |
| Blob | binary, large_binary, binary_view, fixed_size_binary |

Any of them may be dictionary-encoded. A column of type null is null everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.records import dataclass
from omnigraph_core.schema import PropertyType, Scalar
from omnigraph_core.schema.arrow import arrow_type
from omnigraph_core.times import DAY_MAX, DAY_MIN, DAY_MS, MS_MAX, MS_MIN
from omnigraph_core.values.arrays import any_true
from omnigraph_core.values.columns import blob_column
from omnigraph_core.values.scalars import INTEGER_RANGES
from omnigraph_core.values.shown import clipped

_STRING = PropertyType(Scalar.STRING)
_UNITS_PER_MS = {"us": 1_000, "ns": 1_000_000}


@dataclass(frozen=True, slots=True)
class Fault:
    """Values of one column that break one rule: a mask of their rows, and how to say it of one."""

    rows: pa.Array
    describe: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Widened:
    """A column as its table holds it. Where there is a fault, the value is arbitrary."""

    values: pa.Array
    faults: tuple[Fault, ...] = ()


def fits(found: pa.DataType, type_: PropertyType) -> bool:
    """May a column of Arrow type `found` hold values of a property?"""
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_null(found):
        return True
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        if pa.types.is_fixed_size_list(found) and type_.dimension not in (None, found.list_size):
            return False
        return _is_list(found) and fits(found.value_type, _item_type(type_))
    return _fits_scalar(found, type_.scalar)


def _is_list(found: pa.DataType) -> bool:
    kinds = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
    return any(getattr(pa.types, f"is_{kind}")(found) for kind in kinds)


def _item_type(type_: PropertyType) -> PropertyType:
    return PropertyType(Scalar.F32 if type_.scalar is Scalar.VECTOR else type_.scalar)


def _fits_scalar(found: pa.DataType, scalar: Scalar) -> bool:
    is_ = pa.types
    if scalar is Scalar.STRING:
        return bool(is_.is_string(found) or is_.is_large_string(found) or is_.is_string_view(found))
    if scalar is Scalar.BLOB:
        binary = is_.is_binary(found) or is_.is_large_binary(found) or is_.is_binary_view(found)
        return bool(binary or is_.is_fixed_size_binary(found))
    if scalar is Scalar.BOOL:
        return bool(is_.is_boolean(found))
    if scalar is Scalar.DATE:
        return bool(is_.is_date(found))
    if scalar is Scalar.DATE_TIME:
        return bool(is_.is_date(found) or is_.is_timestamp(found))
    if is_.is_integer(found):
        return True
    wide = scalar is Scalar.F64 and is_.is_float64(found)
    narrow = scalar in (Scalar.F32, Scalar.F64) and (is_.is_float16(found) or is_.is_float32(found))
    return bool(wide or narrow)


def widen(column: pa.Array, type_: PropertyType = _STRING) -> Widened:
    """A column whose type fits, as the table holds it."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_null(column.type):
        return Widened(pa.nulls(len(column), arrow_type(type_)))
    if type_.is_list or type_.scalar is Scalar.VECTOR:
        return _widen_lists(column, type_)
    return _widen_scalars(column, type_.scalar)


def _widen_scalars(column: pa.Array, scalar: Scalar) -> Widened:
    if scalar is Scalar.STRING:
        return _texts(column)
    if scalar is Scalar.BLOB:
        return Widened(blob_column(column.cast(pa.large_binary())))
    if scalar is Scalar.DATE:
        return _days(column)
    if scalar is Scalar.DATE_TIME:
        return _moments(column)
    if scalar in (Scalar.F32, Scalar.F64):
        return _floats(column, arrow_type(PropertyType(scalar)), scalar.value)
    if scalar is Scalar.BOOL:
        return Widened(column)
    return _integers(column, scalar)


def _integers(column: pa.Array, scalar: Scalar) -> Widened:
    """Integers of any width; those that are out of range are faults."""
    wanted = arrow_type(PropertyType(scalar))
    try:
        return Widened(column.cast(wanted))
    except pa.ArrowInvalid:
        low, high = INTEGER_RANGES[scalar]
        outside = _outside_any(column, low, high)
    return Widened(
        column.cast(wanted, safe=False),
        _faults(outside, lambda row: f"{column[row].as_py()} is out of range for {scalar.value}"),
    )


def _outside_any(column: pa.Array, low: int, high: int) -> pa.Array:
    """Which values are below or above; a bound that the width cannot express is never crossed."""
    least, greatest = _bounds(column.type)
    below = pc.less(column, pa.scalar(max(low, least), column.type))
    return pc.or_(below, pc.greater(column, pa.scalar(min(high, greatest), column.type)))


def _bounds(type_: pa.DataType) -> tuple[int, int]:
    bits: int = type_.bit_width
    return (
        (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if pa.types.is_signed_integer(type_) else (0, 2**bits - 1)
    )


def _texts(column: pa.Array) -> Widened:
    """Parquet does not guarantee that texts are UTF-8."""
    try:
        column.validate(full=True)
        return Widened(column.cast(pa.utf8()))
    except pa.ArrowInvalid:
        data = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
    valid = [_is_text(each) for each in data.to_pylist()]
    faulty = pa.array([not each for each in valid])
    texts = pa.array([each if good else None for each, good in zip(data.to_pylist(), valid, strict=True)])
    return Widened(texts.cast(pa.utf8()), (Fault(faulty, lambda row: "not valid UTF-8"),))


def _is_text(data: bytes | None) -> bool:
    try:
        return data is None or data.decode("utf-8") is not None
    except UnicodeDecodeError:
        return False


def _floats(column: pa.Array, wanted: pa.DataType, name: str) -> Widened:
    if pa.types.is_integer(column.type):
        return _exact_floats(column, wanted, name)
    values = column.cast(wanted)
    return Widened(
        values,
        _faults(
            pc.invert(pc.is_finite(values)),
            lambda row: f"{column[row].as_py()} is not a finite {name} number",
        ),
    )


def _exact_floats(column: pa.Array, wanted: pa.DataType, name: str) -> Widened:
    """Integers as floats that equal them. Compared as floats of 64 bits and, of these, as integers."""
    given = column.fill_null(0).to_numpy(zero_copy_only=False)
    stored = given.astype(np.float32 if wanted == pa.float32() else np.float64)
    # The greatest integers round up to a power of two that no integer of the width is.
    limit = 2.0 ** (column.type.bit_width - (1 if pa.types.is_signed_integer(column.type) else 0))
    inside = stored.astype(np.float64) < limit
    exact = inside & (np.where(inside, stored, 0).astype(given.dtype) == given)
    values = pa.array(stored, mask=column.is_null().to_numpy(zero_copy_only=False))
    return Widened(
        values, _faults(pa.array(~exact), lambda row: f"{column[row].as_py()} is not exact as {name}")
    )


def _days(column: pa.Array) -> Widened:
    faults: tuple[Fault, ...] = ()
    if column.type == pa.date32():
        days = column.view(pa.int32())
    else:
        milliseconds = column.view(pa.int64())
        days, rest = _divided(milliseconds, DAY_MS)
        faults = _faults(rest, lambda row: f"{_shown(column, row)} is not a whole day")
    outside = _outside(days, DAY_MIN, DAY_MAX)
    faults += _faults(outside, lambda row: f"day {days[row].as_py()} is outside the years 0001 to 9999")
    return Widened(days.cast(pa.int32(), safe=False).view(pa.date32()), faults)


def _moments(column: pa.Array) -> Widened:
    """Milliseconds since 1970. Only units finer than that can have a part that is lost."""
    faults: tuple[Fault, ...] = ()
    if column.type == pa.date32():
        moments = _times(column.view(pa.int32()), DAY_MS)
    elif column.type == pa.date64():
        moments = column.view(pa.int64())
    else:
        moments = column.view(pa.int64())
        unit = column.type.unit
        if unit == "s":
            moments = _times(moments, 1_000)
        elif unit in _UNITS_PER_MS:
            moments, rest = _divided(moments, _UNITS_PER_MS[unit])
            faults = _faults(
                rest,
                lambda row: f"{_shown(column, row)} is more precise than a millisecond",
            )
    outside = _outside(moments, MS_MIN, MS_MAX)
    faults += _faults(
        outside, lambda row: f"millisecond {moments[row].as_py()} is outside the years 0001 to 9999"
    )
    return Widened(moments.view(pa.date64()), faults)


def _times(numbers: pa.Array, factor: int) -> pa.Array:
    """A product; an overflow becomes a number outside every range of time."""
    wide = numbers.cast(pa.int64())
    bound = MS_MAX // factor + 1
    clamped = pc.max_element_wise(
        pc.min_element_wise(wide, bound, skip_nulls=False), -bound, skip_nulls=False
    )
    return pc.multiply(clamped, factor)


def _widen_lists(column: pa.Array, type_: PropertyType) -> Widened:
    """Lists by widening all their items at once. A list of the wrong length becomes null."""
    given = column.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    items = pc.list_flatten(column)
    faults: tuple[Fault, ...] = ()
    if type_.dimension is not None:
        wrong = given & (lengths != type_.dimension)
        faults = _faults(
            pa.array(wrong), lambda row: f"expects {type_.dimension} dimensions, got {len(column[row])}"
        )
        if faults:
            items = items.filter(pa.array(np.repeat(~wrong, lengths)))
            given, lengths = given & ~wrong, np.where(wrong, 0, lengths)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    widened = widen(items, _item_type(type_))
    missing = _faults(items.is_null(), lambda item: "null is not allowed in a list")
    faults += tuple(_of_lists(fault, starts) for fault in (*missing, *widened.faults))
    offsets, mask = pa.array(starts.astype(np.int32)), pa.array(~given)
    item = pa.list_(pa.field("item", widened.values.type))
    lists = pa.ListArray.from_arrays(offsets, widened.values, type=item, mask=mask)
    return Widened(lists.cast(arrow_type(type_)), faults)


def _of_lists(fault: Fault, starts: np.ndarray[Any, Any]) -> Fault:
    """A fault of items as a fault of their lists, described by the first such item."""
    items = np.flatnonzero(fault.rows.to_numpy(zero_copy_only=False))
    owners = np.searchsorted(starts, items, side="right") - 1
    rows = np.zeros(len(starts) - 1, dtype=np.bool_)
    rows[owners] = True
    first = dict(zip(owners[::-1].tolist(), items[::-1].tolist(), strict=True))

    def describe(row: int) -> str:
        return f"item {first[row] - int(starts[row])}: {fault.describe(first[row])}"

    return Fault(pa.array(rows), describe)


def _divided(numbers: pa.Array, divisor: int) -> tuple[pa.Array, pa.Array]:
    """Quotients rounded down, and which have a remainder."""
    quotients = pc.divide(numbers, divisor)
    remains = pc.not_equal(pc.multiply(quotients, divisor), numbers)
    return quotients, remains


def _outside(numbers: pa.Array, low: int, high: int) -> pa.Array:
    return pc.or_(pc.less(numbers, low), pc.greater(numbers, high))


def _faults(rows: pa.Array, describe: Callable[[int], str]) -> tuple[Fault, ...]:
    """One fault, or none when no row has it; null is not faulty."""
    if not any_true(rows):
        return ()
    return (Fault(pc.fill_null(rows, False), describe),)


def _shown(column: pa.Array, row: int) -> str:
    """A moment as ISO text, to its last digit."""
    unit = column.type.unit if pa.types.is_timestamp(column.type) else "ms"
    moment = column.slice(row, 1).view(pa.int64()).view(pa.timestamp(unit))
    return clipped(str(moment.cast(pa.utf8())[0].as_py()))
