"""Which vectors an index can compare.

Lance compares by squares of distances in 32 bits. Where such a square is larger than any number, it takes no
vector into an index, and looks for none: the one would end an `optimize`, the other a search.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from omnigraph_core.tables.dataset import Table

_NUMBERS_END = 2.0**128


def comparable_max(dimension: int) -> float:
    """Between vectors of no larger numbers, all squares of distances leave room to spare."""
    return math.sqrt(_NUMBERS_END / (8 * dimension))


def largest_number(table: Table, column: str, fragment_ids: Sequence[int]) -> float | None:
    """The largest number in the vectors of some fragments, without its sign; None if there is no vector."""
    largest: float | None = None
    for batch in table.scan([column], f"`{column}` IS NOT NULL", fragment_ids=list(fragment_ids)):
        numbers = batch.column(0).flatten().to_numpy()
        if len(numbers):
            most = float(max(numbers.max(), -numbers.min()))
            largest = most if largest is None else max(largest, most)
    return largest
