"""Values of a query as Arrow columns."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.query.checked import Plain, PlainValue
from omnigraph_core.query.temporal import to_milliseconds
from omnigraph_core.schema import PropertyType
from omnigraph_core.schema.arrow import arrow_type
from omnigraph_core.values.hashes import text_hashes

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.topology.arrays import IntArray

# What says where a text or a list begins.
_ENTRY_BYTES = 4


def constant_array(value: Plain, type_: PropertyType, length: int) -> pa.Array:
    """One value in every row, of the type a column of it would have."""
    stored = [_stored(item) for item in value] if isinstance(value, tuple) else _stored(value)
    kind = arrow_type(type_)
    if (
        isinstance(value, tuple)
        and type_.scalar.is_integer
        and any(isinstance(item, float) for item in value)
    ):
        kind = pa.list_(pa.field("item", pa.float64()))  # [1, 2.5] is a list of its first item's type
    return pa.repeat(pa.scalar(stored, kind), length) if length else pa.array([], kind)


def _stored(value: PlainValue) -> object:
    """Arrow takes a `datetime` for a Date64 as its day alone; milliseconds it takes as they are."""
    return to_milliseconds(value) if isinstance(value, datetime) else value


def python_values(values: pa.Array) -> list[Any]:
    """Values as Python compares them; a DateTime as its milliseconds, since Arrow would give its day."""
    kind = values.type
    if pa.types.is_date64(kind):
        values = values.cast(pa.int64())
    elif pa.types.is_list(kind) and pa.types.is_date64(kind.value_type):
        values = values.cast(pa.list_(pa.field("item", pa.int64())))
    found: list[Any] = values.to_pylist()
    return found


def list_texts(values: pa.Array) -> list[str | None]:
    """A text for each list, the same for equal lists; null for null."""
    return [
        None if items is None else repr([item + 0.0 if isinstance(item, float) else item for item in items])
        for items in python_values(values)
    ]


def value_sizes(values: pa.Array, places: IntArray) -> IntArray | int:
    """How many bytes the values at these places take; one number if all take as many."""
    kind = values.type
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * _width(kind.value_type)
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_list(kind)):
        return _width(kind)
    if not len(values):
        return 0
    offsets = _offsets(values)
    begins, ends = offsets[places].astype(np.int64), offsets[places + 1].astype(np.int64)
    if not pa.types.is_list(kind):
        return ends - begins + _ENTRY_BYTES
    if not pa.types.is_string(kind.value_type):
        return (ends - begins) * _width(kind.value_type) + _ENTRY_BYTES
    items = values.values
    if not len(items):
        return _ENTRY_BYTES
    texts = _offsets(items)
    return texts[ends].astype(np.int64) - texts[begins] + _ENTRY_BYTES * (ends - begins + 1)


def _offsets(values: pa.Array) -> npt.NDArray[np.int32]:
    """Where each of the texts or lists begins, and where the last one ends."""
    return np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)


def _width(kind: pa.DataType) -> int:
    return max(1, int(kind.bit_width) // 8)


def with_one_zero(values: pa.Array) -> pa.Array:
    """The same numbers, also in lists, with 0.0 for -0.0: which of them equals came first says nothing."""
    kind = values.type
    if pa.types.is_floating(kind):
        return pc.add(values, pa.scalar(0, kind))
    if pa.types.is_list(kind) and pa.types.is_floating(kind.value_type):
        items = with_one_zero(values.values)
        return pa.ListArray.from_arrays(values.offsets, items, type=kind, mask=pc.is_null(values))
    if pa.types.is_fixed_size_list(kind):
        items = with_one_zero(values.values)
        return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=pc.is_null(values))
    return values


def value_codes(values: pa.Array) -> IntArray:
    """A number for each value, the same for equal ones; 0 for null."""
    if pa.types.is_nested(values.type):
        known: dict[str | None, int] = {None: 0}
        texts = list_texts(values)
        return np.fromiter((known.setdefault(text, len(known)) for text in texts), np.int64, len(values))
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    indices = with_one_zero(values).dictionary_encode().indices
    return indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False) + 1  # type: ignore[no-any-return]


def value_hashes(values: pa.Array) -> npt.NDArray[np.uint64]:
    """A number for each value, the same for equal ones wherever they are met; spread over all bits."""
    if pa.types.is_string(values.type):
        numbers = text_hashes(pc.fill_null(values, ""))
    elif pa.types.is_floating(values.type):
        numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
        numbers = np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
    else:
        if pa.types.is_temporal(values.type):
            values = values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
        elif pa.types.is_boolean(values.type):
            values = values.cast(pa.int8())
        numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(np.uint64)
    mixed = numbers * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    return mixed * np.uint64(0xC2B2AE3D27D4EB4F)
