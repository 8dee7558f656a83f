"""Sorting the clauses of one match by what they are about.

A condition on a single variable and values known beforehand goes into the scan of that
variable as SQL; what compares several variables waits until they are bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from datetime import datetime
from typing import TypeGuard

from omnigraph_core.query.checked import (
    Absence,
    Comparison,
    EdgeTraversal,
    MatchClause,
    NodeBinding,
    NodeUse,
    Operand,
    PropertyUse,
    TextMatch,
    TextSearch,
    ValueExpression,
)
from omnigraph_core.query.params import BoundParams
from omnigraph_core.query.predicate import (
    NoMatch,
    Sql,
    comparison_sql,
    flipped,
    membership_sql,
    pattern_sql,
    within_text_sql,
)
from omnigraph_core.query.syntax import Operator
from omnigraph_core.query.values import evaluate
from omnigraph_core.read.columns.compare import holds
from omnigraph_core.records import dataclass
from omnigraph_core.schema import NodeType

_RANGES = (Operator.LT, Operator.LE, Operator.GT, Operator.GE)


@dataclass(frozen=True, slots=True)
class Run:
    """What stays the same for the whole run of a query."""

    params: BoundParams
    now: datetime


@dataclass(slots=True)
class Conditions:
    """What one match asks for."""

    nodes: dict[str, NodeType | None] = field(default_factory=dict)
    """Variables of nodes in order of appearance; None where only a traversal tells the type."""
    traversals: list[EdgeTraversal] = field(default_factory=list)
    where: dict[str, list[str]] = field(default_factory=dict)
    equalities: dict[str, set[str]] = field(default_factory=dict)
    """Properties of a variable that are compared with one value."""
    texts: dict[str, dict[str, str]] = field(default_factory=dict)
    """Properties of a variable that are compared with one text, and the text."""
    ranges: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """Of a variable, the properties that are to lie on one side of a value, and the SQL that says so."""
    searches: dict[str, list[TextSearch]] = field(default_factory=dict)
    comparisons: list[Comparison] = field(default_factory=list)
    absences: list[Absence] = field(default_factory=list)
    impossible: bool = False

    def where_of(self, variable: str) -> str | None:
        return " AND ".join(f"({text})" for text in self.where.get(variable, ())) or None

    def sole_text(self, variable: str) -> tuple[str, str] | None:
        """A property and the text it is to equal, if that is all that is asked of a variable."""
        texts = self.texts.get(variable, {})
        is_all = len(self.where.get(variable, ())) == len(texts) == 1
        return next(iter(texts.items())) if is_all else None

    def searches_of(self, variable: str) -> tuple[TextSearch, ...]:
        return tuple(self.searches.get(variable, ()))


def sort_clauses(clauses: Iterable[MatchClause], run: Run) -> Conditions:
    found = Conditions()
    for clause in clauses:
        if isinstance(clause, NodeBinding):
            found.nodes[clause.variable] = clause.node
            for test in clause.tests:
                _add(found, clause.variable, pattern_sql(test, run.params, run.now))
                if not test.type.is_list:
                    _equal(found, clause.variable, test.property, evaluate(test.value, run.params, run.now))
        elif isinstance(clause, EdgeTraversal):
            found.nodes.setdefault(clause.left, None)
            found.nodes.setdefault(clause.right, None)
            found.traversals.append(clause)
        elif isinstance(clause, TextMatch):
            found.searches.setdefault(clause.search.variable, []).append(clause.search)
        elif isinstance(clause, Absence):
            found.absences.append(clause)
        else:
            _sort_comparison(found, clause, run)
    return found


def _sort_comparison(found: Conditions, clause: Comparison, run: Run) -> None:
    left, right = clause.left, clause.right
    if isinstance(left, PropertyUse) and is_value(right):
        _push(found, left, clause.operator, evaluate(right, run.params, run.now))
    elif isinstance(right, PropertyUse) and is_value(left):
        value = evaluate(left, run.params, run.now)
        if clause.operator is Operator.CONTAINS and isinstance(value, tuple):
            found.comparisons.append(clause)
        elif clause.operator in (Operator.CONTAINS, Operator.STARTS_WITH):
            _add(found, right.variable, within_text_sql(clause.operator, value, right.property))
        else:
            _push(found, right, flipped(clause.operator), value)
    elif is_value(left) and is_value(right):
        values = [evaluate(side, run.params, run.now) for side in (left, right)]
        found.impossible |= not holds(values[0], clause.operator, values[1])
    else:
        found.comparisons.append(clause)


def _push(found: Conditions, use: PropertyUse, operator: Operator, value: object) -> None:
    sql = _pushed(use, operator, value)
    _add(found, use.variable, sql)
    if operator is Operator.EQ:
        _equal(found, use.variable, use.property, value)
    elif operator in _RANGES and not use.type.is_list and not isinstance(sql, NoMatch):
        found.ranges.setdefault(use.variable, {}).setdefault(use.property, []).append(sql)


def _equal(found: Conditions, variable: str, name: str, value: object) -> None:
    found.equalities.setdefault(variable, set()).add(name)
    if isinstance(value, str):
        found.texts.setdefault(variable, {})[name] = value


def _pushed(use: PropertyUse, operator: Operator, value: object) -> Sql:
    if use.type.is_list:
        return membership_sql(use.property, use.type, value)  # type: ignore[arg-type]
    return comparison_sql(use.property, use.type, operator, value)  # type: ignore[arg-type]


def _add(found: Conditions, variable: str, sql: Sql) -> None:
    if isinstance(sql, NoMatch):
        found.impossible = True
    else:
        found.where.setdefault(variable, []).append(sql)


def is_value(operand: Operand) -> TypeGuard[ValueExpression]:
    """Is the operand known before any row is read?"""
    return not isinstance(operand, PropertyUse | NodeUse)


def variables_of(comparison: Comparison) -> set[str]:
    sides = (comparison.left, comparison.right)
    return {side.variable for side in sides if isinstance(side, PropertyUse | NodeUse)}
