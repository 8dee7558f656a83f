"""Which values of two columns differ, row by row.

Null equals null and nothing else. Floats are compared by their bits, as they print: -0.0 is not
0.0, and the last bit counts; but any two NaN are equal. A list, a vector or a struct is equal if
every part of it is. A blob is compared by its bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.values.arrays import whole

Mask = np.ndarray[Any, Any]


def differ(x: pa.Array | pa.ChunkedArray, y: pa.Array | pa.ChunkedArray) -> Mask:
    """True where the values of two columns of one type and one length differ."""
    one, other = whole(x), whole(y)
    if one.type != other.type or len(one) != len(other):
        raise ValueError(f"{len(one)} × {one.type} is not comparable with {len(other)} × {other.type}")
    valid, other_valid = _valid(one), _valid(other)
    both = valid & other_valid
    differing: Mask = valid != other_valid
    if both.any():
        differing |= both & _values_differ(one, other, both)
    return differing


def _valid(values: pa.Array) -> Mask:
    return _mask(pc.is_valid(values)) if values.null_count else np.ones(len(values), np.bool_)


def _mask(values: pa.Array) -> Mask:
    found: Mask = values.to_numpy(zero_copy_only=False)
    return found


def _values_differ(x: pa.Array, y: pa.Array, both: Mask) -> Mask:
    """The same for rows that have a value on both sides; for the others it says anything."""
    kind = x.type
    if isinstance(kind, pa.BaseExtensionType):
        return _values_differ(x.storage, y.storage, both)
    if pa.types.is_dictionary(kind):
        return _values_differ(x.dictionary_decode(), y.dictionary_decode(), both)
    if pa.types.is_floating(kind):
        return _floats_differ(x, y)
    if pa.types.is_fixed_size_list(kind):
        items = differ(_vector_items(x), _vector_items(y)).reshape(-1, kind.list_size)
        return _true(np.any(items, axis=1))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists_differ(x, y, both)
    if pa.types.is_struct(kind):
        found = np.zeros(len(x), np.bool_)
        for position in range(kind.num_fields):
            found |= differ(x.field(position), y.field(position))
        return found
    if pa.types.is_primitive(kind) and kind.bit_width >= 8:
        return _true(_bits(x) != _bits(y))
    return _mask(pc.fill_null(pc.not_equal(x, y), False))


def _floats_differ(x: pa.Array, y: pa.Array) -> Mask:
    not_numbers = np.isnan(_floats(x)) & np.isnan(_floats(y))
    return _true((_bits(x) != _bits(y)) & ~not_numbers)


def _true(found: Any) -> Mask:
    """NumPy is vague about what a comparison of arrays is."""
    assert isinstance(found, np.ndarray)
    return found


def _bits(values: pa.Array) -> np.ndarray[Any, Any]:
    """The values as unsigned integers of their width; under a null, anything."""
    width = values.type.bit_width // 8
    data = values.buffers()[1]
    return np.frombuffer(data, f"u{width}", len(values), values.offset * width)


def _floats(values: pa.Array) -> np.ndarray[Any, Any]:
    return _bits(values).view(f"f{values.type.bit_width // 8}")


def _vector_items(values: pa.Array) -> pa.Array:
    """The items of all rows, of null ones too. A slice has the items of the whole."""
    size = values.type.list_size
    return values.values.slice(values.offset * size, len(values) * size)


def _lists_differ(x: pa.Array, y: pa.Array, both: Mask) -> Mask:
    lengths, others = (_lengths(values) for values in (x, y))
    found: Mask = lengths != others
    # Items are compared where both lists have as many, and at least one.
    rows = np.flatnonzero(both & ~found & (lengths > 0))
    if len(rows):
        chosen = pa.array(rows)
        items = differ(x.take(chosen).flatten(), y.take(chosen).flatten())
        starts = np.concatenate([[0], np.cumsum(lengths[rows])[:-1]])
        found[rows] = np.logical_or.reduceat(items, starts)
    return found


def _lengths(values: pa.Array) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
    return found
