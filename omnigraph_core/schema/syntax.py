"""The `.pg` syntax tree: what was written and where, nothing decided yet.

Names and literals stay tokens, so that a later check can point at the very
characters it objects to.
"""

from __future__ import annotations

from omnigraph_core.records import dataclass
from omnigraph_core.schema.lexer import Token
from omnigraph_core.schema.source import Span


@dataclass(frozen=True, slots=True)
class AnnotationDecl:
    """`@name`, `@name(value)` or `@name(value, argument=literal)`."""

    at: Token
    name: Token
    value: Token | None
    arguments: tuple[tuple[Token, Token], ...]

    @property
    def span(self) -> Span:
        return Span(self.at.start, self.name.end)


@dataclass(frozen=True, slots=True)
class BoundNumber:
    """One end of a range; the sign is its own token."""

    negative: bool
    digits: Token
    span: Span


@dataclass(frozen=True, slots=True)
class RangeBounds:
    """`lo..hi`, `lo..` or `..hi`; at least one end is there."""

    low: BoundNumber | None
    high: BoundNumber | None
    span: Span


ConstraintArgument = Token | RangeBounds


@dataclass(frozen=True, slots=True)
class ConstraintDecl:
    """`@key(…)`, `@unique(…)`, `@index(…)`, `@range(…)` or `@check(…)` in a body."""

    at: Token
    word: Token
    arguments: tuple[ConstraintArgument, ...]

    @property
    def span(self) -> Span:
        return Span(self.at.start, self.word.end)


@dataclass(frozen=True, slots=True)
class TypeDecl:
    """A property type; `base` is the base spelling, `Vector` or `enum`."""

    base: Token
    nullable: bool
    is_list: bool
    enum_values: tuple[Token, ...]
    dimension: Token | None
    span: Span


@dataclass(frozen=True, slots=True)
class PropertyDecl:
    name: Token
    type: TypeDecl
    annotations: tuple[AnnotationDecl, ...]


@dataclass(frozen=True, slots=True)
class BodyDecl:
    """Properties and constraints of one `{…}`, each in the order written."""

    properties: tuple[PropertyDecl, ...] = ()
    constraints: tuple[ConstraintDecl, ...] = ()


@dataclass(frozen=True, slots=True)
class InterfaceDecl:
    name: Token
    body: BodyDecl


@dataclass(frozen=True, slots=True)
class NodeDecl:
    name: Token
    annotations: tuple[AnnotationDecl, ...]
    implements: tuple[Token, ...]
    body: BodyDecl


@dataclass(frozen=True, slots=True)
class CardinalityDecl:
    minimum: Token
    maximum: Token | None
    span: Span


@dataclass(frozen=True, slots=True)
class EdgeDecl:
    name: Token
    from_type: Token
    to_type: Token
    cardinality: CardinalityDecl | None
    annotations: tuple[AnnotationDecl, ...]
    body: BodyDecl


Declaration = InterfaceDecl | NodeDecl | EdgeDecl


@dataclass(frozen=True, slots=True)
class SchemaFile:
    declarations: tuple[Declaration, ...]
