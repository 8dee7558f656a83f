"""Grouping rows and computing aggregates over the groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph_core.query.checked import Aggregate, CheckedRead, NodeUse, Score
from omnigraph_core.query.syntax import AggregateFunction
from omnigraph_core.read.arrays import distinct
from omnigraph_core.read.match import Matcher
from omnigraph_core.read.order import sort_keys, text_ranks
from omnigraph_core.read.rows import Rows
from omnigraph_core.read.values import list_texts, value_codes

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph_core.read.arrays import IntArray


def grouped_columns(read: CheckedRead, matcher: Matcher, rows: Rows) -> list[pa.Array]:
    """The columns of a read with aggregates, a row a group, ordered by the grouping key.

    Groups are equal by value; null is a value of its own here. Without a key there is
    one group, of all rows, also when there are none.
    """
    import pyarrow as pa

    keys = {
        index: column.value
        for index, column in enumerate(read.columns)
        if not isinstance(column.value, Aggregate | Score)
    }
    groups, firsts = _groups([matcher.spread(key, rows) for key in keys.values()], rows.count)
    total = len(firsts) if keys else 1
    representatives = rows.taken(firsts)
    columns: list[pa.Array] = []
    for index, column in enumerate(read.columns):
        if isinstance(column.value, Aggregate):
            columns.append(_aggregate(column.value, matcher, rows, groups, total))
        else:
            columns.append(matcher.value(keys[index], representatives))
    order = _key_order([columns[index] for index in keys], total)
    return [column.take(pa.array(order)) for column in columns] if keys else columns


def _key_order(keys: Sequence[pa.Array], count: int) -> IntArray:
    import numpy as np
    import pyarrow as pa

    arrays = []
    for key in keys:
        if pa.types.is_nested(key.type):
            arrays.append(text_ranks(pa.array(list_texts(key), pa.utf8())))
        else:
            arrays += sort_keys(key, descending=False)
    return np.lexsort(list(reversed(arrays))).astype(np.int64) if arrays else np.arange(count)


def _groups(keys: Sequence[tuple[pa.Array, IntArray]], count: int) -> tuple[IntArray, IntArray]:
    """The number of the group of each row, and the first row of each group."""
    import numpy as np

    numbers = np.zeros(count, np.int64)
    size = 1
    for values, places in keys:
        codes = value_codes(values)
        radix = int(codes.max(initial=0)) + 1
        present, numbers = distinct(numbers * radix + codes[places], size * radix)
        size = max(1, len(present))
    if not count:
        return numbers, numbers
    firsts = np.empty(size, np.int64)
    firsts[numbers[::-1]] = np.arange(count - 1, -1, -1)
    return numbers, firsts


def _aggregate(aggregate: Aggregate, matcher: Matcher, rows: Rows, groups: IntArray, total: int) -> pa.Array:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(aggregate.argument, NodeUse):
        return pa.array(np.bincount(groups, minlength=total).astype(np.int64))
    values = matcher.value(aggregate.argument, rows)
    valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
    counts = np.bincount(groups[valid], minlength=total)
    if aggregate.function is AggregateFunction.COUNT:
        return pa.array(counts.astype(np.int64))
    if aggregate.function in (AggregateFunction.SUM, AggregateFunction.AVG):
        sums = _sums(values.drop_null(), groups[valid], total)
        if aggregate.function is AggregateFunction.AVG:
            sums = sums / np.maximum(counts, 1)
        return pa.array(sums, pa.float64(), mask=counts == 0)
    return _extreme(aggregate, values, groups, valid, total)


def _sums(values: pa.Array, groups: IntArray, total: int):  # type: ignore[no-untyped-def]
    """Sums that do not depend on the order of the rows: exact for integers, else smallest first."""
    import numpy as np
    import pyarrow as pa

    numbers = values.to_numpy(zero_copy_only=False)
    if not pa.types.is_integer(values.type):
        order = np.argsort(numbers, kind="stable")
        return np.bincount(groups[order], weights=numbers[order].astype(np.float64), minlength=total)
    # Halves cannot overflow, however many rows there are.
    numbers = numbers.astype(np.uint64 if numbers.dtype.kind == "u" else np.int64)
    halves = []
    for half in (numbers >> numbers.dtype.type(32), numbers & numbers.dtype.type(0xFFFFFFFF)):
        sums = np.zeros(total, np.int64)
        np.add.at(sums, groups, half.astype(np.int64))
        halves.append(sums)
    if len(numbers) and np.abs(halves[0]).max() >= 2**20:
        pairs = zip(halves[0].tolist(), halves[1].tolist(), strict=True)
        return np.array([float((high << 32) + low) for high, low in pairs])
    return ((halves[0] << 32) + halves[1]).astype(np.float64)


def _extreme(aggregate: Aggregate, values: pa.Array, groups: IntArray, valid, total: int) -> pa.Array:  # type: ignore[no-untyped-def]
    """The smallest or greatest of each group: the first of it when the rows are in order."""
    import numpy as np
    import pyarrow as pa

    rows = np.flatnonzero(valid)
    present = values.take(pa.array(rows))
    keys = sort_keys(present, descending=aggregate.function is AggregateFunction.MAX)
    order = np.lexsort([*reversed(keys), groups[rows]])
    sorted_groups = groups[rows][order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = sorted_groups[1:] != sorted_groups[:-1]
    places = np.full(total, -1, np.int64)
    places[sorted_groups[is_first]] = order[is_first]
    return present.take(pa.array(places, mask=places < 0))
