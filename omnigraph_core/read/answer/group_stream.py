"""Grouping a stream of rows: a state per group, joined now and then, on disk if there are many."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph_core.query.checked import Aggregate, CheckedRead, Column, ColumnKey, NodeUse
from omnigraph_core.query.syntax import AggregateFunction
from omnigraph_core.read.answer.aggregates import final_column, joined_state, state_of
from omnigraph_core.read.answer.groups import in_key_order, numbered_groups
from omnigraph_core.read.answer.result import Answer, answer_of
from omnigraph_core.read.answer.shown import ordered_groups, shown_table
from omnigraph_core.read.answer.sorting import Sorter, SortKey
from omnigraph_core.read.columns.values import value_codes, value_hashes, with_one_zero
from omnigraph_core.read.session.budget import Budget
from omnigraph_core.spill import SpilledRows, give_back_memory
from omnigraph_core.values.arrays import whole

if TYPE_CHECKING:
    from concurrent.futures import Future

_ROWS = "rows"

# Batches that two threads may be busy with; more would only wait.
_AHEAD = 3

# Joining states costs as much as making them, so it waits until there are many more than before.
_JOIN_ROWS_MIN = 50_000
_GROWTH = 3

# The states of all groups may take such a part of the memory; then they go to disk in so many parts.
_MEMORY_PARTS = 6
_PARTITIONS = 64


class Grouping:
    """The groups of one read. A state table has a column for each key, and some for each aggregate."""

    def __init__(self, read: CheckedRead, budget: Budget) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._read = read
        self._budget = budget
        self._memory = max(1 << 20, budget.memory_bytes // _MEMORY_PARTS)
        self._keys = [i for i, column in enumerate(read.columns) if not isinstance(column.value, Aggregate)]
        self._read_columns = [i for i, column in enumerate(read.columns) if self.reads(column)]
        self._pool = ThreadPoolExecutor(2)
        self._busy: deque[Future[pa.Table]] = deque()
        self._states: list[pa.Table] = []
        self._rows = 0
        self._joined_rows = 0
        self._bytes = 0
        """Of all states; asking each of them again for every batch takes longer than most batches."""
        self._parts: list[SpilledRows] | None = None

    @staticmethod
    def reads(column: Column) -> bool:
        """Does this column need values? Counting nodes does not."""
        return not (isinstance(column.value, Aggregate) and isinstance(column.value.argument, NodeUse))

    @property
    def is_on_disk(self) -> bool:
        return self._parts is not None

    def add(self, columns: Sequence[pa.Array], count: int) -> None:
        """Some rows: the columns that are read, in their order."""
        self._busy.append(self._pool.submit(self._state, columns, count))
        while len(self._busy) > _AHEAD:
            self._take(self._busy.popleft().result())

    def answer(self, nothing: Sequence[pa.Array]) -> Answer:
        """All groups in order; `nothing` are the columns of no rows, which still have their types."""
        while self._busy:
            self._take(self._busy.popleft().result())
        self._pool.shutdown()
        if self._parts is None:
            self._states.append(self._state(nothing, 0))
            return answer_of(self._shown(self._final(self._join())))
        self._spill()
        return self._from_disk(self._parts)

    def _shown(self, columns: list[pa.Array]) -> pa.Table:
        if self._keys:
            columns = in_key_order(columns, self._keys)
        return shown_table(self._read, ordered_groups(self._read, columns))

    # ---- states ----

    def _state(self, columns: Sequence[pa.Array], count: int) -> pa.Table:
        """The groups of a batch. Without a key there is one group, also of no rows."""
        given = dict(zip(self._read_columns, columns, strict=True))
        groups, firsts = numbered_groups([value_codes(given[key]) for key in self._keys], count)
        total = len(firsts) if self._keys else 1
        state = {f"key {key}": given[key].take(pa.array(firsts)) for key in self._keys}
        state[_ROWS] = pa.array(np.bincount(groups, minlength=total).astype(np.int64))
        for index, aggregate in self._aggregates():
            for part, values in state_of(aggregate.function, given[index], groups, total).items():
                state[f"{part} {index}"] = values
        return pa.table(state)

    def _aggregates(self) -> Iterator[tuple[int, Aggregate]]:
        for index in self._read_columns:
            value = self._read.columns[index].value
            if isinstance(value, Aggregate):
                yield index, value

    def _take(self, state: pa.Table) -> None:
        self._states.append(state)
        self._rows += state.num_rows
        self._bytes += state.nbytes
        if self._rows > max(_JOIN_ROWS_MIN, self._joined_rows * _GROWTH) or self._bytes > self._memory:
            self._budget.check_time()
            self._states = [self._join()]
            self._rows = self._joined_rows = self._states[0].num_rows
            self._bytes = self._states[0].nbytes
            if self._bytes * 2 > self._memory:
                self._spill()

    def _join(self) -> pa.Table:
        """All states as one, with every group once."""
        states = pa.concat_tables(self._states)
        if len(self._states) == 1:
            return states
        keys = {f"key {key}": whole(states.column(f"key {key}")) for key in self._keys}
        groups, firsts = numbered_groups([value_codes(each) for each in keys.values()], states.num_rows)
        total = len(firsts) if self._keys else 1
        joined = {name: each.take(pa.array(firsts)) for name, each in keys.items()}
        counts = np.zeros(total, np.int64)
        np.add.at(counts, groups, whole(states.column(_ROWS)).to_numpy())
        joined[_ROWS] = pa.array(counts)
        parts = _parts(states)
        for index, aggregate in self._aggregates():
            for part, values in joined_state(aggregate.function, parts[index], groups, total).items():
                joined[f"{part} {index}"] = values
        return pa.table(joined)

    def _final(self, state: pa.Table) -> list[pa.Array]:
        """The returned columns, a row a group."""
        found = []
        parts = _parts(state)
        for index, column in enumerate(self._read.columns):
            if index in self._keys:
                found.append(with_one_zero(whole(state.column(f"key {index}"))))
            elif index not in self._read_columns:
                found.append(whole(state.column(_ROWS)))
            else:
                assert isinstance(column.value, Aggregate)
                function: AggregateFunction = column.value.function
                found.append(final_column(function, parts[index]))
        return found

    # ---- on disk ----

    def _spill(self) -> None:
        """Each group always goes to the same part, so that the parts can be joined one by one."""
        if not self._states:
            return
        states = pa.concat_tables(self._states)
        if self._parts is None:
            self._parts = [SpilledRows(states.schema) for _ in range(_PARTITIONS)]
        hashes = np.zeros(states.num_rows, np.uint64)
        for key in self._keys:
            hashes = hashes * np.uint64(31) + value_hashes(whole(states.column(f"key {key}")))
        part = (hashes >> np.uint64(58)).astype(np.int64)
        order = np.argsort(part, kind="stable")
        ends = np.searchsorted(part[order], np.arange(_PARTITIONS + 1))
        states = states.take(pa.array(order))
        for number, spilled in enumerate(self._parts):
            some = states.slice(int(ends[number]), int(ends[number + 1] - ends[number]))
            if some.num_rows:
                spilled.add(some)
        self._states, self._rows, self._joined_rows, self._bytes = [], 0, 0, 0
        give_back_memory()

    def _from_disk(self, parts: list[SpilledRows]) -> Answer:
        written = [key for key in self._read.order if isinstance(key, ColumnKey)]
        keys = [SortKey(str(key.index), key.descending) for key in written]
        sorter = Sorter([*keys, *(SortKey(str(key)) for key in self._keys)], self._budget)
        names = [str(index) for index in range(len(self._read.columns))]
        for part in parts:
            self._states, size = [], 0
            for state in part.tables():
                self._states.append(state)
                size += state.nbytes
                self._budget.check_bytes(part.rows, 3 * size)
            if self._states:
                sorter.add(pa.table(self._final(self._join()), names=names))
        self._states = []
        sorter.finish()
        limit = self._read.limit
        count = sorter.row_count if limit is None else min(limit, sorter.row_count)

        def batches() -> Iterator[pa.RecordBatch]:
            for rows in sorter.tables(count):
                yield from shown_table(self._read, rows.columns).to_batches()

        schema = next(iter(batches())).schema if count else None
        return Answer(schema, count, batches)


def _parts(states: pa.Table) -> dict[int, dict[str, pa.Array]]:
    """The columns of states by the returned column that they are for, and by what they hold."""
    found: dict[int, dict[str, pa.Array]] = {}
    for name, values in zip(states.column_names, states.columns, strict=True):
        part, _, index = name.rpartition(" ")
        if index.isdigit():
            found.setdefault(int(index), {})[part] = whole(values)
    return found
