"""Which values are the same, for every type a column can have."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph_core.diff.equality import differ

NAN = float("nan")
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]


def check(type_: pa.DataType, pairs: list[tuple[Any, Any, bool]]) -> None:
    """Each pair, and whether its values differ; either way round, and inside slices."""
    left, right = (pa.array([pair[side] for pair in pairs], type_) for side in (0, 1))
    expected = [pair[2] for pair in pairs]
    assert differ(left, right).tolist() == expected
    assert differ(right, left).tolist() == expected
    assert not differ(left, left).any()
    for start in range(len(pairs)):
        assert differ(left[start:], right[start:]).tolist() == expected[start:]
        assert differ(left[:start], right[:start]).tolist() == expected[:start]
    chunked = pa.chunked_array([left[:1], left[1:]])
    assert differ(chunked, right).tolist() == expected


@pytest.mark.parametrize("type_", [pa.float64(), pa.float32()])
def test_floats_by_bits_but_for_nan(type_: pa.DataType) -> None:
    check(
        type_,
        [
            (0.0, -0.0, True),
            (1.5, 1.5, False),
            (NAN, NAN, False),
            (NAN, OTHER_NAN, False),
            (NAN, 1.0, True),
            (None, NAN, True),
            (None, None, False),
            (None, 0.0, True),
            (float("inf"), float("-inf"), True),
        ],
    )


def test_the_last_bit_counts() -> None:
    check(pa.float64(), [(1.0, float(np.nextafter(1.0, 2.0)), True), (2.0**53, 2.0**53 + 1, False)])
    check(pa.int64(), [(2**53, 2**53 + 1, True), (None, 0, True), (-1, -1, False)])
    check(pa.uint64(), [(2**64 - 1, 2**64 - 2, True), (2**64 - 1, 2**64 - 1, False)])
    check(pa.int32(), [(1, 2, True), (3, 3, False), (None, None, False)])


def test_texts_bools_dates_and_bytes() -> None:
    check(pa.utf8(), [("", None, True), ("a", "a", False), ("a", "a ", True), ("ü", "u\u0308", True)])
    check(pa.bool_(), [(True, False, True), (None, False, True), (False, False, False)])
    check(pa.date32(), [(0, 1, True), (5, 5, False), (None, 0, True)])
    check(pa.date64(), [(0, 86_400_000, True), (None, None, False)])
    check(pa.large_binary(), [(b"", None, True), (b"\0\1", b"\0\1", False), (b"\0\1", b"\0\2", True)])


def test_lists() -> None:
    check(
        pa.list_(pa.utf8()),
        [
            (["a", "b"], ["a, b"], True),
            ([], None, True),
            ([], [], False),
            (["a"], ["a"], False),
            (["a", "b"], ["b", "a"], True),
            (None, None, False),
            ([None], [], True),
            ([None], [None], False),
            (["x", "y", "z"], ["x", "y", "z"], False),
        ],
    )
    check(pa.list_(pa.float64()), [([NAN], [NAN], False), ([0.0], [-0.0], True), ([1.0], [1.0, 1.0], True)])


def test_vectors_and_structs() -> None:
    check(
        pa.list_(pa.float32(), 2),
        [
            ([1.0, 2.0], [1.0, 2.0], False),
            ([1.0, 2.0], [1.0, -2.0], True),
            (None, [0.0, 0.0], True),
            (None, None, False),
            ([NAN, 0.0], [NAN, 0.0], False),
            ([NAN, 0.0], [NAN, -0.0], True),
        ],
    )
    check(
        pa.struct([("a", pa.int32()), ("b", pa.utf8())]),
        [
            ({"a": 1, "b": "x"}, {"a": 1, "b": "x"}, False),
            ({"a": 1, "b": None}, {"a": 1, "b": ""}, True),
            (None, {"a": None, "b": None}, True),
            (None, None, False),
        ],
    )


def test_what_lies_under_a_null_does_not_count() -> None:
    data = pa.py_buffer(np.array([1, 2], np.int64).tobytes())
    other = pa.py_buffer(np.array([3, 2], np.int64).tobytes())
    valid = pa.py_buffer(b"\x02")
    one, two = (pa.Array.from_buffers(pa.int64(), 2, [valid, each]) for each in (data, other))
    assert differ(one, two).tolist() == [False, False]


def test_two_types_are_not_comparable() -> None:
    with pytest.raises(ValueError, match="not comparable"):
        differ(pa.array([1], pa.int32()), pa.array([1], pa.int64()))


ITEMS = [None, 0.0, -0.0, 1.0, NAN]


def same(x: Any, y: Any) -> bool:
    """The meaning, value by value."""
    if isinstance(x, list) and isinstance(y, list):
        return len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, float) and isinstance(y, float):
        return (x != x and y != y) or struct.pack("<d", x) == struct.pack("<d", y)
    return type(x) is type(y) and bool(x == y)


@pytest.mark.parametrize("seed", range(20))
def test_random_lists_of_lists(seed: int) -> None:
    chooser = random.Random(seed)

    def value(depth: int) -> Any:
        if depth == 0:
            return chooser.choice(ITEMS)
        if chooser.random() < 0.2:
            return None
        return [value(depth - 1) for _ in range(chooser.randint(0, 2))]

    depth = chooser.randint(0, 2)
    left, right = ([value(depth) for _ in range(80)] for _ in range(2))
    type_ = pa.float64()
    for _ in range(depth):
        type_ = pa.list_(type_)
    found = differ(pa.array(left, type_)[3:], pa.array(right, type_)[3:])
    assert found.tolist() == [not same(x, y) for x, y in zip(left[3:], right[3:], strict=True)]
