"""Checked queries: what an executor works with.

Every name is resolved and every type known, so nothing here needs the schema or the
source again. Variables are plain names without `$`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from enum import StrEnum

from omnigraph_core.query.syntax import AggregateFunction, Operator, Parameter, TextFunction
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EdgeType, NodeType, PropertyType, Scalar

# What a value is in Python. Date-times are aware and in whole milliseconds of UTC; a
# vector is a tuple of floats; null is None.
PlainValue = str | bool | int | float | date | datetime | None
Plain = PlainValue | tuple[PlainValue, ...]

ID_TYPE = PropertyType(Scalar.STRING)
NOW_TYPE = PropertyType(Scalar.DATE_TIME)
SCORE_TYPE = PropertyType(Scalar.F64, nullable=True)


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. `type` is the literal's own type, not that of what it is compared with."""

    value: Plain
    type: PropertyType


@dataclass(frozen=True, slots=True)
class ParameterUse:
    name: str
    type: PropertyType


@dataclass(frozen=True, slots=True)
class CurrentTime:
    """`now()`: the instant the run began."""

    @property
    def type(self) -> PropertyType:
        return NOW_TYPE


# What can be known before any row is read; see `values.evaluate`.
ValueExpression = Constant | ParameterUse | CurrentTime


@dataclass(frozen=True, slots=True)
class PropertyUse:
    """A property of a bound node, or of a bound edge."""

    variable: str
    property: str
    type: PropertyType
    of_edge: bool = False


@dataclass(frozen=True, slots=True)
class NodeUse:
    """A bare node variable: the node's id."""

    variable: str
    node: NodeType

    @property
    def type(self) -> PropertyType:
        return ID_TYPE


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A full-text search over one String property of a node variable.

    `max_edits` is set for `fuzzy` only.
    """

    function: TextFunction
    variable: str
    property: str
    query: ValueExpression
    max_edits: ValueExpression | None = None


@dataclass(frozen=True, slots=True)
class NearestSearch:
    """A vector search. `query` is a vector, or a text to be embedded, with `model` if it was recorded."""

    variable: str
    property: str
    dimension: int
    query: ValueExpression
    model: str | None = None


@dataclass(frozen=True, slots=True)
class FusedSearch:
    """Reciprocal rank fusion; `k` is None for the default."""

    first: NearestSearch | TextSearch
    second: NearestSearch | TextSearch
    k: ValueExpression | None = None


RankedSearch = NearestSearch | TextSearch | FusedSearch


@dataclass(frozen=True, slots=True)
class Score:
    """How well a row answers a search; null where it does not."""

    search: RankedSearch

    @property
    def type(self) -> PropertyType:
        return SCORE_TYPE


Operand = ValueExpression | PropertyUse | NodeUse


@dataclass(frozen=True, slots=True)
class Aggregate:
    function: AggregateFunction
    argument: Operand
    type: PropertyType


Returned = Operand | Score | Aggregate


@dataclass(frozen=True, slots=True)
class PropertyTest:
    """`name: value` in binding braces: equality, or membership if the property is a list."""

    property: str
    type: PropertyType
    value: ValueExpression


@dataclass(frozen=True, slots=True)
class NodeBinding:
    """The variable ranges over the nodes of a type that pass every test.

    A variable bound several times has several of these, all of which hold.
    """

    variable: str
    node: NodeType
    tests: tuple[PropertyTest, ...]


class Direction(StrEnum):
    """Which way edges are followed from the left end of a traversal."""

    FORWARD = "forward"
    BACKWARD = "backward"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class EdgeTraversal:
    """Rows where the right node is reached from the left one in `min_hops` to `max_hops`.

    Without `edge_variable` and `per_edge`, each right node counts once per left row.
    With `per_edge` there is a row per edge; `edge_variable` is None for `$_:edge`.
    """

    left: str
    right: str
    edge: EdgeType
    direction: Direction
    left_type: str
    right_type: str
    min_hops: int = 1
    max_hops: int = 1
    per_edge: bool = False
    edge_variable: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Holds when true; null on either side is not true. `contains` on a list is membership."""

    left: Operand
    operator: Operator
    right: Operand


@dataclass(frozen=True, slots=True)
class TextMatch:
    """Only rows the search finds are kept."""

    search: TextSearch


@dataclass(frozen=True, slots=True)
class Absence:
    """`not { … }`: no way to satisfy the clauses. `outer` are the variables they share with outside."""

    clauses: tuple[MatchClause, ...]
    outer: tuple[str, ...]


MatchClause = NodeBinding | EdgeTraversal | Comparison | TextMatch | Absence


@dataclass(frozen=True, slots=True)
class Column:
    """A returned column. `short_name` is what lint calls it."""

    name: str
    value: Returned
    short_name: str

    @property
    def type(self) -> PropertyType:
        return self.value.type


@dataclass(frozen=True, slots=True)
class ColumnKey:
    """Order by a returned column."""

    index: int
    descending: bool = False


@dataclass(frozen=True, slots=True)
class PropertyKey:
    """Order by a property, returned or not."""

    property: PropertyUse
    descending: bool = False


OrderKey = ColumnKey | PropertyKey


@dataclass(frozen=True, slots=True)
class CheckedRead:
    """A read. `variables` are the nodes bound outside negations, in order of appearance.

    Anonymous variables are among them under names no one can write, which begin with
    `#`. If `ranking` is set it is the whole order and `order` is empty. If `grouped`,
    the columns that are no aggregates are the grouping key.
    """

    name: str
    parameters: tuple[Parameter, ...]
    variables: tuple[tuple[str, NodeType], ...]
    edge_variables: tuple[tuple[str, EdgeType], ...]
    clauses: tuple[MatchClause, ...]
    columns: tuple[Column, ...]
    grouped: bool
    ranking: RankedSearch | None
    order: tuple[OrderKey, ...]
    limit: int | None


@dataclass(frozen=True, slots=True)
class Assigned:
    """A property and what to set it to; see `values.assigned_value`."""

    property: str
    type: PropertyType
    value: ValueExpression


@dataclass(frozen=True, slots=True)
class Condition:
    """`column op value`; `column` is physical: `from` and `to` of an edge are `src` and `dst` here."""

    column: str
    type: PropertyType
    operator: Operator
    value: ValueExpression


@dataclass(frozen=True, slots=True)
class InsertNode:
    """All required properties are assigned; those not mentioned are null."""

    node: NodeType
    assignments: tuple[Assigned, ...]

    @property
    def entity(self) -> NodeType:
        return self.node


@dataclass(frozen=True, slots=True)
class InsertEdge:
    """`source` and `target` are ids of nodes of the edge's two types."""

    edge: EdgeType
    source: ValueExpression
    target: ValueExpression
    assignments: tuple[Assigned, ...]

    @property
    def entity(self) -> EdgeType:
        return self.edge


@dataclass(frozen=True, slots=True)
class UpdateNode:
    """No assignment names a member of the key."""

    node: NodeType
    assignments: tuple[Assigned, ...]
    condition: Condition

    @property
    def entity(self) -> NodeType:
        return self.node


@dataclass(frozen=True, slots=True)
class DeleteEntity:
    """Deletes nodes (and their edges of every type) or edges."""

    entity: NodeType | EdgeType
    condition: Condition


Statement = InsertNode | InsertEdge | UpdateNode | DeleteEntity


@dataclass(frozen=True, slots=True)
class CheckedMutation:
    """A mutation: only inserts and updates, or only deletes."""

    name: str
    parameters: tuple[Parameter, ...]
    statements: tuple[Statement, ...]

    @property
    def deletes(self) -> bool:
        return any(isinstance(statement, DeleteEntity) for statement in self.statements)


CheckedQuery = CheckedRead | CheckedMutation


def all_clauses(clauses: tuple[MatchClause, ...]) -> Iterator[MatchClause]:
    """The clauses and, behind each negation, those inside it."""
    for clause in clauses:
        yield clause
        if isinstance(clause, Absence):
            yield from all_clauses(clause.clauses)
