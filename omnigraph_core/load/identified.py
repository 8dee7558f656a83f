"""One reading of the records of a type against one state of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.load.spool import Spool
from omnigraph_core.records import dataclass
from omnigraph_core.rules.changeset import Change
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.limits import ROWS_PER_FRAGMENT
from omnigraph_core.values.identity import FreshIds


class RowIds:
    """The id of every row of a type, in order; on disk if there are many."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._spool = Spool(budget)

    def add(self, ids: pa.Array) -> None:
        self._spool.add(pa.table({ID_COLUMN: ids}))

    def batches(self, batch_rows: int) -> Iterator[pa.ChunkedArray]:
        for rows in self._spool.batches(batch_rows):
            yield rows.column(ID_COLUMN)

    def in_step(self) -> Callable[[int], pa.ChunkedArray]:
        """Gives the next so many ids, to readers whose batches end wherever a fragment does."""
        batches = self.batches(ROWS_PER_FRAGMENT)
        left: pa.ChunkedArray | None = None

        def take(count: int) -> pa.ChunkedArray:
            nonlocal left
            whole = next(batches) if left is None or not len(left) else left
            left = whole.slice(count)
            return whole.slice(0, count)

        return take

    def equals(self, other: RowIds) -> bool:
        """Are these the same ids in the same order?"""
        batches = [each.batches(ROWS_PER_FRAGMENT) for each in (self, other)]
        return self._spool.rows == other._spool.rows and all(
            mine.equals(theirs) for mine, theirs in zip(*batches, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Identified:
    """Which records count, and under which ids.

    `stays` says which records count (None: all). `ids` has one for every record; None when
    each has its own or, without one, takes a fresh one when it is written.
    """

    change: Change
    ids: RowIds | None
    stays: pa.Array | None
    unmatchable: int
    fresh: FreshIds
    """For records without an id; the same ones each time the load is planned."""

    def same_rows(self, other: Identified) -> bool:
        """Would the same rows be written?"""
        return _same(self.stays, other.stays) and _same(self.ids, other.ids)


def _same(one: Any, other: Any) -> bool:
    return one is other if one is None or other is None else bool(one.equals(other))
