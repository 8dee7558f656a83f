"""The first few rows of many, by an order, without sorting the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph_core.read.arrays import whole
from omnigraph_core.read.order import sort_keys
from omnigraph_core.read.sorting import SortKey, positions_in_order

if TYPE_CHECKING:
    import pyarrow as pa


class Best:
    """Takes rows in any order and keeps the first `limit` of them."""

    def __init__(self, keys: Sequence[SortKey], limit: int) -> None:
        self._keys = keys
        self._limit = limit
        self.rows: pa.Table | None = None
        """In order."""

    def add(self, rows: pa.Table) -> None:
        import pyarrow as pa

        rows = self._candidates(rows)
        if self.rows is not None:
            rows = pa.concat_tables([self.rows, rows])
        rows = self._candidates(rows)
        self.rows = rows.take(pa.array(positions_in_order(rows, self._keys)[: self._limit]))

    def _candidates(self, rows: pa.Table) -> pa.Table:
        """Without rows that cannot be among the first, as far as the first key tells."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if rows.num_rows <= self._limit * 4:
            return rows
        first = self._keys[0]
        if first.is_unique:
            return rows.take(
                pc.select_k_unstable(rows, k=self._limit, sort_keys=[(first.column, "ascending")])
            )
        key = sort_keys(whole(rows.column(first.column)), descending=first.descending)[0]
        worst = np.partition(key, self._limit - 1)[self._limit - 1]
        # What is not greater; so that NaN, which is not less than anything, stays too.
        return rows.filter(pa.array(~(key > worst)))
