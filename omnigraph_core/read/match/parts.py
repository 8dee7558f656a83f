"""A match in parts, where all of its rows do not fit in memory.

A step does the same to a row whatever other rows there are. So where what comes of a step does not fit, the
rows that go into it are divided, and each part goes through this step and the later ones by itself. A part
has a session of its own: the ids and properties that it met are gone when it is done. What passes from one
session to the next are ids, because codes mean something only within one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph_core.read.match.matcher import TUPLE, Matcher, distinct_tuples
from omnigraph_core.read.match.rows import START, Rows
from omnigraph_core.read.plan.steps import Exclude, MatchPlan, Require, ScanNodes
from omnigraph_core.read.session.budget import TooManyRows
from omnigraph_core.read.session.selectivity import scan_way
from omnigraph_core.records import dataclass
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.topology.arrays import distinct

if TYPE_CHECKING:
    from omnigraph_core.read.session.session import Session
    from omnigraph_core.schema import EntityType
    from omnigraph_core.topology.arrays import IntArray

# Of what a part may hold, the share that is scanned at a time, and what a scanned row takes at least.
_SCANNED_SHARE = 8
_SCANNED_ROW_BYTES = 64


@dataclass(frozen=True, slots=True)
class Part:
    """Rows outside of any session: for each variable the ids there are, and which of them a row has."""

    count: int
    ids: Mapping[str, tuple[pa.Array, IntArray]]
    numbers: Mapping[str, IntArray]
    """Columns that are no codes."""

    @classmethod
    def of(cls, rows: Rows, types: Mapping[str, EntityType], session: Session) -> Part:
        ids, numbers = {}, {}
        for name, codes in rows.codes.items():
            if name == TUPLE:
                numbers[name] = codes
                continue
            entities = session.entities(types[name])
            present, places = distinct(codes, entities.size)
            ids[name] = entities.ids_of(present), places
        return cls(rows.count, ids, numbers)

    def rows(self, types: Mapping[str, EntityType], session: Session) -> Rows:
        codes: dict[str, IntArray] = dict(self.numbers)
        for name, (ids, places) in self.ids.items():
            codes[name] = session.entities(types[name]).codes_of(ids)[places]
        return Rows(self.count, codes)

    def divided(self, parts: int) -> Iterator[Part]:
        """The rows in so many parts at most, none of them empty."""
        size = -(-self.count // parts)
        for start in range(0, self.count, size):
            some = slice(start, start + size)
            ids = {}
            for name, (all_ids, places) in self.ids.items():
                present, own = distinct(places[some], len(all_ids))
                ids[name] = all_ids.take(pa.array(present)), own
            numbers = {name: column[some] for name, column in self.numbers.items()}
            yield Part(min(size, self.count - start), ids, numbers)


@dataclass(frozen=True, slots=True)
class _Task:
    """A part, and the step it is to go on with. `scanned` are nodes that this step, a scan, has found.

    What cannot be divided further may have all of the memory.
    """

    place: int
    part: Part
    scanned: pa.RecordBatch | None = None
    is_least: bool = False

    def divided(self, refused: TooManyRows) -> Iterator[_Task]:
        """In smaller tasks; raises where there is nothing left to divide."""
        parts = max(2, -(-2 * refused.needed // max(1, refused.limit)))
        scanned = self.scanned
        if scanned is not None and scanned.num_rows > max(1, self.part.count):
            size = -(-scanned.num_rows // parts)
            starts = range(0, scanned.num_rows, size)
            return (_Task(self.place, self.part, scanned.slice(start, size)) for start in starts)
        if self.is_least:
            raise refused
        if self.part.count < 2:
            return iter([_Task(self.place, self.part, scanned, is_least=True)])
        return (_Task(self.place, part, scanned) for part in self.part.divided(parts))


class MatchInParts:
    """The solutions of a match, some at a time."""

    def __init__(self, session: Session, reads: Mapping[str, Sequence[str]]) -> None:
        """`reads` are the properties that are to be at hand with the solutions."""
        self._session = session
        self._reads = reads
        self.parts = 0

    def solutions(self, plan: MatchPlan) -> Iterator[tuple[Matcher, Rows]]:
        yield from self._solutions(plan, Part(START.count, {}, {}), self._reads)

    def _solutions(
        self, plan: MatchPlan, first: Part, reads: Mapping[str, Sequence[str]]
    ) -> Iterator[tuple[Matcher, Rows]]:
        waiting: list[Iterator[_Task]] = [iter([_Task(0, first)])]
        while waiting:
            task = next(waiting[-1], None)
            if task is None:
                waiting.pop()
                continue
            self._session.budget.check_time()
            session = self._session.part(is_least=task.is_least)
            matcher = Matcher(session)
            matcher.bind(plan)
            found = _Walk(self, plan, session, matcher, reads).done(task)
            if not isinstance(found, Rows):
                waiting.append(found)
            elif found.count:
                self.parts += 1
                yield matcher, found

    def has_any(self, plan: MatchPlan) -> bool:
        return any(rows.count for _, rows in self._solutions(plan, Part(START.count, {}, {}), {}))

    def solved(self, step: Exclude, seed: Part) -> IntArray:
        """Which of the outer tuples have a solution."""
        found = np.zeros(seed.count, np.bool_)
        for _, rows in self._solutions(step.inner, seed, {}):
            found[rows.codes[TUPLE]] = True
        return np.flatnonzero(found)


@dataclass(frozen=True, slots=True)
class _Walk:
    """One part on its way through the steps, in its session."""

    whole: MatchInParts
    plan: MatchPlan
    session: Session
    matcher: Matcher
    reads: Mapping[str, Sequence[str]]

    def done(self, task: _Task) -> Rows | Iterator[_Task]:
        """The rows that are left in the end; or the tasks to do instead, if this is too much at once."""
        try:
            rows = task.part.rows(self.plan.types, self.session)
            place = task.place
            if task.scanned is not None:
                rows = self._beside(task.scanned, place, rows)
                place += 1
        except TooManyRows as refused:
            return task.divided(refused)
        while rows.count:
            try:
                if place == len(self.plan.steps):
                    self._read(rows)
                    return rows
                rows = self.matcher.do(self.plan.steps[place], rows)
            except TooManyRows as refused:
                step = self.plan.steps[place] if place < len(self.plan.steps) else None
                self.matcher.bind(self.plan)
                if isinstance(step, Exclude):
                    rows = self._excluded(step, rows)
                elif isinstance(step, Require):
                    rows = rows if self.whole.has_any(step.inner) else rows.taken(np.zeros(0, np.int64))
                else:
                    part = Part.of(rows, self.plan.types, self.session)
                    if isinstance(step, ScanNodes):
                        return self._scanned(step, _Task(place, part))
                    is_least = task.is_least and place == task.place
                    return _Task(place, part, is_least=is_least).divided(refused)
            place += 1
        return rows

    def _read(self, rows: Rows) -> None:
        for variable, names in self.reads.items():
            self.matcher.of_variable(variable).read(names, rows.codes[variable])

    def _excluded(self, step: Exclude, rows: Rows) -> Rows:
        numbers, seed = distinct_tuples(step.outer, rows)
        solved = self.whole.solved(step, Part.of(seed, self.plan.types, self.session))
        left = np.ones(seed.count, np.bool_)
        left[solved] = False
        return rows.kept(left[numbers])

    def _scanned(self, step: ScanNodes, task: _Task) -> Iterator[_Task]:
        """The same rows beside some of the scanned nodes at a time."""
        entities = self.session.nodes(step.node.name)
        memory = max(_SCANNED_ROW_BYTES, self.session.budget.memory_bytes // _SCANNED_SHARE)
        rows = memory // _SCANNED_ROW_BYTES
        if step.searches:
            ids = self.matcher.found(entities, step)
            batch = pa.RecordBatch.from_arrays([ids], names=[ID_COLUMN])
            return (
                _Task(task.place, task.part, batch.slice(start, rows)) for start in range(0, len(ids), rows)
            )
        names = list(dict.fromkeys([ID_COLUMN, *(name for name in step.columns if not entities.is_id(name))]))
        way = scan_way(entities, step)
        batches = entities.table.scan(
            names, step.where, batch_rows=rows, batch_bytes=memory, use_index=way.use_index, early=way.early
        )
        return (_Task(task.place, task.part, batch.select(names)) for batch in batches if batch.num_rows)

    def _beside(self, scanned: pa.RecordBatch, place: int, rows: Rows) -> Rows:
        step = self.plan.steps[place]
        assert isinstance(step, ScanNodes)
        entities = self.session.nodes(step.node.name)
        codes = entities.codes_of(scanned.column(0))
        for name in scanned.schema.names[1:]:
            entities.keep(name, codes, [scanned.column(name)])
        return self.matcher.beside(step, rows, codes)
