"""A read evaluated the naive way: every row tried, in plain Python.

Written from the language's description alone; it shares nothing with the executor but
the checked query. Searches are not part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from omnigraph_core.query.checked import (
    Absence,
    Aggregate,
    CheckedRead,
    ColumnKey,
    Comparison,
    Direction,
    EdgeTraversal,
    MatchClause,
    NodeBinding,
    NodeUse,
    PropertyUse,
)
from omnigraph_core.query.params import NO_PARAMS, BoundParams
from omnigraph_core.query.values import evaluate

Environment = dict[str, Any]


@dataclass(frozen=True)
class NaiveEdge:
    id: str
    source: str
    target: str
    values: Mapping[str, Any]


@dataclass
class NaiveGraph:
    """Nodes by type and id, edges by type."""

    nodes: dict[str, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    edges: dict[str, list[NaiveEdge]] = field(default_factory=dict)


class NaiveReader:
    def __init__(self, graph: NaiveGraph, read: CheckedRead, now: datetime, params: BoundParams = NO_PARAMS):
        self.graph, self.read, self.now, self.params = graph, read, now, params
        self.types = {name: node.name for name, node in read.variables}

    def rows(self) -> list[dict[str, Any]]:
        found = list(self.solutions(self.read.clauses, {}))
        rows = self.grouped(found) if self.read.grouped else self.ordered(found)
        return rows if self.read.limit is None else rows[: self.read.limit]

    # ---- match ----

    def solutions(self, clauses: Sequence[MatchClause], known: Environment) -> Iterator[Environment]:
        """Bindings and traversals first, in the order written, then what only filters."""
        binding = [each for each in clauses if isinstance(each, NodeBinding | EdgeTraversal)]
        filters = [each for each in clauses if not isinstance(each, NodeBinding | EdgeTraversal)]
        for environment in self.extended(binding, known):
            if all(self.passes(each, environment) for each in filters):
                yield environment

    def extended(self, clauses: Sequence[MatchClause], known: Environment) -> Iterator[Environment]:
        if not clauses:
            yield known
            return
        for environment in self.by_clause(clauses[0], known):
            yield from self.extended(clauses[1:], environment)

    def by_clause(self, clause: MatchClause, known: Environment) -> Iterator[Environment]:
        if isinstance(clause, NodeBinding):
            for id_, values in self.bound(clause.node.name, clause.variable, known):
                if all(self.tested(values[test.property], test) for test in clause.tests):
                    yield {**known, clause.variable: (clause.node.name, id_)}
            return
        assert isinstance(clause, EdgeTraversal)
        for left, _ in self.bound(clause.left_type, clause.left, known):
            here = {**known, clause.left: (clause.left_type, left)}
            for right, edge in self.followed(clause, left):
                right_is = here.get(clause.right, (clause.right_type, right))
                if right_is == (clause.right_type, right):
                    there = {**here, clause.right: right_is}
                    if clause.edge_variable is not None:
                        there[clause.edge_variable] = edge
                    yield there

    def bound(self, type_: str, variable: str, known: Environment) -> Iterable[tuple[str, Mapping[str, Any]]]:
        if variable in known:
            id_ = known[variable][1]
            return [(id_, self.graph.nodes[type_][id_])]
        return list(self.graph.nodes[type_].items())

    def tested(self, value: Any, test: Any) -> bool:
        wanted = evaluate(test.value, self.params, self.now)
        if value is None or wanted is None:
            return False
        return wanted in value if test.type.is_list else bool(value == wanted)

    def followed(self, clause: EdgeTraversal, left: str) -> Iterator[tuple[str, NaiveEdge | None]]:
        if clause.per_edge:
            seen = set()
            for edge, target in self.steps(clause, left):
                if (edge.id, target) not in seen:
                    seen.add((edge.id, target))
                    yield target, edge
            return
        distances: dict[str, int] = {}
        reached, frontier = {left}, [left]
        for hop in range(1, clause.max_hops + 1):
            following = []
            for node in frontier:
                for _, target in self.steps(clause, node):
                    if hop == 1 and target == left:
                        distances.setdefault(left, 1)
                    elif target not in reached:
                        reached.add(target)
                        distances[target] = hop
                        following.append(target)
            frontier = following if clause.left_type == clause.right_type else []
        for target, hop in distances.items():
            if clause.min_hops <= hop <= clause.max_hops:
                yield target, None

    def steps(self, clause: EdgeTraversal, node: str) -> Iterator[tuple[NaiveEdge, str]]:
        for edge in self.graph.edges[clause.edge.name]:
            if clause.direction in (Direction.FORWARD, Direction.BOTH) and edge.source == node:
                yield edge, edge.target
            if clause.direction in (Direction.BACKWARD, Direction.BOTH) and edge.target == node:
                yield edge, edge.source

    def passes(self, clause: MatchClause, environment: Environment) -> bool:
        if isinstance(clause, Absence):
            outer = {name: environment[name] for name in clause.outer}
            return not any(True for _ in self.solutions(clause.clauses, outer))
        assert isinstance(clause, Comparison)
        left = self.value(clause.left, environment)
        right = self.value(clause.right, environment)
        if left is None or right is None:
            return False
        tests = {
            "=": lambda: left == right,
            "!=": lambda: left != right,
            "<": lambda: left < right,
            "<=": lambda: left <= right,
            ">": lambda: left > right,
            ">=": lambda: left >= right,
            "contains": lambda: right in left,
            "starts_with": lambda: left.startswith(right),
        }
        return bool(tests[clause.operator.value]())

    def value(self, operand: Any, environment: Environment) -> Any:
        if isinstance(operand, PropertyUse):
            bound = environment[operand.variable]
            if isinstance(bound, NaiveEdge):
                return bound.values[operand.property]
            return self.graph.nodes[bound[0]][bound[1]][operand.property]
        if isinstance(operand, NodeUse):
            return environment[operand.variable][1]
        found = evaluate(operand, self.params, self.now)
        return list(found) if isinstance(found, tuple) else found

    # ---- return ----

    def ordered(self, found: list[Environment]) -> list[dict[str, Any]]:
        read = self.read
        names = [name for name, _ in (*read.variables, *read.edge_variables) if not name.startswith("#")]
        if read.order:
            names.sort()
        found.sort(key=lambda each: [_id(each[name]) for name in names])
        rows = [(each, {c.name: self.value(c.value, each) for c in read.columns}) for each in found]
        for key in reversed(read.order):
            if isinstance(key, ColumnKey):
                name = read.columns[key.index].name
                rows.sort(key=lambda row: _sortable(row[1][name]), reverse=key.descending)
            else:
                used = key.property
                rows.sort(key=lambda row: _sortable(self.value(used, row[0])), reverse=key.descending)
        return [row for _, row in rows]

    def grouped(self, found: list[Environment]) -> list[dict[str, Any]]:
        keys = [c for c in self.read.columns if not isinstance(c.value, Aggregate)]
        groups: dict[str, list[Environment]] = {}
        for each in found:
            groups.setdefault(repr([_key(self.value(c.value, each)) for c in keys]), []).append(each)
        if not keys and not groups:
            groups["[]"] = []
        rows = []
        for members in groups.values():
            row = {}
            for column in self.read.columns:
                if isinstance(column.value, Aggregate):
                    values = [self.value(column.value.argument, each) for each in members]
                    row[column.name] = _aggregate(column.value.function.value, values)
                else:
                    row[column.name] = _key(self.value(column.value, members[0]))
            rows.append(row)
        rows.sort(key=lambda row: [_sortable(row[c.name]) for c in keys])
        for key in reversed(self.read.order):
            assert isinstance(key, ColumnKey)
            name = self.read.columns[key.index].name
            rows.sort(key=lambda row: _sortable(row[name]), reverse=key.descending)
        return rows


def _id(bound: Any) -> str:
    return bound.id if isinstance(bound, NaiveEdge) else bound[1]


def _key(value: Any) -> Any:
    return value + 0.0 if isinstance(value, float) else value


def _sortable(value: Any) -> tuple[int, Any]:
    """Nulls before everything; lists by their text."""
    return (0, 0) if value is None else (1, str(value) if isinstance(value, list) else value)


def _aggregate(function: str, values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    if function == "count":
        return len(known)
    if not known:
        return None
    if function in ("min", "max"):
        return min(known) if function == "min" else max(known)
    total = float(sum(sorted(known)))
    return total if function == "sum" else total / len(known)
