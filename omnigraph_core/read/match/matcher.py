"""Executing the steps of a match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph_core.query.checked import Comparison, NodeUse, Operand, PropertyUse
from omnigraph_core.query.syntax import Operator
from omnigraph_core.query.values import evaluate
from omnigraph_core.read.columns.compare import among, compared
from omnigraph_core.read.columns.values import constant_array, value_codes, value_sizes
from omnigraph_core.read.match.hops import reach
from omnigraph_core.read.match.rows import START, Rows
from omnigraph_core.read.plan.conditions import is_value
from omnigraph_core.read.plan.steps import (
    Compare,
    Exclude,
    Expand,
    MatchPlan,
    Nothing,
    Require,
    Restrict,
    ScanNodes,
    Step,
)
from omnigraph_core.read.session.budget import piece_bytes
from omnigraph_core.read.session.entities import Entities
from omnigraph_core.read.session.selectivity import scan_way
from omnigraph_core.schema import EntityType
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.topology.arrays import distinct, join_on, numbered, pair_keys

if TYPE_CHECKING:
    from omnigraph_core.read.session.session import Session
    from omnigraph_core.topology.arrays import BoolArray, IntArray

TUPLE = "#tuple"
"""Inside a negation: which of the distinct outer tuples a row belongs to."""


class Matcher:
    """Executes match plans against one snapshot."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._types: Mapping[str, EntityType] = {}

    def match(self, plan: MatchPlan, seed: Rows = START) -> Rows:
        """All solutions that extend the given rows."""
        rows = seed
        around, self._types = self._types, plan.types
        for step in plan.steps:
            if not rows.count and not isinstance(step, ScanNodes | Expand):
                continue  # nothing comes of no rows; but a variable must get its (empty) column
            self._session.budget.check_time()
            with self._session.statistics.step(str(step)) as done:
                rows = self.do(step, rows)
                done.rows = rows.count
        self._types = around or plan.types
        return rows

    def bind(self, plan: MatchPlan) -> None:
        """Know what the variables of a match are that is done elsewhere."""
        self._types = plan.types

    def of_variable(self, variable: str) -> Entities:
        """The entities that a variable of the match being done, or done last, ranges over."""
        return self._session.entities(self._types[variable])

    def do(self, step: Step, rows: Rows) -> Rows:
        """The rows after one step."""
        if isinstance(step, ScanNodes):
            return self._scan(step, rows)
        if isinstance(step, Restrict):
            return self._restrict(step, rows)
        if isinstance(step, Expand):
            return self._expand(step, rows)
        if isinstance(step, Compare):
            return rows.kept(self._compared(step.comparison, rows))
        if isinstance(step, Exclude):
            return self._exclude(step, rows)
        if isinstance(step, Require):
            return rows if self.match(step.inner).count else rows.taken(_nothing())
        assert isinstance(step, Nothing)
        return rows.taken(_nothing())

    def _scan(self, step: ScanNodes, rows: Rows) -> Rows:
        if not rows.count:
            return rows.taken(_nothing(), {step.variable: _nothing()})
        return self.beside(step, rows, self._scanned(step))

    def beside(self, step: ScanNodes, rows: Rows, codes: IntArray) -> Rows:
        """Every row with every one of the nodes that a scan found, or with those that it is joined on."""
        if step.joined and rows.codes:
            return self._joined(step, rows, codes)
        self._session.budget.check_rows(rows.count * len(codes), len(rows.codes) + 1)
        positions = np.repeat(np.arange(rows.count, dtype=np.int64), len(codes))
        return rows.taken(positions, {step.variable: np.tile(codes, rows.count)})

    def _scanned(self, step: ScanNodes) -> IntArray:
        entities = self._session.nodes(step.node.name)
        if step.sole is not None and entities.is_id(step.sole[0]) and not step.searches:
            codes = entities.scan_one(step.sole[1], step.columns)
            if codes is not None:
                return codes
        if not step.searches:
            return entities.scan(step.where, step.columns, scan_way(entities, step))
        return entities.codes_of(self.found(entities, step))

    def found(self, entities: Entities, step: ScanNodes | Restrict) -> pa.Array:
        """The ids that the searches of a step find; most reads search for nothing and load no search."""
        from omnigraph_core.read.search.text import matching_ids

        return matching_ids(self._session, entities, step.searches, step.where)

    def _joined(self, step: ScanNodes, rows: Rows, codes: IntArray) -> Rows:
        """The scanned nodes beside the rows whose values equal theirs; the rest of the equalities filter."""
        first, *others = step.joined
        new, old = first.left, first.right
        assert isinstance(new, PropertyUse)
        assert isinstance(old, PropertyUse)
        if old.variable == step.variable:
            new, old = old, new
        scanned = self.value(new, Rows(len(codes), {step.variable: codes}))
        present, places_of_rows = self.spread(old, rows)
        numbers = value_codes(pa.concat_arrays([scanned, present]))
        mine, theirs = numbers[: len(codes)], numbers[len(codes) :][places_of_rows]
        order = np.argsort(mine, kind="stable")
        order = order[mine[order] > 0]
        width = len(rows.codes) + 1
        positions, places = join_on(
            theirs, mine[order], lambda count: self._session.budget.check_rows(count, width)
        )
        result = rows.taken(positions, {step.variable: codes[order][places]})
        for comparison in others:
            result = result.kept(self._compared(comparison, result))
        return result

    def _restrict(self, step: Restrict, rows: Rows) -> Rows:
        entities = self._session.entities(step.entity)
        codes = rows.codes[step.variable]
        if step.searches:
            return rows.kept(entities.among(codes, self.found(entities, step)))
        assert step.where is not None
        return rows.kept(entities.passing(codes, step.where))

    def _expand(self, step: Expand, rows: Rows) -> Rows:
        edge_variable = step.traversal.edge_variable
        if not rows.count:
            names = [] if step.closes else [step.target]
            names += [] if edge_variable is None else [edge_variable]
            return rows.taken(_nothing(), {} if step.tests else {name: _nothing() for name in names})
        session, traversal = self._session, step.traversal
        if step.tests:
            return rows.kept(session.topology.connected(step.selection, rows.codes[step.source]))
        near = session.nodes(step.selection.near)
        sources = rows.codes[step.source]
        starts, inverse = distinct(sources, near.size)
        fan = reach(
            session.topology,
            step.selection,
            session.nodes(step.selection.far),
            starts,
            traversal.min_hops,
            traversal.max_hops,
        )
        if step.closes:
            targets = np.repeat(np.arange(len(starts), dtype=np.int64), np.diff(fan.starts))
            keys = pair_keys(targets, fan.targets)
            # An index orders targets by their numbers in it, which are not the codes of this read.
            order = np.argsort(keys, kind="stable")
            positions, places = join_on(pair_keys(inverse, rows.codes[step.target]), keys[order])
            places = order[places]
            more = {}
        else:
            session.budget.check_rows(int(fan.counts(inverse).sum()), len(rows.codes) + 2)
            positions, places = fan.spread(inverse)
            more = {step.target: fan.targets[places]}
        if edge_variable is not None:
            assert fan.edges is not None
            more[edge_variable] = fan.edges[places]
        return rows.taken(positions, more)

    def _exclude(self, step: Exclude, rows: Rows) -> Rows:
        """An anti-join: the inner match runs once, for all distinct tuples of outer variables."""
        numbers, seed = distinct_tuples(step.outer, rows)
        solved = np.zeros(seed.count, np.bool_)
        solved[self.match(step.inner, seed).codes[TUPLE]] = True
        return rows.kept(~solved[numbers])

    def _compared(self, comparison: Comparison, rows: Rows) -> BoolArray:
        left, right = comparison.left, comparison.right
        if comparison.operator is Operator.CONTAINS and is_value(left) and left.type.is_list:
            values, places = self.spread(right, rows)
            return among(self.value(left, Rows(1, {})), values)[places]
        found = [np.zeros(0, np.bool_)]
        sizes = [self.sizes(side, rows) for side in (left, right)]
        for some in rows.pieces(sizes, piece_bytes(self._session.budget.memory_bytes)):
            values = self.value(left, some), self.value(right, some)
            found.append(compared(values[0], comparison.operator, values[1]))
        return np.concatenate(found)

    def check_values(self, values: pa.Array, places: IntArray) -> None:
        """Raise if so many of some values do not fit."""
        self._session.budget.check_values(len(places), value_sizes(values, places))

    def sizes(self, operand: Operand, rows: Rows) -> IntArray | int:
        """How many bytes an operand takes in each of the rows."""
        if isinstance(operand, PropertyUse | NodeUse):
            name = operand.property if isinstance(operand, PropertyUse) else ID_COLUMN
            return self.of_variable(operand.variable).sizes(name, rows.codes[operand.variable])
        return int(self.value(operand, Rows(1, {})).nbytes)

    def spread(self, operand: Operand, rows: Rows) -> tuple[pa.Array, IntArray]:
        """The same as `value` in two parts: a value for each distinct entity, and which a row has.

        What has to be done to every value is then done once for an entity.
        """
        if not isinstance(operand, PropertyUse | NodeUse):
            return self.value(operand, Rows(1, {})), np.zeros(rows.count, np.int64)
        codes, places = distinct(rows.codes[operand.variable], self.of_variable(operand.variable).size)
        return self.value(operand, Rows(len(codes), {operand.variable: codes})), places

    def numbered(self, operand: Operand, rows: Rows) -> IntArray:
        """A number for each row, equal where the operand is."""
        if isinstance(operand, NodeUse | PropertyUse):
            entities = self.of_variable(operand.variable)
            if isinstance(operand, NodeUse) or entities.is_id(operand.property):
                return rows.codes[operand.variable]
        values, places = self.spread(operand, rows)
        return value_codes(values)[places]

    def value(self, operand: Operand, rows: Rows) -> pa.Array:
        """What an operand is in each of the rows."""
        if isinstance(operand, PropertyUse):
            entities = self.of_variable(operand.variable)
            return entities.column(operand.property, rows.codes[operand.variable])
        if isinstance(operand, NodeUse):
            entities = self._session.nodes(operand.node.name)
            return entities.column(ID_COLUMN, rows.codes[operand.variable])
        run = self._session.run
        return constant_array(evaluate(operand, run.params, run.now), operand.type, rows.count)


def distinct_tuples(names: tuple[str, ...], rows: Rows) -> tuple[IntArray, Rows]:
    """A number for each row, equal where the named columns are; and a row for each number, which it has."""
    numbers = np.zeros(rows.count, np.int64)
    count = 1
    for name in names:
        codes = rows.codes[name]
        values, place = distinct(codes, int(codes.max()) + 1)
        numbers = numbered(numbers * len(values) + place)[1] if count > 1 else place
        count = int(numbers.max()) + 1
    firsts = np.empty(count, np.int64)
    firsts[numbers] = np.arange(rows.count)
    codes_of = {name: rows.codes[name][firsts] for name in names}
    return numbers, Rows(count, {**codes_of, TUPLE: np.arange(count, dtype=np.int64)})


def _nothing() -> IntArray:
    return np.zeros(0, np.int64)
