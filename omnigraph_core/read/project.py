"""From the rows of a match to the columns of the answer: order, limit, values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_core.query.checked import (
    Aggregate,
    CheckedRead,
    Column,
    ColumnKey,
    PropertyUse,
    RankedSearch,
    Returned,
    Score,
)
from omnigraph_core.read.arrays import distinct
from omnigraph_core.read.group import grouped_columns
from omnigraph_core.read.match import Matcher
from omnigraph_core.read.order import id_ranks, sort_keys, sorted_positions
from omnigraph_core.read.plan import MatchPlan, ScanNodes
from omnigraph_core.read.ranking import Candidates, Ranking, ranked, ranked_variable
from omnigraph_core.read.result import Answer, answer_of
from omnigraph_core.read.rows import Rows
from omnigraph_core.read.sorting import OUTPUT_ROWS
from omnigraph_core.read.values import shown_column

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from omnigraph_core.read.arrays import IntArray
    from omnigraph_core.read.session import Session


class Projector:
    """Makes the answer of one read from the rows of its match."""

    def __init__(self, session: Session, matcher: Matcher, read: CheckedRead, plan: MatchPlan) -> None:
        self._session = session
        self._matcher = matcher
        self._read = read
        self._plan = plan
        self._rankings: dict[RankedSearch, Ranking] = {}

    def answer(self, rows: Rows) -> Answer:
        read, statistics = self._read, self._session.statistics
        if read.grouped:
            with statistics.step("group") as step:
                columns = grouped_columns(read, self._matcher, rows)
                step.rows = len(columns[0])
            return answer_of(shown_table(read, ordered_groups(read, columns)))
        self._rank_all(rows)
        with statistics.step(self._order_text()) as step:
            rows = self._ordered(rows)
            step.rows = rows.count
        return self.returned(rows)

    def returned(self, rows: Rows) -> Answer:
        """What is returned of rows that are in order; all that it needs of tables is read at once."""
        with self._session.statistics.step("return") as step:
            self._read_together(rows)
            first = self._table(rows, 0)
            step.rows = rows.count

        def batches() -> Iterator[pa.RecordBatch]:
            yield from first.to_batches()
            for start in range(OUTPUT_ROWS, rows.count, OUTPUT_ROWS):
                self._session.budget.check_time()
                yield from self._table(rows, start).to_batches()

        return Answer(first.schema, rows.count, batches)

    def _order_text(self) -> str:
        limit = "" if self._read.limit is None else f", limit {self._read.limit}"
        if self._read.ranking is not None:
            return f"rank{limit}"
        return f"order by {'keys and ids' if self._read.order else 'ids'}{limit}"

    def _rank_all(self, rows: Rows) -> None:
        """Every search that the order or a column needs, over the entities of all rows."""
        searches = [column.value.search for column in self._read.columns if isinstance(column.value, Score)]
        if self._read.ranking is not None:
            searches.append(self._read.ranking)
        for search in dict.fromkeys(searches):
            variable = ranked_variable(search)
            with self._session.statistics.step(f"search for ${variable}") as step:
                limit = self._read.limit if search == self._read.ranking else None
                entities = self._matcher.of_variable(variable)
                ranking = ranked(self._session, entities, search, self._candidates(variable, rows), limit)
                self._rankings[search] = ranking
                step.rows = len(ranking.codes)

    def _candidates(self, variable: str, rows: Rows) -> Candidates:
        entities = self._matcher.of_variable(variable)
        codes, _ = distinct(rows.codes[variable], entities.size)
        first = self._plan.steps[0]
        if len(self._plan.steps) == 1 and isinstance(first, ScanNodes) and not first.searches:
            return Candidates(codes, True, first.where)
        return Candidates(codes)

    def _ordered(self, rows: Rows) -> Rows:
        read = self._read
        keys = []
        if read.ranking is not None:
            rows, ranks = self._ranked(rows, read.ranking)
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
            return sort_keys(self._scores(value.search, rows), descending=descending)
        values, places = self._matcher.spread(value, rows)
        return [key[places] for key in sort_keys(values, descending=descending)]

    def _ranked(self, rows: Rows, search: RankedSearch) -> tuple[Rows, IntArray]:
        """Only rows whose entity is ranked, and their ranks."""
        variable = ranked_variable(search)
        size = self._matcher.of_variable(variable).size
        ranks = self._rankings[search].places(size)[rows.codes[variable]]
        return rows.kept(ranks >= 0), ranks[ranks >= 0]

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
            return self._scores(value.search, rows)
        return self._matcher.value(value, rows)

    def _scores(self, search: RankedSearch, rows: Rows) -> pa.Array:
        import numpy as np
        import pyarrow as pa

        ranking = self._rankings[search]
        variable = ranked_variable(search)
        places = ranking.places(self._matcher.of_variable(variable).size)[rows.codes[variable]]
        scores = np.append(ranking.scores, 0.0)[places]
        return pa.array(scores, pa.float64(), mask=places < 0)

    def _table(self, rows: Rows, start: int) -> pa.Table:
        import numpy as np

        some = rows
        if rows.count > OUTPUT_ROWS:
            some = rows.taken(np.arange(start, min(start + OUTPUT_ROWS, rows.count)))
        return shown_table(self._read, [self._column(column, some) for column in self._read.columns])


def ordered_groups(read: CheckedRead, columns: list[pa.Array]) -> list[pa.Array]:
    """By the written keys; groups that tie stay in the order of the grouping key."""
    import pyarrow as pa

    keys = []
    for key in read.order:
        assert isinstance(key, ColumnKey)
        keys += sort_keys(columns[key.index], descending=key.descending)
    positions = sorted_positions(keys, len(columns[0]), read.limit)
    return [column.take(pa.array(positions)) for column in columns]


def shown_table(read: CheckedRead, columns: Sequence[pa.Array]) -> pa.Table:
    """Returned columns under their names."""
    import pyarrow as pa

    pairs = zip(columns, read.columns, strict=True)
    arrays = [shown_column(values, column.type) for values, column in pairs]
    return pa.table(arrays, names=[column.name for column in read.columns])
