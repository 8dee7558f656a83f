"""Array arithmetic that several steps share.

Entities are whole numbers here: the code of a node is its position in the ids that a
query has met of its type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    import numpy.typing as npt

    IntArray: TypeAlias = npt.NDArray[np.int64]
    BoolArray: TypeAlias = npt.NDArray[np.bool_]


def distinct(codes: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """The codes without repeats, ascending, and for each code its position among them.

    All codes are below `size`. Sorting is avoided unless the codes are few in a large range.
    """
    if len(codes) * 16 < size:
        return numbered(codes)
    present = np.zeros(size, np.bool_)
    present[codes] = True
    values = np.flatnonzero(present)
    place = np.empty(size, np.int64)
    place[values] = np.arange(len(values))
    return values, place[codes]


def is_among(codes: IntArray, wanted: IntArray, size: int) -> BoolArray:
    """Which of the codes are among the wanted ones; all are below `size`."""
    present = np.zeros(size, np.bool_)
    present[wanted] = True
    found: BoolArray = present[codes]
    return found


def ranges(starts: IntArray, counts: IntArray) -> IntArray:
    """`start, start + 1, …` for each start, `count` numbers of it, one after the other."""
    total = int(counts.sum())
    if not total:
        return np.zeros(0, np.int64)
    ends = np.cumsum(counts)
    steps = np.arange(total, dtype=np.int64)
    found: IntArray = steps + np.repeat(starts - (ends - counts), counts)
    return found


def pair_keys(left: IntArray, right: IntArray) -> IntArray:
    """One number for two codes, ordered like the pair. Codes are below 2 ** 31."""
    return (left << 32) | right


def join_on(
    left: IntArray, right: IntArray, check: Callable[[int], None] | None = None
) -> tuple[IntArray, IntArray]:
    """Positions of equal values: every one of `left` with every one of `right`, ordered by `left`.

    `right` must be ascending. `check` is told how many there are before they are made.
    """
    first = np.searchsorted(right, left, side="left")
    counts = np.searchsorted(right, left, side="right") - first
    if check is not None:
        check(int(counts.sum()))
    rows = np.repeat(np.arange(len(left), dtype=np.int64), counts)
    return rows, ranges(first.astype(np.int64), counts.astype(np.int64))


def within(values: IntArray, among: IntArray) -> BoolArray:
    """Which of the values are among others, which are ascending."""
    if not len(among):
        return np.zeros(len(values), np.bool_)
    places = np.minimum(np.searchsorted(among, values), len(among) - 1)
    found: BoolArray = among[places] == values
    return found


def in_arrow(numbers: IntArray | BoolArray) -> pa.Array:
    """The numbers as an Arrow array. `pa.array` would import `numpy.ma`, a fortieth of a query's start."""
    if numbers.dtype == np.bool_:
        kind, data = pa.bool_(), pa.py_buffer(np.packbits(numbers, bitorder="little"))
    else:
        kind, data = pa.from_numpy_dtype(numbers.dtype), pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(kind, len(numbers), [None, data])


def sorted_distinct(values: IntArray) -> IntArray:
    """The values ascending, each once. `np.unique` would import `numpy.ma`, which takes 20 ms."""
    values = np.sort(values)
    return values[_first_of_equals(values)]


def _first_of_equals(ordered: IntArray) -> BoolArray:
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def numbered(values: IntArray) -> tuple[IntArray, IntArray]:
    """The values ascending, each once, and for each value its position among them."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = _first_of_equals(ordered)
    inverse = np.empty(len(values), np.int64)
    inverse[order] = np.cumsum(first) - 1
    return ordered[first], inverse
