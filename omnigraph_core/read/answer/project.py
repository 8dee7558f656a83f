"""From the rows of a match to the columns of the answer: order, limit, values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph_core.query.checked import (
    Aggregate,
    CheckedRead,
    Column,
    ColumnKey,
    PropertyUse,
    Returned,
    Score,
)
from omnigraph_core.read.answer.groups import grouped_columns
from omnigraph_core.read.answer.result import Answer, answer_of
from omnigraph_core.read.answer.shown import ordered_groups, shown_table
from omnigraph_core.read.answer.sorting import OUTPUT_ROWS
from omnigraph_core.read.columns.order import id_ranks, sort_keys, sorted_positions
from omnigraph_core.read.match.matcher import Matcher
from omnigraph_core.read.match.rows import Rows
from omnigraph_core.read.plan.steps import MatchPlan
from omnigraph_core.read.session.budget import piece_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.read.answer.rankings import Rankings
    from omnigraph_core.read.session.session import Session
    from omnigraph_core.topology.arrays import IntArray


class Projector:
    """Makes the answer of one read from the rows of its match."""

    def __init__(self, session: Session, matcher: Matcher, read: CheckedRead, plan: MatchPlan) -> None:
        self._session = session
        self._matcher = matcher
        self._read = read
        self._plan = plan
        self._rankings: Rankings | None = None

    def answer(self, rows: Rows, *, is_narrowed: bool = False) -> Answer:
        """Of rows that are all of the match, or those of them that can be among the first by its ranking."""
        read, statistics = self._read, self._session.statistics
        if read.grouped:
            with statistics.step("group") as step:
                columns = grouped_columns(read, self._matcher, rows)
                step.rows = len(columns[0])
            return answer_of(shown_table(read, ordered_groups(read, columns)))
        self._rankings = self._searched(rows, is_narrowed=is_narrowed)
        with statistics.step(self._order_text()) as step:
            rows = self._ordered(rows)
            step.rows = rows.count
        return self.returned(rows)

    def returned(self, rows: Rows) -> Answer:
        """What is returned of rows that are in order; all that it needs of tables is read at once."""
        with self._session.statistics.step("return") as step:
            self._read_together(rows)
            pieces = self._pieces(rows)
            first = self._table(next(pieces, rows))
            step.rows = rows.count
        is_all = first.num_rows == rows.count

        def batches() -> Iterator[pa.RecordBatch]:
            if is_all:
                yield from first.to_batches()
                return
            for some in self._pieces(rows):
                self._session.budget.check_time()
                yield from self._table(some).to_batches()

        return Answer(first.schema, rows.count, batches)

    def _pieces(self, rows: Rows) -> Iterator[Rows]:
        values = [column.value for column in self._read.columns]
        operands = [value for value in values if not isinstance(value, Score | Aggregate)]
        sizes = [self._matcher.sizes(operand, rows) for operand in operands]
        return rows.pieces(sizes, piece_bytes(self._session.budget.memory_bytes), OUTPUT_ROWS)

    def _order_text(self) -> str:
        limit = "" if self._read.limit is None else f", limit {self._read.limit}"
        if self._read.ranking is not None:
            return f"rank{limit}"
        return f"order by {'keys and ids' if self._read.order else 'ids'}{limit}"

    def _searched(self, rows: Rows, *, is_narrowed: bool) -> Rankings | None:
        """Every search that the order or a column needs; most reads need none and load no search."""
        searches = [column.value.search for column in self._read.columns if isinstance(column.value, Score)]
        if self._read.ranking is not None:
            searches.append(self._read.ranking)
        if not searches:
            return None
        from omnigraph_core.read.answer.rankings import Rankings

        found = Rankings(self._session, self._matcher, self._plan, is_narrowed=is_narrowed)
        for search in dict.fromkeys(searches):
            found.add(search, rows, self._read.limit if search == self._read.ranking else None)
        return found

    def _ordered(self, rows: Rows) -> Rows:
        read = self._read
        keys = []
        if read.ranking is not None:
            assert self._rankings is not None
            rows, ranks = self._rankings.ranked_rows(read.ranking, rows)
            keys.append(ranks)
        for key in read.order:
            value = read.columns[key.index].value if isinstance(key, ColumnKey) else key.property
            keys += self._sort_keys(value, rows, descending=key.descending)
        by_name = read.order or read.ranking is not None
        names = [name for name in rows.codes if not name.startswith("#")]
        for name in sorted(names) if by_name else self._appearance(names):
            keys.append(self._id_ranks(name, rows))
        return rows.taken(sorted_positions(keys, rows.count, read.limit))

    def _sort_keys(self, value: Returned, rows: Rows, *, descending: bool) -> list[npt.NDArray[Any]]:
        assert not isinstance(value, Aggregate)
        if isinstance(value, Score):
            return sort_keys(self._scores(value, rows), descending=descending)
        values, places = self._matcher.spread(value, rows)
        return [key[places] for key in sort_keys(values, descending=descending)]

    def _appearance(self, names: list[str]) -> list[str]:
        """Without an order rows are ordered by ids, in the order the query binds the variables."""
        written = [name for name, _ in (*self._read.variables, *self._read.edge_variables)]
        return [name for name in written if name in names]

    def _id_ranks(self, name: str, rows: Rows) -> IntArray:
        return id_ranks(self._matcher.of_variable(name).ids, rows.codes[name])

    def _read_together(self, rows: Rows) -> None:
        """One read of a table for all that is returned of a variable."""
        wanted: dict[str, list[str]] = {}
        for column in self._read.columns:
            if isinstance(column.value, PropertyUse):
                wanted.setdefault(column.value.variable, []).append(column.value.property)
        for variable, names in wanted.items():
            self._matcher.of_variable(variable).read(list(dict.fromkeys(names)), rows.codes[variable])

    def _column(self, column: Column, rows: Rows) -> pa.Array:
        value = column.value
        assert not isinstance(value, Aggregate)
        if isinstance(value, Score):
            return self._scores(value, rows)
        return self._matcher.value(value, rows)

    def _scores(self, score: Score, rows: Rows) -> pa.Array:
        assert self._rankings is not None
        return self._rankings.scores(score.search, rows)

    def _table(self, rows: Rows) -> pa.Table:
        return shown_table(self._read, [self._column(column, rows) for column in self._read.columns])
