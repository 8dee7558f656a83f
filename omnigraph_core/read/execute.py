"""One read from start to finish: plan, match, answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timezone

import pyarrow as pa

from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.query.checked import (
    Aggregate,
    CheckedRead,
    ColumnKey,
    Comparison,
    FusedSearch,
    Operand,
    PropertyUse,
    Returned,
    Score,
    TextSearch,
    all_clauses,
)
from omnigraph_core.query.params import BoundParams
from omnigraph_core.query.syntax import TextFunction
from omnigraph_core.read.answer.parted import PartedRead, can_be_parted
from omnigraph_core.read.answer.project import Projector
from omnigraph_core.read.answer.result import Answer, QueryResult, Target, answer_of
from omnigraph_core.read.answer.shown import shown_table
from omnigraph_core.read.answer.stream import LATE_ROWS_MAX, StreamedRead, streamed_scan
from omnigraph_core.read.match.matcher import Matcher
from omnigraph_core.read.match.rows import Rows
from omnigraph_core.read.plan.conditions import Run, variables_of
from omnigraph_core.read.plan.planner import Planner
from omnigraph_core.read.plan.steps import MatchPlan
from omnigraph_core.read.session.budget import Budget, TooManyRows
from omnigraph_core.read.session.session import Session
from omnigraph_core.records import dataclass
from omnigraph_core.schema import PropertyType, Scalar, Schema
from omnigraph_core.schema.arrow import arrow_type
from omnigraph_core.settings import Settings
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.keys import ROW_ID
from omnigraph_core.topology.cache import ReadCache
from omnigraph_core.topology.format import NotTopology
from omnigraph_core.topology.store import TopologyStore


@dataclass(frozen=True, slots=True)
class Reading:
    """Where reads are run: one snapshot with its schema."""

    tables: Tables
    snapshot: Snapshot
    schema: Schema
    settings: Settings
    cache: ReadCache
    topology: TopologyStore

    def run(
        self,
        read: CheckedRead,
        params: BoundParams,
        *,
        is_ref: bool = False,
        timeout_s: float | None = None,
        explain_only: bool = False,
    ) -> QueryResult:
        """The answer; `now()` is the moment this was called."""
        now = datetime.now(timezone.utc)
        budget = Budget(timeout_s, self.settings.memory_limit_bytes)

        def session_with(topology: TopologyStore | None) -> Session:
            settings, cache = self.settings, self.cache
            return Session(
                self.tables, self.snapshot, self.schema, Run(params, now), budget, settings, cache, topology
            )

        session = session_with(self.topology)
        prepared = PreparedRead(session, read)
        try:
            rows = empty_answer(read) if explain_only else prepared.execute()
        except NotTopology:  # An index that is damaged is as good as none.
            budget.begin_again()
            session = session_with(None)
            prepared = PreparedRead(session, read)
            rows = prepared.execute()
        commit_id = self.snapshot.head.commit_id if self.snapshot.head else None
        target = Target(None, commit_id) if is_ref else Target(self.snapshot.shown_branch)
        plan = prepared.explain()
        rows = unhurried(rows, budget)
        return QueryResult(read.name, target, commit_id, rows, plan, tuple(session.statistics.steps))


class PreparedRead:
    """A checked read, bound to parameters and to one snapshot, planned and ready to run."""

    def __init__(self, session: Session, read: CheckedRead) -> None:
        self._read = read
        self._session = session
        planner = Planner(session.schema, session.run, session.row_count, _carried(read))
        self.plan: MatchPlan = planner.plan(read.clauses, {})

    def explain(self) -> tuple[str, ...]:
        """The steps as text, in execution order."""
        read = self._read
        lines = list(self.plan.lines())
        if read.grouped:
            lines.append("group and aggregate")
        if read.ranking is not None:
            lines.append("rank by search")
        elif read.order:
            lines.append("order")
        if read.limit is not None:
            lines.append(f"limit {read.limit}")
        lines.append(f"return {', '.join(column.name for column in read.columns)}")
        return tuple(lines)

    def execute(self) -> Answer:
        matcher = Matcher(self._session)
        projector = Projector(self._session, matcher, self._read, self.plan)
        scan = streamed_scan(self._read, self.plan)
        if scan is not None:
            return StreamedRead(self._session, self._read, self.plan, scan, matcher, projector).answer()
        rows = self._narrowed()
        if rows is not None:
            matcher.bind(self.plan)
            return projector.answer(rows, is_narrowed=True)
        if not can_be_parted(self._read, self.plan):
            return projector.answer(matcher.match(self.plan))
        with suppress(TooManyRows):
            return projector.answer(matcher.match(self.plan))
        del matcher, projector
        self._session.forget()
        return PartedRead(self._session, self._read, self.plan).answer()

    def _narrowed(self) -> Rows | None:
        """The rows that can be among the first, if that is known before the match."""
        if self._read.ranking is None:
            return None
        from omnigraph_core.read.search.narrowing import narrowed, nearest_scan

        scan = nearest_scan(self._read, self.plan)
        codes = None if scan is None else narrowed(self._session, self._read, scan)
        return None if scan is None or codes is None else Rows(len(codes), {scan.variable: codes})


def unhurried(answer: Answer, budget: Budget) -> Answer:
    """The time that a reader of the rows takes is none of the query's; each time they are asked for, as
    much is left as there was when the rows were known."""
    left = budget.left_s()
    if left is None:
        return answer

    def batches() -> Iterator[pa.RecordBatch]:
        mine = left
        source = answer.batches()
        while True:
            budget.leave_s(mine)
            batch = next(source, None)
            if batch is None:
                return
            mine = budget.left_s() or 0.0
            yield batch

    return Answer(answer.schema, answer.row_count, batches)


def empty_answer(read: CheckedRead) -> Answer:
    """No rows, of the types that the answer has."""
    nothing = [pa.array([], arrow_type(column.type)) for column in read.columns]
    return answer_of(shown_table(read, nothing))


def _carried(read: CheckedRead) -> Mapping[str, tuple[str, ...]]:
    """For each variable the properties to read when its entities are first met.

    Those that every row needs; vectors and lists are read for the rows that are left.
    """
    found: dict[str, dict[str, None]] = {}
    for operand in _early(read):
        if isinstance(operand, PropertyUse) and _is_narrow(operand.type):
            found.setdefault(operand.variable, {})[operand.property] = None
    for search in _text_searches(read):
        found.setdefault(search.variable, {})[ROW_ID] = None
    return {variable: tuple(names) for variable, names in found.items()}


def _text_searches(read: CheckedRead) -> Iterator[TextSearch]:
    """Those that rank by relevance, which indexes tell by row id."""
    searches = [column.value.search for column in read.columns if isinstance(column.value, Score)]
    searches += [] if read.ranking is None else [read.ranking]
    for search in searches:
        for arm in (search.first, search.second) if isinstance(search, FusedSearch) else (search,):
            if isinstance(arm, TextSearch) and arm.function is not TextFunction.FUZZY:
                yield arm


def _is_narrow(type_: PropertyType) -> bool:
    return not type_.is_list and type_.scalar is not Scalar.VECTOR


def _early(read: CheckedRead) -> Iterator[Returned | Operand]:
    for clause in all_clauses(read.clauses):
        if isinstance(clause, Comparison) and len(variables_of(clause)) > 1:
            yield from (clause.left, clause.right)
    for key in read.order:
        yield read.columns[key.index].value if isinstance(key, ColumnKey) else key.property
    if read.grouped:
        yield from (c.value.argument if isinstance(c.value, Aggregate) else c.value for c in read.columns)
    elif read.limit is None or read.limit > LATE_ROWS_MAX:
        yield from (column.value for column in read.columns)
