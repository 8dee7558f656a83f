"""Comparing, ordering and measuring values: the array forms against plain Python."""

from __future__ import annotations

import operator
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph_core.query.syntax import Operator
from omnigraph_core.read.columns.compare import compared
from omnigraph_core.read.columns.order import sort_keys, sorted_positions
from omnigraph_core.read.search.fuzzy import edit_distances
from omnigraph_core.topology.arrays import distinct, join_on, ranges

SIGNS = {
    Operator.EQ: operator.eq,
    Operator.NE: operator.ne,
    Operator.LT: operator.lt,
    Operator.LE: operator.le,
    Operator.GT: operator.gt,
    Operator.GE: operator.ge,
}
NEAR = [0, 1, -1, 2**53, 2**53 + 1, 2**53 - 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
NUMBERS = {
    pa.int64(): st.one_of(st.sampled_from(NEAR), st.integers(-(2**63), 2**63 - 1)),
    pa.uint64(): st.one_of(
        st.sampled_from([n for n in NEAR if n >= 0] + [2**64 - 1]), st.integers(0, 2**64 - 1)
    ),
    pa.float64(): st.one_of(
        st.sampled_from([float(n) for n in NEAR] + [2.0**64, 0.5, -0.0, 1e300]),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
}


@pytest.mark.parametrize("left", NUMBERS, ids=str)
@pytest.mark.parametrize("right", NUMBERS, ids=str)
@given(data=st.data())
def test_numbers_are_compared_exactly(left: pa.DataType, right: pa.DataType, data: st.DataObject) -> None:
    pairs = data.draw(
        st.lists(st.tuples(st.none() | NUMBERS[left], st.none() | NUMBERS[right]), min_size=1, max_size=8)
    )
    columns = pa.array([a for a, _ in pairs], left), pa.array([b for _, b in pairs], right)
    for sign, python in SIGNS.items():
        expected = [a is not None and b is not None and python(a, b) for a, b in pairs]
        assert compared(columns[0], sign, columns[1]).tolist() == expected


VALUES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    *NUMBERS.items(),
    (pa.utf8(), st.text(max_size=3)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
@given(data=st.data(), descending=st.booleans(), limit=st.none() | st.integers(0, 6))
def test_order_is_that_of_python_with_nulls_first(
    kind: pa.DataType, values: Any, data: st.DataObject, descending: bool, limit: int | None
) -> None:
    column = data.draw(st.lists(st.none() | values, max_size=30))
    ties = np.arange(len(column))
    keys = sort_keys(pa.array(column, kind), descending=descending)
    found = sorted_positions([*keys, ties], len(column), limit)
    order = sorted(ties.tolist(), reverse=descending)
    order.sort(key=lambda each: (column[each] is not None, column[each] or _ZEROS.get(kind, 0)))
    if descending:
        order.reverse()
    assert found.tolist() == (order if limit is None else order[:limit])


# What stands for a value that Python takes for false.
_ZEROS: dict[pa.DataType, Any] = {pa.utf8(): "", pa.date32(): date.min}


def naive_distance(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for position, letter in enumerate(left, 1):
        previous, row[0] = row[0], position
        for column, other in enumerate(right, 1):
            previous, row[column] = (
                row[column],
                min(row[column] + 1, row[column - 1] + 1, previous + (letter != other)),
            )
    return row[-1]


@given(
    st.text("abß𝔘", min_size=1, max_size=6),
    st.lists(st.text("abß𝔘", min_size=1, max_size=6), min_size=1, max_size=8),
    st.integers(0, 3),
)
def test_edit_distances(word: str, words: list[str], limit: int) -> None:
    found = edit_distances(word, pa.array(words), limit).tolist()
    for other, distance in zip(words, found, strict=True):
        expected = naive_distance(word, other)
        assert min(distance, limit + 1) == min(expected, limit + 1)


@given(st.lists(st.integers(0, 40), max_size=60), st.sampled_from([41, 5000]))
def test_distinct(codes: list[int], size: int) -> None:
    values, places = distinct(np.array(codes, np.int64), size)
    assert values.tolist() == sorted(set(codes))
    assert values[places].tolist() == codes


@given(st.lists(st.integers(0, 5), max_size=20), st.lists(st.integers(0, 5), max_size=20))
def test_join_on(left: list[int], right: list[int]) -> None:
    right.sort()
    rows, places = join_on(np.array(left, np.int64), np.array(right, np.int64))
    expected = [(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if a == b]
    assert list(zip(rows.tolist(), places.tolist(), strict=True)) == expected


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 4)), max_size=9))
def test_ranges(pieces: list[tuple[int, int]]) -> None:
    starts, counts = ([piece[side] for piece in pieces] for side in (0, 1))
    found = ranges(np.array(starts, np.int64), np.array(counts, np.int64)).tolist()
    assert found == [start + step for start, count in pieces for step in range(count)]
