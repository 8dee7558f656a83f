"""Grouping rows and computing aggregates over the groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.query.checked import Aggregate, CheckedRead, NodeUse, Score
from omnigraph_core.query.syntax import AggregateFunction
from omnigraph_core.read.answer.aggregates import best_places, final_column, state_of
from omnigraph_core.read.columns.order import sort_keys, text_ranks
from omnigraph_core.read.columns.values import list_texts, with_one_zero
from omnigraph_core.read.match.matcher import Matcher
from omnigraph_core.read.match.rows import Rows
from omnigraph_core.topology.arrays import distinct

if TYPE_CHECKING:
    from omnigraph_core.topology.arrays import IntArray


def grouped_columns(read: CheckedRead, matcher: Matcher, rows: Rows) -> list[pa.Array]:
    """The columns of a read with aggregates, a row a group, ordered by the grouping key.

    Groups are equal by value; null is a value of its own here. Without a key there is
    one group, of all rows, also when there are none.
    """
    keys = {
        index: column.value
        for index, column in enumerate(read.columns)
        if not isinstance(column.value, Aggregate | Score)
    }
    codes = [matcher.numbered(key, rows) for key in keys.values()]
    groups, firsts = numbered_groups(codes, rows.count)
    total = len(firsts) if keys else 1
    representatives = rows.taken(firsts)
    columns: list[pa.Array] = []
    for index, column in enumerate(read.columns):
        if isinstance(column.value, Aggregate):
            columns.append(_aggregate(column.value, matcher, rows, groups, total))
        else:
            columns.append(with_one_zero(matcher.value(keys[index], representatives)))
    return in_key_order(columns, list(keys)) if keys else columns


def in_key_order(columns: list[pa.Array], keys: Sequence[int]) -> list[pa.Array]:
    """Groups ordered by their grouping key, of which these are the columns."""
    if len(keys) == 1 and pa.types.is_string(columns[keys[0]].type):
        # Every group has another key, so that numbering them first would only take longer.
        order = pc.sort_indices(columns[keys[0]])
        without_key = columns[keys[0]].null_count
        if without_key:  # Null comes first.
            order = pa.concat_arrays([order[-without_key:], order[:-without_key]])
        return [column.take(order) for column in columns]
    arrays = []
    for key in (columns[index] for index in keys):
        if pa.types.is_nested(key.type):
            arrays.append(text_ranks(pa.array(list_texts(key), pa.utf8())))
        else:
            arrays += sort_keys(key, descending=False)
    order = pa.array(np.lexsort(list(reversed(arrays))))
    return [column.take(order) for column in columns]


def numbered_groups(keys: Sequence[IntArray], count: int) -> tuple[IntArray, IntArray]:
    """The number of the group of each row, and the first row of each group.

    `keys` are numbers for each row, equal where the values of a key are.
    """
    numbers = np.zeros(count, np.int64)
    size = 1
    for codes in keys:
        radix = int(codes.max(initial=0)) + 1
        present, numbers = distinct(numbers * radix + codes if size > 1 else codes, size * radix)
        size = max(1, len(present))
    if not count:
        return numbers, numbers
    firsts = np.empty(size, np.int64)
    firsts[numbers[::-1]] = np.arange(count - 1, -1, -1)
    return numbers, firsts


def _aggregate(aggregate: Aggregate, matcher: Matcher, rows: Rows, groups: IntArray, total: int) -> pa.Array:
    """Texts, and whatever else may be long, are looked at once for each entity, not for each row."""
    function, argument = aggregate.function, aggregate.argument
    if isinstance(argument, NodeUse):
        return pa.array(np.bincount(groups, minlength=total).astype(np.int64))
    if function is AggregateFunction.COUNT:
        values, places = matcher.spread(argument, rows)
        is_known = pc.is_valid(values).to_numpy(zero_copy_only=False)[places]
        return pa.array(np.bincount(groups[is_known], minlength=total).astype(np.int64))
    if function in (AggregateFunction.MIN, AggregateFunction.MAX):
        values, places = matcher.spread(argument, rows)
        best = best_places(values, places, groups, total, is_max=function is AggregateFunction.MAX)
        matcher.check_values(values, best[best >= 0])
        return with_one_zero(values.take(pa.array(best, mask=best < 0)))
    return final_column(function, state_of(function, matcher.value(argument, rows), groups, total))
