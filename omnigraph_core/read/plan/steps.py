"""The steps of a match in execution order, and how they read for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from omnigraph_core.query.checked import (
    Comparison,
    Constant,
    CurrentTime,
    EdgeTraversal,
    NodeUse,
    Operand,
    ParameterUse,
    PropertyUse,
    TextSearch,
)
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, NodeType
from omnigraph_core.topology.selection import EdgeSelection


@dataclass(frozen=True, slots=True)
class ScanNodes:
    """Every node of a type that passes, beside every row there is so far.

    `joined` are equalities with what is bound already; they keep that from being a product.
    `columns` are properties worth reading in the same pass.
    """

    variable: str
    node: NodeType
    where: str | None
    searches: tuple[TextSearch, ...] = ()
    joined: tuple[Comparison, ...] = ()
    columns: tuple[str, ...] = ()
    estimate: int = 0
    is_single: bool = False
    """The key is given, so that there is one at most."""
    ranges: tuple[tuple[str, str], ...] = ()
    """Properties that are to lie in a range, and the conditions as SQL."""
    equal: frozenset[str] = frozenset()
    """Properties that are to equal a value."""
    sole: tuple[str, str] | None = None
    """A property and the text it is to equal, if that is the whole filter."""

    def __str__(self) -> str:
        text = f"scan {self.node.name} as {shown(self.variable)}{_conditions(self.where, self.searches)}"
        for comparison in self.joined:
            text += f" join on {comparison_text(comparison)}"
        return f"{text} [about {self.estimate:,} rows]"


@dataclass(frozen=True, slots=True)
class Restrict:
    """Only rows whose entity, bound before, passes."""

    variable: str
    entity: EntityType
    where: str | None
    searches: tuple[TextSearch, ...] = ()

    def __str__(self) -> str:
        return f"keep {shown(self.variable)}: {self.entity.name}{_conditions(self.where, self.searches)}"


@dataclass(frozen=True, slots=True)
class Expand:
    """Follow edges from `source`. If `closes`, `target` is bound already and must be what is reached.

    If `tests`, nobody asks what is reached: a row stays, once, if there is anything.
    """

    traversal: EdgeTraversal
    source: str
    target: str
    selection: EdgeSelection
    closes: bool
    tests: bool = False

    def __str__(self) -> str:
        traversal = self.traversal
        hops = f"{{{traversal.min_hops},{traversal.max_hops}}}" if traversal.max_hops > 1 else ""
        verb = "close" if self.closes else "test" if self.tests else "expand"
        way = f"{shown(self.source)} → {shown(self.target)}"
        each = " per edge" if traversal.per_edge else ""
        where = f" where {self.selection.where}" if self.selection.where else ""
        return f"{verb} {way} by {traversal.edge.name}{hops} {self.selection.direction}{each}{where}"


@dataclass(frozen=True, slots=True)
class Compare:
    """Only rows for which a comparison of two of their values holds."""

    comparison: Comparison

    def __str__(self) -> str:
        return f"filter {comparison_text(self.comparison)}"


@dataclass(frozen=True, slots=True)
class Exclude:
    """Only rows for which the inner match, given these variables, has no solution."""

    outer: tuple[str, ...]
    inner: MatchPlan

    def __str__(self) -> str:
        return f"without, for each {', '.join(map(shown, self.outer))}"


@dataclass(frozen=True, slots=True)
class Require:
    """No rows unless the inner match, which shares nothing with them, has a solution."""

    inner: MatchPlan

    def __str__(self) -> str:
        return "only if there is any"


@dataclass(frozen=True, slots=True)
class Nothing:
    """A condition that can never hold: no rows, and nothing is read."""

    def __str__(self) -> str:
        return "nothing can match"


Step = ScanNodes | Restrict | Expand | Compare | Exclude | Require | Nothing


@dataclass(frozen=True, slots=True)
class MatchPlan:
    """`types` are what the variables of this match are bound to, those from around it included.

    A name may mean something else inside a negation than it does after it.
    """

    steps: tuple[Step, ...]
    types: Mapping[str, EntityType]

    def lines(self, depth: int = 0) -> Iterator[str]:
        for step in self.steps:
            yield "  " * depth + str(step)
            if isinstance(step, Exclude | Require):
                yield from step.inner.lines(depth + 1)


def shown(variable: str) -> str:
    """A variable as a query writes it; anonymous ones have names nobody can write."""
    return "$_" if variable.startswith("#") else f"${variable}"


def comparison_text(comparison: Comparison) -> str:
    return f"{_operand(comparison.left)} {comparison.operator} {_operand(comparison.right)}"


def _operand(operand: Operand) -> str:
    if isinstance(operand, PropertyUse):
        return f"{shown(operand.variable)}.{operand.property}"
    if isinstance(operand, NodeUse):
        return shown(operand.variable)
    if isinstance(operand, ParameterUse):
        return f"${operand.name}"
    if isinstance(operand, CurrentTime):
        return "now()"
    assert isinstance(operand, Constant)
    return repr(operand.value)


def _conditions(where: str | None, searches: tuple[TextSearch, ...]) -> str:
    parts = [] if where is None else [where]
    parts += [f"{search.function}({search.property}, …)" for search in searches]
    return f" where {' and '.join(parts)}" if parts else ""
