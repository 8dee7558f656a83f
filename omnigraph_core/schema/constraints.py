"""Constraints: from what was written to `Key`, `Unique`, `Index`, `Range`, `Check`.

A bare `@key` on a property and `@key(p)` in the body end up as the same record and
pass the same checks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from omnigraph_core.records import dataclass
from omnigraph_core.schema.annotations import CONSTRAINT_ANNOTATIONS, Place, unsupported_type
from omnigraph_core.schema.lexer import Kind, Token, string_value
from omnigraph_core.schema.limits import RANGE_BOUND_DIGITS_MAX, RANGE_BOUND_MAX, RANGE_BOUND_MIN
from omnigraph_core.schema.model import (
    DST_COLUMN,
    SRC_COLUMN,
    Check,
    Constraint,
    Index,
    Key,
    Property,
    Range,
    Scalar,
    Unique,
    canonical_bound,
    constraint_order,
)
from omnigraph_core.schema.source import SourceText, Span, parse_error
from omnigraph_core.schema.syntax import (
    BoundNumber,
    ConstraintArgument,
    ConstraintDecl,
    PropertyDecl,
    RangeBounds,
)

_NODE_ONLY = frozenset({"key", "range", "check"})
_EDGE_COLUMNS = frozenset({SRC_COLUMN, DST_COLUMN})


@dataclass(frozen=True, slots=True)
class Stated:
    """A constraint with the places to point at: the whole, and each column in `columns`."""

    word: str
    constraint: Constraint
    span: Span
    columns: tuple[tuple[str, Span], ...]

    def moved_to(self, span: Span) -> Stated:
        """The same constraint, blamed on another place: the `implements` that brought it in."""
        return Stated(self.word, self.constraint, span, tuple((name, span) for name, _ in self.columns))


def from_property(decl: PropertyDecl) -> tuple[Stated, ...]:
    """The constraints a property states by bare `@key`, `@unique`, `@index`."""
    name = decl.name.text
    return tuple(
        Stated(
            annotation.name.text,
            _columns_constraint(annotation.name.text, (name,)),
            annotation.span,
            ((name, annotation.span),),
        )
        for annotation in decl.annotations
        if annotation.name.text in CONSTRAINT_ANNOTATIONS
    )


def from_body(source: SourceText, decl: ConstraintDecl, place: Place) -> Stated:
    """A body constraint; its columns are not looked up yet."""
    word = decl.word.text
    if place.kind == "edge" and word in _NODE_ONLY:
        raise parse_error(source, decl.span, f"@{word} constraint is not supported on edges ({place})")
    if word == "range":
        return _range(source, decl, place)
    if word == "check":
        return _check(source, decl)
    columns = tuple(_property_name(source, argument) for argument in decl.arguments)
    names = tuple(token.text for token in columns)
    seen: set[str] = set()
    for token in columns:
        if token.text in seen:
            reason = f"@{word} on {place.path} names property '{token.text}' more than once"
            raise parse_error(source, token.span, reason)
        seen.add(token.text)
    constraint = _columns_constraint(word, names)
    return Stated(word, constraint, decl.span, tuple((token.text, token.span) for token in columns))


def resolve(
    source: SourceText, stated: Sequence[Stated], place: Place, properties: Mapping[str, Property]
) -> tuple[Constraint, ...]:
    """The constraints of one type in canonical order, checked against its properties.

    The same thing said twice counts once, except for keys, of which there is one.
    """
    key_seen = False
    for item in stated:
        if item.word == "key":
            if key_seen:
                reason = (
                    f"{place.kind} type {place.path} has multiple @key constraints; only one is supported"
                )
                raise parse_error(source, item.span, reason)
            key_seen = True
        for name, span in item.columns:
            _check_column(source, item.word, name, span, place, properties)
    return tuple(sorted({item.constraint for item in stated}, key=constraint_order))


def _check_column(
    source: SourceText, word: str, name: str, span: Span, place: Place, properties: Mapping[str, Property]
) -> None:
    prop = properties.get(name)
    if prop is None:
        if place.kind == "edge" and name in _EDGE_COLUMNS:
            return
        raise parse_error(source, span, f"@{word} on {place.path} references unknown property '{name}'")
    type_ = prop.type
    path = f"{place.path}.{name}"
    if word == "range":
        if type_.is_list or not type_.scalar.is_numeric:
            raise parse_error(source, span, f"@range on {path} requires a numeric type, got {type_}")
    elif word == "check":
        if type_.is_list or type_.scalar is not Scalar.STRING:
            raise parse_error(source, span, f"@check on {path} requires String type, got {type_}")
    else:
        refusal = unsupported_type(word, type_)
        if refusal is not None:
            raise parse_error(source, span, f"@{word} is not supported on {refusal} property {path}")
        if word == "key" and type_.nullable:
            raise parse_error(source, span, f"@key property {path} cannot be nullable")


def _columns_constraint(word: str, columns: tuple[str, ...]) -> Constraint:
    if word == "key":
        return Key(columns)
    ordered = tuple(sorted(columns))
    return Unique(ordered) if word == "unique" else Index(ordered)


def _property_name(source: SourceText, argument: ConstraintArgument) -> Token:
    if isinstance(argument, Token) and argument.kind is Kind.IDENT and argument.text not in ("true", "false"):
        return argument
    raise parse_error(source, argument.span, "expected property name in constraint")


def _check(source: SourceText, decl: ConstraintDecl) -> Stated:
    if len(decl.arguments) < 2:
        raise parse_error(source, decl.span, "@check requires property name and pattern")
    _refuse_more_than_two(source, decl)
    column = _property_name(source, decl.arguments[0])
    pattern = decl.arguments[1]
    if not isinstance(pattern, Token) or pattern.kind is not Kind.STRING:
        raise parse_error(source, pattern.span, "expected string argument in constraint")
    constraint = Check(column.text, string_value(source, pattern))
    return Stated("check", constraint, decl.span, ((column.text, column.span),))


def _range(source: SourceText, decl: ConstraintDecl, place: Place) -> Stated:
    if len(decl.arguments) < 2:
        raise parse_error(source, decl.span, "@range requires property name and bounds")
    _refuse_more_than_two(source, decl)
    column = _property_name(source, decl.arguments[0])
    bounds = decl.arguments[1]
    if not isinstance(bounds, RangeBounds):
        raise parse_error(source, bounds.span, "expected range bounds (min..max) in @range constraint")
    low = None if bounds.low is None else _bound(source, bounds.low)
    high = None if bounds.high is None else _bound(source, bounds.high)
    if low is not None and high is not None and low > high:
        reason = f"@range on {place.path}.{column.text}: min ({low}) exceeds max ({high})"
        raise parse_error(source, bounds.span, reason)
    return Stated("range", Range(column.text, low, high), decl.span, ((column.text, column.span),))


def _refuse_more_than_two(source: SourceText, decl: ConstraintDecl) -> None:
    if len(decl.arguments) > 2:
        reason = f"@{decl.word.text} takes two arguments, got {len(decl.arguments)}"
        raise parse_error(source, decl.arguments[2].span, reason)


def _bound(source: SourceText, number: BoundNumber) -> int | float:
    """The number, as an `int` when it is whole, so that `1.0..` and `1..` are one range."""
    digits = number.digits.text
    if number.digits.kind is Kind.INTEGER:
        significant = digits.lstrip("0") or "0"
        # The length is looked at first: Python refuses to convert very long digit strings.
        value = int(significant) if len(significant) <= RANGE_BOUND_DIGITS_MAX else RANGE_BOUND_MAX + 1
        value = -value if number.negative else value
        if not RANGE_BOUND_MIN <= value <= RANGE_BOUND_MAX:
            raise parse_error(source, number.span, "@range bound does not fit in 64 bits")
        return value
    real = -float(digits) if number.negative else float(digits)
    if not math.isfinite(real):
        raise parse_error(source, number.span, "@range bound is not a finite number")
    return canonical_bound(real)
