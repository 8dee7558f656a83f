"""Aggregates in parts: a state per group for some rows, joining states, and the final values.

The order of the rows, and how they were divided, never show in an answer: whole numbers are
summed exactly, others with twice the digits that are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.query.syntax import AggregateFunction
from omnigraph_core.read.columns.order import sort_keys
from omnigraph_core.read.columns.values import with_one_zero

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.topology.arrays import IntArray

    Numbers: TypeAlias = npt.NDArray[Any]
    State: TypeAlias = Mapping[str, pa.Array]

_EXACT_FLOAT = 2**53

# Beyond this, numbers are made smaller while they are added, so that nothing overflows.
_HUGE = 2.0**900
_SHRINK = 2.0**-200

COUNT, HIGH, LOW, BEST = "count", "high", "low", "best"


def state_of(function: AggregateFunction, values: pa.Array, groups: IntArray, total: int) -> State:
    """What one aggregate is so far, for each of `total` groups; `groups` says where a value belongs."""
    if function in (AggregateFunction.MIN, AggregateFunction.MAX):
        return {BEST: _best(values, groups, total, is_max=function is AggregateFunction.MAX)}
    if values.null_count:
        valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
        values, groups = values.drop_null(), groups[valid]
    counts = pa.array(np.bincount(groups, minlength=total).astype(np.int64))
    if function is AggregateFunction.COUNT:
        return {COUNT: counts}
    numbers = values.to_numpy(zero_copy_only=False)
    high, low = (
        _whole_sums(numbers, groups, total)
        if pa.types.is_integer(values.type)
        else _float_sums(numbers.astype(np.float64), groups, total)
    )
    return {COUNT: counts, HIGH: pa.array(high), LOW: pa.array(low)}


def joined_state(function: AggregateFunction, state: State, groups: IntArray, total: int) -> State:
    """The states of several parts as one, with the groups renumbered."""
    if BEST in state:
        best = _best(state[BEST], groups, total, is_max=function is AggregateFunction.MAX)
        return {BEST: best}
    found: dict[str, pa.Array] = {COUNT: pa.array(_added(state[COUNT].to_numpy(), groups, total))}
    if HIGH not in state:
        return found
    high, low = state[HIGH].to_numpy(), state[LOW].to_numpy()
    if high.dtype.kind == "i":
        added, lows = _added(high, groups, total), _added(low, groups, total)
        return {**found, HIGH: pa.array(added + (lows >> 32)), LOW: pa.array(lows & 0xFFFFFFFF)}
    sums, rests = _float_sums(high, groups, total)
    sums, rests = _two_sum(sums, rests + np.bincount(groups, low, minlength=total))
    return {**found, HIGH: pa.array(sums), LOW: pa.array(rests)}


def final_column(function: AggregateFunction, state: State) -> pa.Array:
    """The value of each group; null if there was nothing to aggregate."""
    if BEST in state:
        return state[BEST]
    if function is AggregateFunction.COUNT:
        return state[COUNT]
    counts = state[COUNT].to_numpy()
    high, low = state[HIGH].to_numpy(), state[LOW].to_numpy()
    sums = _whole_total(high, low) if high.dtype.kind == "i" else high + low
    if function is AggregateFunction.AVG:
        sums = sums / np.maximum(counts, 1)
    return pa.array(sums, pa.float64(), mask=counts == 0)


def _added(numbers: Numbers, groups: IntArray, total: int) -> IntArray:
    sums = np.zeros(total, np.int64)
    np.add.at(sums, groups, numbers)
    return sums


def _whole_sums(numbers: Numbers, groups: IntArray, total: int) -> tuple[IntArray, IntArray]:
    """Sums in two parts, of which the low one has 32 bits; neither can overflow, however many rows."""
    if not len(numbers):
        return np.zeros(total, np.int64), np.zeros(total, np.int64)
    if max(abs(int(numbers.max())), abs(int(numbers.min()))) * len(numbers) < _EXACT_FLOAT:
        sums = np.bincount(groups, numbers, minlength=total).astype(np.int64)
        return sums >> 32, sums & 0xFFFFFFFF
    numbers = numbers.astype(np.uint64 if numbers.dtype.kind == "u" else np.int64)
    highs = _added((numbers >> numbers.dtype.type(32)).astype(np.int64), groups, total)
    lows = _added((numbers & numbers.dtype.type(0xFFFFFFFF)).astype(np.int64), groups, total)
    return highs + (lows >> 32), lows & 0xFFFFFFFF


def _whole_total(high: IntArray, low: IntArray) -> Numbers:
    if len(high) and np.abs(high).max() >= 2**30:
        pairs = zip(high.tolist(), low.tolist(), strict=True)
        return np.array([float((above << 32) + below) for above, below in pairs])
    return ((high << 32) + low).astype(np.float64)


def _float_sums(numbers: Numbers, groups: IntArray, total: int) -> tuple[Numbers, Numbers]:
    """Sums in two parts. Each number is cut at digits that are the same for all, so that the
    upper parts are summed without any rounding, in whatever order; so are the next digits."""
    finite = np.isfinite(numbers)
    if not finite.all():
        with np.errstate(invalid="ignore"):
            odd = np.bincount(groups[~finite], numbers[~finite], minlength=total)
        high, low = _float_sums(numbers[finite], groups[finite], total)
        return np.where(odd == 0, high, odd), np.where(odd == 0, low, 0.0)
    largest = float(np.abs(numbers).max(initial=0.0))
    if largest > _HUGE:
        high, low = _float_sums(numbers * _SHRINK, groups, total)
        with np.errstate(over="ignore"):
            high, low = high / _SHRINK, low / _SHRINK
        return high, np.where(np.isfinite(high), low, 0.0)
    sums, rest = [], numbers
    room = 2.0 ** len(numbers).bit_length()
    for _ in range(2):
        top = float(np.abs(rest).max(initial=0.0))
        if not top:
            break
        cut = 1.5 * 2.0 ** np.ceil(np.log2(top) + np.log2(room) + 1)
        upper = (rest + cut) - cut
        sums.append(np.bincount(groups, upper, minlength=total))
        rest = rest - upper
    sums.append(np.bincount(groups, rest, minlength=total))
    high, low = sums[0], np.zeros(total)
    for part in sums[1:]:
        high, error = _two_sum(high, part)
        low = low + error
    return _two_sum(high, low)


def _two_sum(first: Numbers, second: Numbers) -> tuple[Numbers, Numbers]:
    """The rounded sum, and the exact rounding error."""
    with np.errstate(invalid="ignore"):
        total = first + second
        part = total - first
        error = (first - (total - part)) + (second - part)
    return total, np.where(np.isfinite(total), error, 0.0)


def _best(values: pa.Array, groups: IntArray, total: int, *, is_max: bool) -> pa.Array:
    rows = np.arange(len(values), dtype=np.int64)
    places = best_places(values, rows, groups, total, is_max=is_max)
    return with_one_zero(values.take(pa.array(places, mask=places < 0)))


def best_places(
    values: pa.Array, places: IntArray, groups: IntArray, total: int, *, is_max: bool
) -> IntArray:
    """Where the smallest or greatest value of each group is; -1 if it has none.

    `places` says for each row which value it has: the first of a group once the rows are sorted.
    """
    valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(valid[places])
    present = values.drop_null() if values.null_count else values
    keys = sort_keys(present, descending=is_max)
    among = (np.cumsum(valid) - 1)[places[rows]]
    order = np.lexsort([*reversed([key[among] for key in keys]), groups[rows]])
    sorted_groups = groups[rows][order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = sorted_groups[1:] != sorted_groups[:-1]
    found = np.full(total, -1, np.int64)
    found[sorted_groups[is_first]] = places[rows[order[is_first]]]
    return found
