"""Answers from rows that pass by: only what is needed of them stays.

Groups keep a state each, a limit keeps so many rows, and a sort goes to disk when it does not fit. So the
memory such a read takes does not grow with the rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from omnigraph_core.query.checked import (
    Aggregate,
    CheckedRead,
    ColumnKey,
    NodeUse,
    Operand,
    PropertyUse,
    Returned,
    Score,
)
from omnigraph_core.query.values import evaluate
from omnigraph_core.read.answer.result import Answer
from omnigraph_core.read.answer.shown import shown_table
from omnigraph_core.read.answer.sorting import OUTPUT_ROWS, Best, Sorter, SortKey
from omnigraph_core.read.columns.values import constant_array
from omnigraph_core.read.session.budget import piece_bytes
from omnigraph_core.records import dataclass

if TYPE_CHECKING:
    from omnigraph_core.read.session.session import Session


@dataclass(frozen=True, slots=True)
class Identity:
    """The id of what a variable is bound to, a node or an edge."""

    variable: str


Wanted: TypeAlias = Operand | Identity


class PassingRead(ABC):
    """One read; where its rows come from is up to what inherits from this."""

    def __init__(self, session: Session, read: CheckedRead) -> None:
        self._session = session
        self._read = read

    @abstractmethod
    def _source(self) -> str:
        """The step that gives the rows, in words."""

    @abstractmethod
    def _passing(self, wanted: Sequence[Wanted]) -> Iterator[tuple[list[pa.Array], int]]:
        """These values of the rows, a batch at a time, and how many rows there are in it."""

    @abstractmethod
    def _nothing(self, wanted: Sequence[Wanted]) -> list[pa.Array]:
        """These values of no rows."""

    @abstractmethod
    def _identities(self) -> list[tuple[SortKey, Wanted]]:
        """What decides between rows that are equal in all they are ordered by."""

    @abstractmethod
    def _of_first(self, rows: pa.Table | None) -> Answer:
        """What is returned of the first rows, which are in order and have their identities as columns."""

    def _grouped(self) -> Answer:
        from omnigraph_core.read.answer.group_stream import Grouping

        read, session = self._read, self._session
        grouping = Grouping(read, session.budget)
        wanted: list[Wanted] = [
            operand_of(column.value.argument if isinstance(column.value, Aggregate) else column.value)
            for column in read.columns
            if grouping.reads(column)
        ]
        with session.statistics.step(self._source()) as step:
            for columns, count in self._passing(wanted):
                step.rows += count
                grouping.add(columns, count)
        with session.statistics.step("group") as step:
            answer = grouping.answer(self._nothing(wanted))
            step.rows = answer.row_count
            session.statistics.note("on disk" if grouping.is_on_disk else "")
        return answer

    def _best(self, limit: int) -> Answer:
        """The first rows, by what they are ordered by and identities; the rest of them is read at the end."""
        keys, wanted, names = self._order()
        best = Best(keys, limit)
        with self._session.statistics.step(self._source()) as step:
            for columns, count in self._passing(wanted) if limit else ():
                step.rows += count
                best.add(pa.table(columns, names=names))
        return self._of_first(best.rows)

    def _sorted(self) -> Answer:
        read, session = self._read, self._session
        keys, extra, names = self._order()
        outputs = [operand_of(column.value) for column in read.columns]
        passing = {f"#{index}": each for index, each in enumerate(outputs) if is_read(each)}
        wanted = [*passing.values(), *extra]
        names = [*passing, *names]
        sorter = Sorter(keys, session.budget)
        with session.statistics.step(self._source()) as step:
            for columns, count in self._passing(wanted):
                step.rows += count
                sorter.add(pa.table(columns, names=names))
        with session.statistics.step(f"order by {'keys and ids' if read.order else 'ids'}") as step:
            sorter.finish()
            step.rows = sorter.row_count
            session.statistics.note("on disk" if sorter.is_on_disk else "")
        count = sorter.row_count if read.limit is None else min(read.limit, sorter.row_count)

        def shown(rows: pa.Table) -> pa.Table:
            named = [(f"#{index}", each) for index, each in enumerate(outputs)]
            return shown_table(
                read,
                [
                    rows.column(name) if name in passing else self._constant(each, rows.num_rows)
                    for name, each in named
                ],
            )

        def batches() -> Iterator[pa.RecordBatch]:
            most = self._rows_at_once(outputs)
            for rows in sorter.tables(count):
                for start in range(0, rows.num_rows, most):
                    yield from shown(rows.slice(start, most)).to_batches()

        return Answer(shown(pa.table(self._nothing(wanted), names=names)).schema, count, batches)

    def _order(self) -> tuple[list[SortKey], list[Wanted], list[str]]:
        """The keys of the order, and the values to read for it, with their names; identities come last."""
        keys: list[SortKey] = []
        wanted: list[Wanted] = []
        for number, key in enumerate(self._read.order):
            value = self._read.columns[key.index].value if isinstance(key, ColumnKey) else key.property
            keys.append(SortKey(f"#order{number}", key.descending))
            wanted.append(operand_of(value))
        for sort_key, identity in self._identities():
            keys.append(sort_key)
            wanted.append(identity)
        return keys, wanted, [key.column for key in keys]

    def _rows_at_once(self, wanted: Sequence[Wanted]) -> int:
        """So many rows that what is the same in all of them takes little memory."""
        same = [each for each in wanted if not isinstance(each, Identity) and not is_read(each)]
        size = sum(int(self._constant(each, 1).nbytes) for each in same)
        return max(1, min(OUTPUT_ROWS, piece_bytes(self._session.budget.memory_bytes) // max(1, size)))

    def _constant(self, operand: Operand, rows: int) -> pa.Array:
        assert not isinstance(operand, PropertyUse | NodeUse)
        run = self._session.run
        return constant_array(evaluate(operand, run.params, run.now), operand.type, rows)


def is_read(operand: Wanted) -> bool:
    return isinstance(operand, PropertyUse | NodeUse)


def operand_of(value: Returned) -> Operand:
    """Rows of reads with other values do not just pass by."""
    assert not isinstance(value, Score | Aggregate)
    return value
