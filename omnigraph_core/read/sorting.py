"""Sorting more rows than fit in memory: sorted runs on disk, merged while they are read.

Rows that fit are sorted where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph_core.read.arrays import whole
from omnigraph_core.read.budget import Budget
from omnigraph_core.read.order import is_ascending, sort_keys, unique_text_ranks
from omnigraph_core.read.spill import SpilledRows

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from omnigraph_core.read.arrays import IntArray

OUTPUT_ROWS = 1 << 16

# What is sorted is there twice for a moment, and numbers to sort by come on top.
_MEMORY_PARTS = 6
_RUN_BATCHES = 64


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column to sort by. `is_unique` are texts of which no two are equal."""

    column: str
    descending: bool = False
    is_unique: bool = False


class Sorter:
    """Takes rows in any order and gives them back in the order of the keys, which decide it fully."""

    def __init__(self, keys: Sequence[SortKey], budget: Budget) -> None:
        self._keys = keys
        self._budget = budget
        self._memory = max(1 << 20, budget.memory_bytes // _MEMORY_PARTS)
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._runs: list[SpilledRows] = []
        self._sorted: pa.Table | None = None
        self.row_count = 0

    def add(self, rows: pa.Table) -> None:
        self.row_count += rows.num_rows
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes > self._memory:
            self._write_run()

    def finish(self) -> None:
        """No more rows come."""
        if self._runs and self._waiting:
            self._write_run()
        elif self._waiting:
            self._sorted = self._in_order()

    @property
    def is_on_disk(self) -> bool:
        return bool(self._runs)

    def tables(self) -> Iterator[pa.Table]:
        """The rows in order; may be asked for again."""
        if self._runs:
            yield from self._merged()
        elif self._sorted is not None:
            for start in range(0, self._sorted.num_rows, OUTPUT_ROWS):
                yield self._sorted.slice(start, OUTPUT_ROWS)

    def _in_order(self) -> pa.Table:
        import pyarrow as pa

        rows = pa.concat_tables(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        if len(self._keys) == 1 and self._keys[0].is_unique:
            ids = whole(rows.column(self._keys[0].column))
            if is_ascending(ids):
                return rows
        return rows.take(pa.array(positions_in_order(rows, self._keys)))

    def _write_run(self) -> None:
        self._budget.check_time()
        rows = self._in_order()
        run = SpilledRows(rows.schema)
        run.add(rows, max(1, rows.num_rows // _RUN_BATCHES))
        self._runs.append(run)

    def _merged(self) -> Iterator[pa.Table]:
        """Of every run the rows read so far; what is before the end of all of them can go."""
        import numpy as np
        import pyarrow as pa

        sources = [_Source(run) for run in self._runs]
        while True:
            self._budget.check_time()
            for source in sources:
                source.fill()
            sources = [source for source in sources if source.rows is not None]
            if not sources:
                return
            parts = [source.rows for source in sources]
            rows = pa.concat_tables(parts)
            order = positions_in_order(rows, self._keys)
            place = np.empty(len(order), np.int64)
            place[order] = np.arange(len(order))
            ends = np.cumsum([part.num_rows for part in parts])
            open_ends = [end for end, source in zip(ends, sources, strict=True) if not source.is_last]
            cut = min((int(place[end - 1]) + 1 for end in open_ends), default=len(order))
            yield rows.take(pa.array(order[:cut]))
            for source, end in zip(sources, ends, strict=True):
                own = place[end - source.rows.num_rows : end]
                source.drop(int((own < cut).sum()))


class _Source:
    """What has been read of one run and not been given out; `is_last` when nothing comes after it."""

    def __init__(self, run: SpilledRows) -> None:
        self._tables = run.tables()
        self._next: pa.Table | None = next(self._tables, None)
        self.rows: Any = None

    @property
    def is_last(self) -> bool:
        return self._next is None

    def fill(self) -> None:
        if self.rows is None and self._next is not None:
            self.rows, self._next = self._next, next(self._tables, None)

    def drop(self, count: int) -> None:
        self.rows = self.rows.slice(count) if count < self.rows.num_rows else None


def positions_in_order(rows: pa.Table, keys: Sequence[SortKey]) -> IntArray:
    """Where the rows are, first one first."""
    import numpy as np

    arrays: list[npt.NDArray[Any]] = []
    for key in keys:
        values = whole(rows.column(key.column))
        arrays += (
            [unique_text_ranks(values)] if key.is_unique else sort_keys(values, descending=key.descending)
        )
    return np.lexsort(list(reversed(arrays))).astype(np.int64)
