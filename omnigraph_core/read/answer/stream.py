"""Reads of a single scan, which most are: its batches pass by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph_core.query.checked import (
    Aggregate,
    CheckedRead,
    NodeUse,
    PropertyUse,
    Score,
)
from omnigraph_core.query.syntax import AggregateFunction
from omnigraph_core.read.answer.passing import Identity, PassingRead, Wanted, is_read, operand_of
from omnigraph_core.read.answer.project import Projector
from omnigraph_core.read.answer.result import Answer, answer_of
from omnigraph_core.read.answer.shown import ordered_groups, shown_table
from omnigraph_core.read.answer.sorting import SortKey
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


class StreamedRead(PassingRead):
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
        super().__init__(session, read)
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

    # ---- rows ----

    def _single(self) -> Answer | None:
        """One row needs no order, and so no id. None if there should be more than one."""
        operands: list[Wanted] = [operand_of(column.value) for column in self._read.columns]
        with self._session.statistics.step(str(self._scan)) as step:
            found = [columns for columns, _ in self._passing(operands)]
            step.rows = sum(len(columns[0]) for columns in found)
        if step.rows > 1:
            return None
        return answer_of(shown_table(self._read, found[0] if found else self._nothing(operands)))

    def _source(self) -> str:
        return str(self._scan)

    def _identities(self) -> list[tuple[SortKey, Wanted]]:
        return [(SortKey(_ID, is_unique=True), NodeUse(self._scan.variable, self._scan.node))]

    def _of_first(self, rows: pa.Table | None) -> Answer:
        ids = rows.column(_ID).chunks if rows is not None else []
        codes = self._session.nodes(self._scan.node.name).met(ids)
        return self._projector.returned(Rows(len(codes), {self._scan.variable: codes}))

    # ---- scanning ----

    def _passing(self, wanted: Sequence[Wanted]) -> Iterator[tuple[list[pa.Array], int]]:
        session = self._session
        entities = session.nodes(self._scan.node.name)
        names = list(dict.fromkeys(map(self._column, filter(is_read, wanted)))) or [ID_COLUMN]
        sole = self._scan.sole
        if sole is not None and entities.is_id(sole[0]):
            rows = entities.with_id(sole[1], names)
            if rows is not None:
                yield [self._value(each, rows.to_batches()[0]) for each in wanted], 1
                return
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
        most = self._rows_at_once(wanted)
        for batch in reader:
            session.budget.check_time()
            session.statistics.count_read(batch.num_rows, batch.nbytes)
            for start in range(0, batch.num_rows, most):
                some = batch.slice(start, most)
                yield [self._value(each, some) for each in wanted], some.num_rows

    def _nothing(self, wanted: Sequence[Wanted]) -> list[pa.Array]:
        schema = self._session.nodes(self._scan.node.name).table.schema
        fields = [schema.field(name) for name in dict.fromkeys(map(self._column, wanted))]
        batch = pa.RecordBatch.from_pylist([], pa.schema(fields))
        return [self._value(each, batch) for each in wanted]

    def _column(self, operand: Wanted) -> str:
        """Where an operand is read from. A key that is the id is read once, as the id."""
        entities = self._session.nodes(self._scan.node.name)
        is_other = isinstance(operand, PropertyUse) and not entities.is_id(operand.property)
        return operand.property if isinstance(operand, PropertyUse) and is_other else ID_COLUMN

    def _value(self, operand: Wanted, batch: pa.RecordBatch) -> pa.Array:
        assert not isinstance(operand, Identity)
        if isinstance(operand, PropertyUse | NodeUse):
            return batch.column(self._column(operand))
        return self._constant(operand, batch.num_rows)
