"""Reads whose match does not fit in memory: its parts pass by one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph_core.query.checked import Aggregate, CheckedRead, NodeUse, PropertyUse, Score
from omnigraph_core.read.answer.passing import Identity, PassingRead, Wanted
from omnigraph_core.read.answer.project import Projector
from omnigraph_core.read.answer.result import Answer
from omnigraph_core.read.answer.sorting import SortKey
from omnigraph_core.read.answer.stream import LATE_ROWS_MAX
from omnigraph_core.read.match.matcher import Matcher
from omnigraph_core.read.match.parts import MatchInParts
from omnigraph_core.read.match.rows import Rows
from omnigraph_core.read.plan.steps import MatchPlan, ScanNodes
from omnigraph_core.read.session.budget import piece_bytes
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.values.arrays import whole

if TYPE_CHECKING:
    from omnigraph_core.read.session.session import Session
    from omnigraph_core.topology.arrays import IntArray

# Values are made for so many rows at most at a time.
_ROWS_MAX = 1 << 16

# To order rows by that have nothing else: they are all the same.
_SAME = "#same"


def can_be_parted(read: CheckedRead, plan: MatchPlan) -> bool:
    """A search ranks all that is found, lists are not grouped by on disk, and a product is a mistake."""
    scans = [step for step in plan.steps if isinstance(step, ScanNodes)]
    if any(not scan.joined for scan in scans[1:]):
        return False
    if read.ranking is not None or any(isinstance(column.value, Score) for column in read.columns):
        return False
    keys = [column for column in read.columns if not isinstance(column.value, Aggregate)]
    return not (read.grouped and any(column.type.is_list for column in keys))


class PartedRead(PassingRead):
    """One read whose match is done in parts."""

    def __init__(self, session: Session, read: CheckedRead, plan: MatchPlan) -> None:
        super().__init__(session, read)
        self._plan = plan

    def answer(self) -> Answer:
        limit = self._read.limit
        if self._read.grouped:
            return self._grouped()
        return self._best(limit) if limit is not None and limit <= LATE_ROWS_MAX else self._sorted()

    def _source(self) -> str:
        return "match in parts"

    def _identities(self) -> list[tuple[SortKey, Wanted]]:
        """The ids of all variables: by their names behind a written order, else as the query binds them."""
        bound = [name for name in self._plan.types if not name.startswith("#")]
        written = [name for name, _ in (*self._read.variables, *self._read.edge_variables)]
        names = sorted(bound) if self._read.order else [name for name in written if name in bound]
        found: list[tuple[SortKey, Wanted]] = [(SortKey(f"#id {name}"), Identity(name)) for name in names]
        return found or [(SortKey(_SAME), Identity(_SAME))]

    def _passing(self, wanted: Sequence[Wanted]) -> Iterator[tuple[list[pa.Array], int]]:
        reads: dict[str, list[str]] = {}
        for each in wanted:
            if isinstance(each, PropertyUse):
                reads.setdefault(each.variable, []).append(each.property)
        parts = MatchInParts(
            self._session, {name: list(dict.fromkeys(names)) for name, names in reads.items()}
        )
        most = piece_bytes(self._session.budget.memory_bytes)
        for matcher, rows in parts.solutions(self._plan):
            sizes = [self._sizes(each, matcher, rows) for each in wanted]
            for some in rows.pieces(sizes, most, _ROWS_MAX):
                self._session.budget.check_time()
                yield [self._value(each, matcher, some) for each in wanted], some.count
        self._session.statistics.note(f"{parts.parts} parts")

    def _nothing(self, wanted: Sequence[Wanted]) -> list[pa.Array]:
        matcher = Matcher(self._session.part())
        matcher.bind(self._plan)
        none = np.zeros(0, np.int64)
        rows = Rows(0, dict.fromkeys(self._plan.types, none))
        return [self._value(each, matcher, rows) for each in wanted]

    def _value(self, wanted: Wanted, matcher: Matcher, rows: Rows) -> pa.Array:
        if isinstance(wanted, Identity):
            if wanted.variable == _SAME:
                return pa.array(np.zeros(rows.count, np.int8))
            return matcher.of_variable(wanted.variable).ids_of(rows.codes[wanted.variable])
        if isinstance(wanted, PropertyUse | NodeUse):
            return matcher.value(wanted, rows)
        return self._constant(wanted, rows.count)

    def _sizes(self, wanted: Wanted, matcher: Matcher, rows: Rows) -> IntArray | int:
        if not isinstance(wanted, Identity):
            return matcher.sizes(wanted, rows)
        if wanted.variable == _SAME:
            return 1
        return matcher.of_variable(wanted.variable).sizes(ID_COLUMN, rows.codes[wanted.variable])

    def _of_first(self, rows: pa.Table | None) -> Answer:
        matcher = Matcher(self._session)
        matcher.bind(self._plan)
        count = 0 if rows is None else rows.num_rows
        codes = {}
        for _, identity in self._identities():
            assert isinstance(identity, Identity)
            name = identity.variable
            if name != _SAME:
                ids = pa.array([], pa.utf8()) if rows is None else whole(rows.column(f"#id {name}"))
                codes[name] = matcher.of_variable(name).codes_of(ids)
        return Projector(self._session, matcher, self._read, self._plan).returned(Rows(count, codes))
