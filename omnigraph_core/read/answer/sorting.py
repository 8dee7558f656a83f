"""Rows in order: all of them, also more than fit in memory, or the first few of many.

Rows that fit are sorted where they are; of others there are sorted runs on disk, merged while
they are read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.read.columns.order import is_ascending, sort_keys, unique_text_ranks
from omnigraph_core.read.session.budget import Budget
from omnigraph_core.records import dataclass
from omnigraph_core.spill import SpilledRows, give_back_memory
from omnigraph_core.topology.arrays import in_arrow
from omnigraph_core.values.arrays import whole

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.topology.arrays import IntArray

OUTPUT_ROWS = 1 << 16

# What is sorted is there twice for a moment, and numbers to sort by come on top.
_MEMORY_PARTS = 6

# So many runs are merged at a time. Of each a batch is in memory, all of them as much as one run.
_FAN_IN = 16


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
        self._levels: list[list[SpilledRows]] = []
        self._sorted: pa.Table | None = None
        self.row_count = 0

    def add(self, rows: pa.Table) -> None:
        self.row_count += rows.num_rows
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes > self._memory:
            self._write_run(iter([self._in_order()]), 0)

    def finish(self) -> None:
        """No more rows come."""
        if self._levels and self._waiting:
            self._write_run(iter([self._in_order()]), 0)
        elif self._waiting:
            self._sorted = self._in_order()

    @property
    def is_on_disk(self) -> bool:
        return bool(self._levels)

    def tables(self, count: int) -> Iterator[pa.Table]:
        """The first `count` rows in order; may be asked for again."""
        left = count
        for rows in self._all():
            if not left:
                return
            yield rows.slice(0, left)
            left -= min(left, rows.num_rows)

    def _all(self) -> Iterator[pa.Table]:
        if self._levels:
            yield from self._merged([run for level in self._levels for run in level])
        elif self._sorted is not None:
            for start in range(0, self._sorted.num_rows, OUTPUT_ROWS):
                yield self._sorted.slice(start, OUTPUT_ROWS)

    def _in_order(self) -> pa.Table:
        rows = pa.concat_tables(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        if len(self._keys) == 1 and self._keys[0].is_unique:
            ids = whole(rows.column(self._keys[0].column))
            if is_ascending(ids):
                return rows
        return rows.take(in_arrow(positions_in_order(rows, self._keys)))

    def _write_run(self, tables: Iterator[pa.Table], level: int) -> None:
        """Sorted rows become a run; when there are many of a level they become one of the next."""
        self._budget.check_time()
        run: SpilledRows | None = None
        for rows in tables:
            run = run or SpilledRows(rows.schema)
            parts = max(1, -(-rows.nbytes * _FAN_IN // self._memory))
            run.add(rows, max(1, rows.num_rows // parts))
        assert run is not None
        give_back_memory()
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(run)
        if len(self._levels[level]) == _FAN_IN:
            self._write_run(self._merged(self._levels[level]), level + 1)
            self._levels[level] = []

    def _merged(self, runs: Sequence[SpilledRows]) -> Iterator[pa.Table]:
        """Of every run a batch is there. What comes no later than the first of their ends can go."""
        sources = [_Source(run, self._keys) for run in runs]
        while sources:
            self._budget.check_time()
            ends = [source.last_key() for source in sources if not source.is_last]
            end = min(ends) if ends else None
            rows = pa.concat_tables([source.taken_until(end) for source in sources])
            yield rows.take(in_arrow(positions_in_order(rows, self._keys)))
            sources = [source for source in sources if source.fill()]


class _Source:
    """What has been read of one run and not been taken; `is_last` when nothing comes after it."""

    def __init__(self, run: SpilledRows, keys: Sequence[SortKey]) -> None:
        self._keys = keys
        self._tables = run.tables()
        self._next: pa.Table | None = next(self._tables)
        self._read_on()

    @property
    def is_last(self) -> bool:
        return self._next is None

    def _read_on(self) -> None:
        assert self._next is not None
        self._rows, self._next = self._next, next(self._tables, None)
        self._taken = 0
        self._columns = [whole(self._rows.column(key.column)) for key in self._keys]

    def fill(self) -> bool:
        """Read on when everything is taken; is there anything left?"""
        if self._taken == self._rows.num_rows and self._next is not None:
            self._read_on()
        return bool(self._taken < self._rows.num_rows)

    def last_key(self) -> tuple[_Comparable, ...]:
        return self._key(self._rows.num_rows - 1)

    def _key(self, position: int) -> tuple[_Comparable, ...]:
        pairs = zip(self._keys, self._columns, strict=True)
        return tuple(_Comparable(key, column[position]) for key, column in pairs)

    def taken_until(self, end: tuple[_Comparable, ...] | None) -> pa.Table:
        """The rows up to a key, that one included."""
        start, count = self._taken, self._rows.num_rows
        self._taken = count
        if end is not None:
            self._taken = start + bisect_right(range(start, count), end, key=self._key)
        return self._rows.slice(start, self._taken - start)


class _Comparable:
    """One value of a row, ordered as `sort_keys` orders them: null first, or last descending; NaN last."""

    __slots__ = ("_descending", "_rank", "_value")

    def __init__(self, key: SortKey, scalar: pa.Scalar) -> None:
        if pa.types.is_date64(scalar.type):
            scalar = scalar.cast(pa.int64())
        value = scalar.as_py()
        self._descending = key.descending
        is_nan = isinstance(value, float) and value != value
        self._rank = (2 if key.descending else 0) if value is None else 1.5 if is_nan else 1
        self._value = None if is_nan else value

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, _Comparable)
        return self._rank == other._rank and self._value == other._value

    def __lt__(self, other: _Comparable) -> bool:
        if self._rank != other._rank or self._value is None:
            return self._rank < other._rank
        lower: bool = self._value > other._value if self._descending else self._value < other._value
        return lower


class Best:
    """Takes rows in any order and keeps the first `limit` of them."""

    def __init__(self, keys: Sequence[SortKey], limit: int) -> None:
        self._keys = keys
        self._limit = limit
        self.rows: pa.Table | None = None
        """In order."""

    def add(self, rows: pa.Table) -> None:
        rows = self._candidates(rows)
        if self.rows is not None:
            rows = pa.concat_tables([self.rows, rows])
        rows = self._candidates(rows)
        self.rows = rows.take(in_arrow(positions_in_order(rows, self._keys)[: self._limit]))

    def _candidates(self, rows: pa.Table) -> pa.Table:
        """Without rows that cannot be among the first, as far as the first key tells."""
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
        return rows.filter(in_arrow(~(key > worst)))


def positions_in_order(rows: pa.Table, keys: Sequence[SortKey]) -> IntArray:
    """Where the rows are, first one first."""
    arrays: list[npt.NDArray[Any]] = []
    for key in keys:
        values = whole(rows.column(key.column))
        arrays += (
            [unique_text_ranks(values)] if key.is_unique else sort_keys(values, descending=key.descending)
        )
    return np.lexsort(list(reversed(arrays))).astype(np.int64)
