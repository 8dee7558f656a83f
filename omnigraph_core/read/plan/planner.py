"""From the clauses of a match to steps: where to start, which edges to follow next.

The order changes nothing about the answer: a match is a join of sets, whatever is
evaluated first. So it begins where the fewest rows are expected and always takes the
step that adds the fewest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from omnigraph_core.query.checked import (
    Absence,
    Comparison,
    Direction,
    EdgeTraversal,
    MatchClause,
    PropertyUse,
)
from omnigraph_core.query.syntax import Operator
from omnigraph_core.read.plan.conditions import Conditions, Run, sort_clauses, variables_of
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
from omnigraph_core.schema import EntityType, NodeType, Schema
from omnigraph_core.tables.keys import ROW_ID
from omnigraph_core.topology.selection import EdgeSelection

_REVERSED = {
    Direction.FORWARD: Direction.BACKWARD,
    Direction.BACKWARD: Direction.FORWARD,
    Direction.BOTH: Direction.BOTH,
}

# How much of a type a condition is expected to let through.
_EQUAL_PART = 0.01
_OTHER_PART = 0.3

# Beyond so many hops the guess is as good as any, and would not fit a float.
_HOPS_COUNTED_MAX = 8


class Planner:
    """Plans the matches of one query. `carried` are properties to read along with an entity."""

    def __init__(
        self,
        schema: Schema,
        run: Run,
        row_count: Callable[[str], int],
        carried: Mapping[str, Sequence[str]],
    ) -> None:
        self._schema = schema
        self._run = run
        self._row_count = row_count
        self._carried = carried

    def plan(self, clauses: Sequence[MatchClause], outer: Mapping[str, EntityType]) -> MatchPlan:
        """The steps of a match in which the variables of `outer` are bound before."""
        apart, connected = _components(clauses, set(outer)) if outer else ([], clauses)
        conditions = sort_clauses(connected, self._run)
        match = _MatchSteps(self, conditions, outer)
        steps = match.made()
        if conditions.impossible:
            steps = [Nothing(), *steps]
        required = [Require(self.plan(part, {})) for part in apart]
        return MatchPlan((*required, *steps), match.bound)

    def selection(self, traversal: EdgeTraversal, conditions: Conditions, *, reverse: bool) -> EdgeSelection:
        direction = _REVERSED[traversal.direction] if reverse else traversal.direction
        name = traversal.edge_variable
        where = None if name is None else conditions.where_of(name)
        columns = () if name is None else self.carried(name)
        return EdgeSelection(traversal.edge, direction, where, traversal.per_edge, columns)

    def node(self, name: str) -> NodeType:
        return self._schema.node(name)

    def rows(self, entity: EntityType) -> int:
        return self._row_count(entity.table_key)

    def carried(self, variable: str) -> tuple[str, ...]:
        return tuple(self._carried.get(variable, ()))


class _MatchSteps:
    """The state of planning one match: what is bound, what is left to do."""

    def __init__(self, planner: Planner, conditions: Conditions, outer: Mapping[str, EntityType]) -> None:
        self._planner = planner
        self._conditions = conditions
        self.bound: dict[str, EntityType] = dict(outer)
        self._traversals = list(conditions.traversals)
        self._comparisons = list(conditions.comparisons)
        self._absences = list(conditions.absences)
        self._types = {name: node for name, node in conditions.nodes.items() if node is not None}
        for traversal in conditions.traversals:
            self._types.setdefault(traversal.left, planner.node(traversal.left_type))
            self._types.setdefault(traversal.right, planner.node(traversal.right_type))
        self._existence_is_enough = bool(outer)
        self._tested: set[str] = set()
        self._sizes: dict[str, float] = {}
        self._steps: list[Step] = []

    def made(self) -> list[Step]:
        for variable, entity in list(self.bound.items()):
            self._restrict(variable, entity)
        self._use_what_is_bound()
        while True:
            traversal = self._next_traversal()
            if traversal is not None:
                self._follow(traversal)
            elif (start := self._next_start()) is not None:
                self._scan(start)
            else:
                break
            self._use_what_is_bound()
        left = [*self._traversals, *self._comparisons, *self._absences]
        assert not left, f"not planned: {left}"
        return self._steps

    def _use_what_is_bound(self) -> None:
        """Filters and negations come as early as they can: they only make the result smaller.

        Closing a cycle may bind an edge variable, on which further filters wait.
        """
        self._compare()
        for traversal in [each for each in self._traversals if {each.left, each.right} <= self.bound.keys()]:
            self._follow(traversal)
            self._compare()
        for absence in [each for each in self._absences if set(each.outer) <= self.bound.keys()]:
            self._absences.remove(absence)
            outer = {name: self.bound[name] for name in absence.outer}
            self._steps.append(Exclude(absence.outer, self._planner.plan(absence.clauses, outer)))

    def _compare(self) -> None:
        for comparison in [each for each in self._comparisons if variables_of(each) <= self.bound.keys()]:
            self._comparisons.remove(comparison)
            self._steps.append(Compare(comparison))

    def _next_traversal(self) -> EdgeTraversal | None:
        ready = [each for each in self._traversals if each.left in self.bound or each.right in self.bound]
        return min(ready, key=self._fan_out, default=None)

    def _fan_out(self, traversal: EdgeTraversal) -> float:
        """Rows expected for each row there is."""
        near = self._types.get(traversal.left if traversal.left in self.bound else traversal.right)
        rows = self._planner.rows(traversal.edge)
        each = rows / max(1, self._planner.rows(near)) if near is not None else float(rows)
        target = traversal.right if traversal.left in self.bound else traversal.left
        return max(each, 0.01) ** min(traversal.max_hops, _HOPS_COUNTED_MAX) * self._part(target)

    def _follow(self, traversal: EdgeTraversal) -> None:
        self._traversals.remove(traversal)
        reverse = traversal.left not in self.bound
        source, target = traversal.left, traversal.right
        if reverse:
            source, target = target, source
        closes = target in self.bound
        selection = self._planner.selection(traversal, self._conditions, reverse=reverse)
        tests = self._existence_is_enough and not closes and self._is_unused(traversal, target)
        self._steps.append(Expand(traversal, source, target, selection, closes, tests))
        if tests:
            self._tested.add(target)
            return
        if traversal.edge_variable is not None:
            self.bound[traversal.edge_variable] = traversal.edge
        if not closes:
            self.bound[target] = self._types[target]
            self._restrict(target, self._types[target])

    def _is_unused(self, traversal: EdgeTraversal, target: str) -> bool:
        """Does nothing else in this match speak of what the traversal leads to, or of its edge?"""
        conditions = self._conditions
        names = {target, traversal.edge_variable}
        return traversal.min_hops == 1 and not (
            target in conditions.where
            or target in conditions.searches
            or any(variables_of(each) & names for each in conditions.comparisons)
            or any(set(each.outer) & names for each in conditions.absences)
            or any(
                each is not traversal and {each.left, each.right} & names for each in conditions.traversals
            )
        )

    def _next_start(self) -> str | None:
        done = self.bound.keys() | self._tested
        waiting = [name for name in self._conditions.nodes if name not in done]
        return min(waiting, key=lambda name: (not self._joins(name), self._expected(name)), default=None)

    def _scan(self, variable: str) -> None:
        node = self._types[variable]
        joins = self._joins(variable)
        for comparison in joins:
            self._comparisons.remove(comparison)
        where, searches = self._conditions.where_of(variable), self._conditions.searches_of(variable)
        carried = tuple(
            name
            for name in self._planner.carried(variable)
            if name == ROW_ID or node.find_property(name) is not None
        )
        estimate = max(1, round(self._expected(variable)))
        single = self._is_single(variable)
        ranges = self._conditions.ranges.get(variable, {})
        scan = ScanNodes(variable, node, where, searches, joins, carried, estimate, single)
        scan = replace(
            scan,
            ranges=tuple((name, " AND ".join(f"({sql})" for sql in texts)) for name, texts in ranges.items()),
            equal=frozenset(self._conditions.equalities.get(variable, ())),
            sole=self._conditions.sole_text(variable),
        )
        self._steps.append(scan)
        self.bound[variable] = node

    def _joins(self, variable: str) -> tuple[Comparison, ...]:
        """Equalities between properties of this variable and of one that is bound, of one type."""
        return tuple(
            comparison
            for comparison in self._comparisons
            if comparison.operator is Operator.EQ
            and isinstance(comparison.left, PropertyUse)
            and isinstance(comparison.right, PropertyUse)
            and comparison.left.type.scalar is comparison.right.type.scalar
            and variable in variables_of(comparison)
            and len(variables_of(comparison)) == 2
            and variables_of(comparison) - {variable} <= self.bound.keys()
        )

    def _expected(self, variable: str) -> float:
        if variable not in self._sizes:
            self._sizes[variable] = self._planner.rows(self._types[variable]) * self._part(variable)
        return self._sizes[variable]

    def _part(self, variable: str) -> float:
        """The share of a type that the conditions on a variable are expected to leave."""
        node = self._types[variable]
        equal = self._conditions.equalities.get(variable, set())
        if self._is_single(variable):
            return 1 / max(1, self._planner.rows(node))
        others = len(self._conditions.where.get(variable, ())) - len(equal)
        others += 2 * len(self._conditions.searches.get(variable, ()))
        return float(_EQUAL_PART ** len(equal) * _OTHER_PART ** max(0, others))

    def _is_single(self, variable: str) -> bool:
        key = self._types[variable].key
        return key is not None and set(key.columns) <= self._conditions.equalities.get(variable, set())

    def _restrict(self, variable: str, entity: EntityType) -> None:
        where, searches = self._conditions.where_of(variable), self._conditions.searches_of(variable)
        if where is not None or searches:
            self._steps.append(Restrict(variable, entity, where, searches))


def _components(
    clauses: Sequence[MatchClause], outer: set[str]
) -> tuple[list[list[MatchClause]], list[MatchClause]]:
    """The clauses in groups that share no variable, and those that are about `outer`."""
    groups: list[tuple[set[str], list[MatchClause]]] = []
    for clause in clauses:
        names = clause_variables(clause)
        if not names & outer and isinstance(clause, Comparison) and not names:
            names = set(outer)
        touching = [group for group in groups if group[0] & names or (group[0] & outer and names & outer)]
        members = [member for group in touching for member in group[1]]
        groups = [group for group in groups if group not in touching]
        groups.append((names.union(*(group[0] for group in touching)), [*members, clause]))
    apart = [members for names, members in groups if not names & outer]
    connected = [clause for names, members in groups if names & outer for clause in members]
    return apart, connected


def clause_variables(clause: MatchClause) -> set[str]:
    """The variables a clause speaks of, seen from the match it is in."""
    if isinstance(clause, Absence):
        return set(clause.outer)
    if isinstance(clause, EdgeTraversal):
        return {clause.left, clause.right} | ({clause.edge_variable} if clause.edge_variable else set())
    if isinstance(clause, Comparison):
        return variables_of(clause)
    variable = clause.variable if hasattr(clause, "variable") else clause.search.variable
    return {variable}
