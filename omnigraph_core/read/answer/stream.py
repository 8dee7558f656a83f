"""Reads of a single scan, which most are: rows pass by and only what is needed of them stays.

Groups keep a state each, a limit keeps so many rows, and a sort goes to disk when it
does not fit. So the memory such a read takes does not grow with the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

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
from omnigraph_core.query.syntax import AggregateFunction
from omnigraph_core.query.values import evaluate
from omnigraph_core.read.answer.project import Projector
from omnigraph_core.read.answer.result import Answer, answer_of
from omnigraph_core.read.answer.shown import ordered_groups, shown_table
from omnigraph_core.read.answer.sorting import Best, Sorter, SortKey
from omnigraph_core.read.columns.values import constant_array
from omnigraph_core.read.match.matcher import Matcher
from omnigraph_core.read.match.rows import Rows
from omnigraph_core.read.plan.steps import MatchPlan, ScanNodes
from omnigraph_core.read.session.selectivity import scan_way
from omnigraph_core.schema.model import ID_COLUMN

if TYPE_CHECKING:
    from omnigraph_core.read.session.session import Session

# Up to so many rows, what is returned of them is looked up at the end rather than read for all.
LATE_ROWS_MAX = 1_000

_BATCH_ROWS = 1 << 16
_BATCH_BYTES_MAX = 16 << 20
_MEMORY_PARTS = 32

_ID = "#id"


def streamed_scan(read: CheckedRead, plan: MatchPlan) -> ScanNodes | None:
    """The scan, if it is all there is to the match and nothing is ranked."""
    if len(plan.steps) != 1 or read.ranking is not None:
        return None
    scan = plan.steps[0]
    if not isinstance(scan, ScanNodes) or scan.searches:
        return None
    for column in read.columns:
        if isinstance(column.value, Score):
            return None
        if read.grouped and not isinstance(column.value, Aggregate) and column.type.is_list:
            return None
    return scan


class StreamedRead:
    """One read whose match is one scan."""

    def __init__(
        self,
        session: Session,
        read: CheckedRead,
        plan: MatchPlan,
        scan: ScanNodes,
        matcher: Matcher,
        projector: Projector,
    ) -> None:
        self._session = session
        self._read = read
        self._scan = scan
        self._matcher = matcher
        self._projector = projector
        matcher.bind(plan)

    def answer(self) -> Answer:
        read = self._read
        if read.grouped:
            return self._counted() if self._only_counts() else self._grouped()
        if self._scan.is_single and read.limit is None:
            return self._single() or self._sorted()
        if read.limit is not None and read.limit <= LATE_ROWS_MAX:
            return self._best(read.limit)
        return self._sorted()

    # ---- groups ----

    def _only_counts(self) -> bool:
        values = [column.value for column in self._read.columns]
        return all(
            isinstance(value, Aggregate)
            and value.function is AggregateFunction.COUNT
            and isinstance(value.argument, NodeUse)
            for value in values
        )

    def _counted(self) -> Answer:
        """How many pass is known to the table, or to an index of it."""
        entities = self._session.nodes(self._scan.node.name)
        with self._session.statistics.step(str(self._scan)) as step:
            where = self._scan.where
            step.rows = entities.row_count if where is None else entities.table.count_rows(where)
        columns = [pa.array([step.rows], pa.int64()) for _ in self._read.columns]
        return answer_of(shown_table(self._read, ordered_groups(self._read, columns)))

    def _grouped(self) -> Answer:
        from omnigraph_core.read.answer.group_stream import Grouping

        read, session = self._read, self._session
        grouping = Grouping(read, session.budget)
        wanted = [
            _operand(column.value.argument if isinstance(column.value, Aggregate) else column.value)
            for column in read.columns
            if grouping.reads(column)
        ]
        with session.statistics.step(str(self._scan)) as step:
            for columns, count in self._batches(wanted):
                step.rows += count
                grouping.add(columns, count)
        with session.statistics.step("group") as step:
            answer = grouping.answer(self._nothing(wanted))
            step.rows = answer.row_count
            session.statistics.note("on disk" if grouping.is_on_disk else "")
        return answer

    # ---- rows ----

    def _single(self) -> Answer | None:
        """One row needs no order, and so no id. None if there should be more than one."""
        operands = [_operand(column.value) for column in self._read.columns]
        with self._session.statistics.step(str(self._scan)) as step:
            found = [columns for columns, _ in self._batches(operands)]
            step.rows = sum(len(columns[0]) for columns in found)
        if step.rows > 1:
            return None
        return answer_of(shown_table(self._read, found[0] if found else self._nothing(operands)))

    def _best(self, limit: int) -> Answer:
        """The first rows, by ids and what they are ordered by; the rest of them is read at the end."""
        keys, operands, names = self._order()
        best = Best(keys, limit)
        with self._session.statistics.step(str(self._scan)) as step:
            for columns, count in self._batches(operands) if limit else ():
                step.rows += count
                best.add(pa.table(columns, names=names))
            ids = best.rows.column(_ID).chunks if best.rows is not None else []
            codes = self._session.nodes(self._scan.node.name).met(ids)
        return self._projector.returned(Rows(len(codes), {self._scan.variable: codes}))

    def _sorted(self) -> Answer:
        read, session = self._read, self._session
        keys, extra, names = self._order()
        outputs = [_operand(column.value) for column in read.columns]
        operands = [*outputs, *extra]
        names = [*(f"#{index}" for index in range(len(outputs))), *names]
        sorter = Sorter(keys, session.budget)
        with session.statistics.step(str(self._scan)) as step:
            for columns, count in self._batches(operands):
                step.rows += count
                sorter.add(pa.table(columns, names=names))
        with session.statistics.step(f"order by {'keys and ids' if read.order else 'ids'}") as step:
            sorter.finish()
            step.rows = sorter.row_count
            session.statistics.note("on disk" if sorter.is_on_disk else "")
        count = sorter.row_count if read.limit is None else min(read.limit, sorter.row_count)

        def shown(rows: pa.Table) -> pa.Table:
            return shown_table(read, [rows.column(f"#{index}") for index in range(len(outputs))])

        def batches() -> Iterator[pa.RecordBatch]:
            for rows in sorter.tables(count):
                yield from shown(rows).to_batches()

        return Answer(shown(pa.table(self._nothing(operands), names=names)).schema, count, batches)

    def _order(self) -> tuple[list[SortKey], list[Operand], list[str]]:
        """The keys of the order, and the values to read for it, with their names; the id comes last."""
        keys: list[SortKey] = []
        operands: list[Operand] = []
        names: list[str] = []
        for number, key in enumerate(self._read.order):
            value = self._read.columns[key.index].value if isinstance(key, ColumnKey) else key.property
            names.append(f"#order{number}")
            keys.append(SortKey(names[-1], key.descending))
            operands.append(_operand(value))
        operands.append(NodeUse(self._scan.variable, self._scan.node))
        return [*keys, SortKey(_ID, is_unique=True)], operands, [*names, _ID]

    # ---- scanning ----

    def _batches(self, operands: Sequence[Operand]) -> Iterator[tuple[list[pa.Array], int]]:
        """The operands of the rows that pass, and how many rows they are."""
        session = self._session
        entities = session.nodes(self._scan.node.name)
        names = list(dict.fromkeys(map(self._column, filter(_is_read, operands)))) or [ID_COLUMN]
        way = scan_way(entities, self._scan)
        size = min(_BATCH_BYTES_MAX, max(1 << 18, session.budget.memory_bytes // _MEMORY_PARTS))
        reader = entities.table.scan(
            names,
            self._scan.where,
            batch_rows=_BATCH_ROWS,
            batch_bytes=size,
            use_index=way.use_index,
            early=way.early,
        )
        for batch in reader:
            session.budget.check_time()
            session.statistics.count_read(batch.num_rows, batch.nbytes)
            if batch.num_rows:
                yield [self._value(each, batch) for each in operands], batch.num_rows

    def _nothing(self, operands: Sequence[Operand]) -> list[pa.Array]:
        """The operands of no rows."""
        schema = self._session.nodes(self._scan.node.name).table.schema
        fields = [schema.field(name) for name in dict.fromkeys(map(self._column, operands))]
        batch = pa.RecordBatch.from_pylist([], pa.schema(fields))
        return [self._value(each, batch) for each in operands]

    def _column(self, operand: Operand) -> str:
        """Where an operand is read from. A key that is the id is read once, as the id."""
        entities = self._session.nodes(self._scan.node.name)
        is_other = isinstance(operand, PropertyUse) and not entities.is_id(operand.property)
        return operand.property if isinstance(operand, PropertyUse) and is_other else ID_COLUMN

    def _value(self, operand: Operand, batch: pa.RecordBatch) -> pa.Array:
        if isinstance(operand, PropertyUse | NodeUse):
            return batch.column(self._column(operand))
        run = self._session.run
        return constant_array(evaluate(operand, run.params, run.now), operand.type, batch.num_rows)


def _operand(value: Returned) -> Operand:
    """Reads with other values are not streamed."""
    assert not isinstance(value, Score | Aggregate)
    return value


def _is_read(operand: Operand) -> bool:
    return isinstance(operand, PropertyUse | NodeUse)
