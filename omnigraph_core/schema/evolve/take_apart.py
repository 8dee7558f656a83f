"""A schema taken apart into facts, each about one thing and merged by itself.

A thing is a type or a property. It goes by a token: its name in the base, or, if the base does not
have it, its name with a plus. So a fact says the same of a thing whatever a side calls it, and
what two sides added under one name is one thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from omnigraph_core.records import dataclass
from omnigraph_core.schema.evolve.identity import Identity, by_name
from omnigraph_core.schema.model import (
    Annotation,
    Check,
    Constraint,
    EdgeType,
    EntityType,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Property,
    Range,
    Schema,
    Unique,
)

Part = tuple[Any, ...]
"""Where a fact belongs: the token of a type first, then what it is about."""

Facts = dict[Part, Any]

NAME, ENDS, CARDINALITY, IMPLEMENTS, ANNOTATION = "name", "ends", "cardinality", "implements", "annotation"
KEY, RANGE, UNIQUE, INDEX, CHECK = "@key", "@range", "@unique", "@index", "@check"
PROPERTY, TYPE, NULLABLE, VALUES = "property", "type", "nullability", "enum values"
EMBED = "embed"


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the types and properties of one schema go by."""

    since_base: Identity

    @classmethod
    def of(cls, since_base: Identity) -> Tokens:
        return cls(since_base)

    @classmethod
    def base(cls, schema: Schema) -> Tokens:
        return cls(by_name(schema, schema))

    def type(self, table_key: str) -> str:
        return self.since_base.types.get(table_key, f"+{table_key}")

    def property(self, table_key: str, name: str) -> str:
        """`id`, `src` and `dst`, which no schema lists, go by a plus like what is new."""
        return self.since_base.properties.get(table_key, {}).get(name, f"+{name}")


def take_apart(schema: Schema, tokens: Tokens) -> Facts:
    """Every fact of a schema."""
    facts: Facts = {}
    for interface in schema.interfaces:
        facts |= dict(_interface(interface))
    for entity in schema.types():
        facts |= dict(_entity(entity, tokens))
    return facts


def interface_token(name: str) -> str:
    """An interface has no table that could tell it; it is what it is called."""
    return f"interface:{name}"


def _interface(interface: InterfaceType) -> Iterator[tuple[Part, Any]]:
    token = interface_token(interface.name)
    yield (token, NAME), interface.name
    for prop in interface.properties:
        yield from _property(token, prop.name, prop, prop.annotations)


def _entity(entity: EntityType, tokens: Tokens) -> Iterator[tuple[Part, Any]]:
    token, key = tokens.type(entity.table_key), entity.table_key

    def called(name: str) -> str:
        return tokens.property(key, name)

    yield (token, NAME), entity.name
    yield from _annotations((token,), entity.annotations)
    if isinstance(entity, EdgeType):
        ends = (tokens.type(f"node:{entity.from_type}"), tokens.type(f"node:{entity.to_type}"))
        yield (token, ENDS), ends
        yield (token, CARDINALITY), entity.cardinality
    if isinstance(entity, NodeType):
        yield from (((token, IMPLEMENTS, name), True) for name in entity.implements)
    for prop in entity.properties:
        annotations = [
            replace(each, value=called(each.value)) if each.name == EMBED and each.value else each
            for each in prop.annotations
        ]
        yield from _property(token, called(prop.name), prop, annotations)
    for name in {each.property for each in entity.constraints if isinstance(each, Range)}:
        yield (token, RANGE, called(name)), _bounds(entity.constraints, name)
    for constraint in entity.constraints:
        yield from _constraint(token, constraint, {name: called(name) for name in _columns(constraint)})


def _property(
    token: str, called: str, prop: Property, annotations: Sequence[Annotation]
) -> Iterator[tuple[Part, Any]]:
    place = (token, PROPERTY, called)
    yield (*place, NAME), prop.name
    yield (*place, TYPE), (prop.type.scalar, prop.type.is_list, prop.type.dimension)
    yield (*place, NULLABLE), prop.type.nullable
    if prop.type.enum_values is not None:
        yield (*place, VALUES), frozenset(prop.type.enum_values)
    yield from _annotations(place, annotations)


def _annotations(place: Part, annotations: Sequence[Annotation]) -> Iterator[tuple[Part, Any]]:
    for name in {annotation.name for annotation in annotations}:
        yield (*place, ANNOTATION, name), tuple(each for each in annotations if each.name == name)


def _columns(constraint: Constraint) -> tuple[str, ...]:
    if isinstance(constraint, Range | Check):
        return (constraint.property,)
    return constraint.columns


def _constraint(token: str, constraint: Constraint, called: Mapping[str, str]) -> Iterator[tuple[Part, Any]]:
    """All but ranges: those of a property are one fact, so that two sides cannot both change them."""
    match constraint:
        case Key(columns):
            yield (token, KEY), tuple(called[name] for name in columns)
        case Range():
            return
        case Unique(columns):
            yield (token, UNIQUE, *sorted(called[name] for name in columns)), True
        case Index(columns):
            yield (token, INDEX, *sorted(called[name] for name in columns)), True
        case Check(name, pattern):
            yield (token, CHECK, called[name], pattern), True


def _bounds(constraints: Sequence[Constraint], name: str) -> tuple[Any, ...]:
    found = [each for each in constraints if isinstance(each, Range) and each.property == name]
    return tuple((each.minimum, each.maximum) for each in found)
