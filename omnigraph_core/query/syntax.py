"""The `.gq` syntax tree: what was written and where; names are not resolved yet.

Names stay tokens and literals are already values, so that a later check can point at
the very characters it objects to and never parses text again.
"""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum

from omnigraph_core.records import dataclass
from omnigraph_core.schema import PropertyType
from omnigraph_core.schema.lexer import Token
from omnigraph_core.schema.source import SourceText, Span

ANONYMOUS = "_"

ScalarValue = str | bool | int | float | date | datetime


class Operator(StrEnum):
    """How two operands are compared; the text is the spelling in a query."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    CONTAINS = "contains"
    STARTS_WITH = "starts_with"


class TextFunction(StrEnum):
    SEARCH = "search"
    FUZZY = "fuzzy"
    MATCH_TEXT = "match_text"
    BM25 = "bm25"


class AggregateFunction(StrEnum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`; `name` has no `$`. `$_` is anonymous: each use is a variable of its own."""

    name: str
    span: Span

    @property
    def is_anonymous(self) -> bool:
        return self.name == ANONYMOUS

    def __str__(self) -> str:
        return f"${self.name}"


@dataclass(frozen=True, slots=True)
class Literal:
    """A scalar constant. Date-times are aware, in UTC, in whole milliseconds."""

    value: ScalarValue
    span: Span


@dataclass(frozen=True, slots=True)
class ListLiteral:
    items: tuple[Literal | ListLiteral, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Now:
    """`now()`: one instant for the whole run of a query."""

    span: Span


Value = Literal | ListLiteral | Variable | Now


@dataclass(frozen=True, slots=True)
class PropertyAccess:
    variable: Variable
    name: Token

    @property
    def span(self) -> Span:
        return Span(self.variable.span.start, self.name.end)


@dataclass(frozen=True, slots=True)
class AliasUse:
    """A bare word: the name of a returned column."""

    name: Token

    @property
    def span(self) -> Span:
        return self.name.span


@dataclass(frozen=True, slots=True)
class TextCall:
    """`search`, `fuzzy`, `match_text` or `bm25`; only `fuzzy` may have `max_edits`."""

    function: TextFunction
    field: Expression
    query: Expression
    max_edits: Expression | None
    span: Span


@dataclass(frozen=True, slots=True)
class NearestCall:
    field: PropertyAccess
    query: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class RrfCall:
    """Reciprocal rank fusion of two ranked searches."""

    first: NearestCall | TextCall
    second: NearestCall | TextCall
    k: Expression | None
    span: Span


@dataclass(frozen=True, slots=True)
class AggregateCall:
    function: AggregateFunction
    argument: Expression
    span: Span


SearchCall = TextCall | NearestCall | RrfCall
Expression = Value | PropertyAccess | AliasUse | SearchCall | AggregateCall


@dataclass(frozen=True, slots=True)
class PropertyMatch:
    """`name: value` in the braces of a binding."""

    name: Token
    value: Value


@dataclass(frozen=True, slots=True)
class Binding:
    variable: Variable
    type: Token
    matches: tuple[PropertyMatch, ...]

    @property
    def span(self) -> Span:
        return Span(self.variable.span.start, self.type.end)


@dataclass(frozen=True, slots=True)
class HopBounds:
    """`{min,max}`; without a maximum the traversal is unbounded, which the checker refuses."""

    minimum: int
    maximum: int | None
    span: Span


@dataclass(frozen=True, slots=True)
class Traversal:
    """`$left edge $right`, `$left <edge> $right`, either with an edge variable and hop bounds."""

    left: Variable
    edge_variable: Variable | None
    edge: Token
    undirected: bool
    hops: HopBounds | None
    right: Variable

    @property
    def span(self) -> Span:
        return Span(self.left.span.start, self.right.span.end)


@dataclass(frozen=True, slots=True)
class Filter:
    left: Expression
    operator: Operator
    right: Expression

    @property
    def span(self) -> Span:
        return Span(self.left.span.start, self.right.span.end)


@dataclass(frozen=True, slots=True)
class TextClause:
    """A search standing alone: only rows it finds are kept."""

    call: TextCall

    @property
    def span(self) -> Span:
        return self.call.span


@dataclass(frozen=True, slots=True)
class Negation:
    """`not { … }`; `span` is the word."""

    clauses: tuple[Clause, ...]
    span: Span


Clause = Negation | Binding | Traversal | Filter | TextClause


@dataclass(frozen=True, slots=True)
class Projection:
    expression: Expression
    alias: Token | None

    @property
    def span(self) -> Span:
        end = self.expression.span.end if self.alias is None else self.alias.end
        return Span(self.expression.span.start, end)


@dataclass(frozen=True, slots=True)
class Ordering:
    """One key of `order`; `direction` is the word `asc` or `desc` if it was written."""

    expression: Expression
    direction: Token | None

    @property
    def descending(self) -> bool:
        return self.direction is not None and self.direction.text == "desc"


@dataclass(frozen=True, slots=True)
class ReadBody:
    clauses: tuple[Clause, ...]
    projections: tuple[Projection, ...]
    orderings: tuple[Ordering, ...]
    limit: int | None


@dataclass(frozen=True, slots=True)
class Assignment:
    name: Token
    value: Value


@dataclass(frozen=True, slots=True)
class Predicate:
    """`property op value`: the whole `where` of a mutation."""

    name: Token
    operator: Operator
    value: Value

    @property
    def span(self) -> Span:
        return Span(self.name.start, self.value.span.end)


@dataclass(frozen=True, slots=True)
class Insert:
    word: Token
    type: Token
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Update:
    word: Token
    type: Token
    assignments: tuple[Assignment, ...]
    predicate: Predicate


@dataclass(frozen=True, slots=True)
class Delete:
    word: Token
    type: Token
    predicate: Predicate


Mutation = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class MutationBody:
    statements: tuple[Mutation, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """`$name: Type`; the type is final, because a parameter type names nothing of a schema."""

    name: str
    type: PropertyType
    span: Span
    type_span: Span


@dataclass(frozen=True, slots=True)
class Query:
    """One declaration; `name_span` is where a complaint about the whole query points."""

    name: str
    parameters: tuple[Parameter, ...]
    description: str | None
    instruction: str | None
    body: ReadBody | MutationBody
    name_span: Span

    @property
    def is_mutation(self) -> bool:
        return isinstance(self.body, MutationBody)


@dataclass(frozen=True, slots=True)
class QueryFile:
    """All queries of one text, in the order written; no two share a name."""

    source: SourceText
    queries: tuple[Query, ...]
