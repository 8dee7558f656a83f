"""Facts put together again: a schema in the order that models have, and what each thing went by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from omnigraph_core.records import dataclass
from omnigraph_core.schema.evolve.take_apart import (
    ANNOTATION,
    CARDINALITY,
    CHECK,
    EMBED,
    ENDS,
    IMPLEMENTS,
    INDEX,
    KEY,
    NAME,
    NULLABLE,
    PROPERTY,
    RANGE,
    TYPE,
    UNIQUE,
    VALUES,
    Facts,
    Part,
)
from omnigraph_core.schema.model import (
    Annotation,
    Cardinality,
    Check,
    Constraint,
    EdgeType,
    Index,
    InterfaceType,
    Key,
    NodeType,
    Property,
    PropertyType,
    Range,
    Schema,
    Unique,
    constraint_order,
)


@dataclass(frozen=True, slots=True)
class Named:
    """A schema, and the tokens of its things by the names they have in it. With faults it is none."""

    schema: Schema
    types: Mapping[str, str]
    properties: Mapping[str, Mapping[str, str]]
    faults: tuple[str, ...]


def rebuilt(facts: Facts) -> Named:
    return _Rebuilding(facts).named()


class _Rebuilding:
    def __init__(self, facts: Facts) -> None:
        self._facts: dict[str, Facts] = {}
        for part, value in facts.items():
            self._facts.setdefault(part[0], {})[part[1:]] = value
        self._faults: list[str] = []

    def named(self) -> Named:
        interfaces, nodes, edges = [], [], []
        types: dict[str, str] = {}
        properties: dict[str, dict[str, str]] = {}
        for token, facts in self._facts.items():
            kind, name = _kind(token), facts[(NAME,)]
            if kind == "interface":
                interfaces.append(InterfaceType(name, self._properties(name, facts)))
                continue
            key = f"{kind}:{name}"
            if key in types:
                self._faults.append(f"two {kind} types would be called {name}")
            types[key] = token
            properties[key] = {prop_name: each for each, prop_name in _names(facts).items()}
            body = (
                name,
                self._properties(name, facts),
                self._constraints(name, facts),
                _annotations(facts, ()),
            )
            if kind == "node":
                implements = tuple(sorted(part[1] for part in facts if part[0] == IMPLEMENTS))
                nodes.append(NodeType(*body, implements=implements))
            else:
                source, target = (self._end(name, each) for each in facts[(ENDS,)])
                bounds = facts.get((CARDINALITY,), Cardinality())
                edges.append(EdgeType(*body, from_type=source, to_type=target, cardinality=bounds))
        schema = Schema(_sorted(interfaces), _sorted(nodes), _sorted(edges))
        return Named(schema, types, properties, tuple(self._faults))

    def _end(self, edge: str, token: str) -> str:
        if token not in self._facts:
            self._faults.append(f"edge type {edge} has an end of a type that the other side dropped")
            return ""
        return str(self._facts[token][(NAME,)])

    def _properties(self, type_name: str, facts: Facts) -> tuple[Property, ...]:
        found = []
        names = _names(facts)
        for token, name in names.items():
            scalar, is_list, dimension = facts[(PROPERTY, token, TYPE)]
            values = facts.get((PROPERTY, token, VALUES))
            type_ = PropertyType(
                scalar,
                facts[(PROPERTY, token, NULLABLE)],
                is_list,
                None if values is None else tuple(sorted(values)),
                dimension,
            )
            annotations = [
                self._with_source(type_name, each, names) for each in _annotations(facts, (PROPERTY, token))
            ]
            found.append(Property(name, type_, tuple(sorted(annotations, key=lambda each: each.order))))
        for name in {name for name in names.values() if list(names.values()).count(name) > 1}:
            self._faults.append(f"two properties of {type_name} would be called {name}")
        return tuple(sorted(found, key=lambda each: each.name))

    def _with_source(self, type_name: str, annotation: Annotation, names: Mapping[str, str]) -> Annotation:
        if annotation.name != EMBED or annotation.value is None:
            return annotation
        return replace(annotation, value=self._column(type_name, annotation.value, names))

    def _constraints(self, type_name: str, facts: Facts) -> tuple[Constraint, ...]:
        names = _names(facts)

        def called(tokens: Sequence[str]) -> tuple[str, ...]:
            return tuple(self._column(type_name, token, names) for token in tokens)

        found: list[Constraint] = []
        for part, value in facts.items():
            match part:
                case (str(kind),) if kind == KEY:
                    found.append(Key(called(value)))
                case (str(kind), *tokens) if kind == UNIQUE:
                    found.append(Unique(tuple(sorted(called(tokens)))))
                case (str(kind), *tokens) if kind == INDEX:
                    found.append(Index(tuple(sorted(called(tokens)))))
                case (str(kind), token) if kind == RANGE:
                    found += [Range(called([token])[0], low, high) for low, high in value]
                case (str(kind), token, pattern) if kind == CHECK:
                    found.append(Check(called([token])[0], pattern))
        return tuple(sorted(found, key=constraint_order))

    def _column(self, type_name: str, token: str, names: Mapping[str, str]) -> str:
        """What a property is called; `src` and `dst` of an edge are no properties."""
        if token in names:
            return names[token]
        name = token.removeprefix("+")
        if token not in ("+src", "+dst"):
            self._faults.append(f"a rule of {type_name} is about {name}, which the other side dropped")
        return name


def _kind(token: str) -> str:
    return token.removeprefix("+").partition(":")[0]


def _names(facts: Facts) -> dict[str, str]:
    """The names of the properties by their tokens."""
    return {part[1]: value for part, value in facts.items() if part[0] == PROPERTY and part[2:] == (NAME,)}


def _annotations(facts: Facts, place: Part) -> tuple[Annotation, ...]:
    length = len(place)
    found = [
        annotation
        for part, annotations in facts.items()
        if part[:length] == place and part[length : length + 1] == (ANNOTATION,)
        for annotation in annotations
    ]
    return tuple(sorted(found, key=lambda each: each.order))


def _sorted(types: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(sorted(types, key=lambda each: each.name))
