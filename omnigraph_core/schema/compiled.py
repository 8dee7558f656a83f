"""The compiled form: a schema as JSON, its ids and its hash.

The form is canonical, like the model it is written from: equal schemas give equal
bytes, so the hash of the compact text identifies a schema. Rename hints are not in
it. `compiled_reader` is the way back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from omnigraph_core.errors import BadDataError
from omnigraph_core.ids import fnv1a32
from omnigraph_core.schema.annotations import TypeKind
from omnigraph_core.schema.model import (
    Annotation,
    Check,
    Constraint,
    EntityType,
    Index,
    InterfaceType,
    Key,
    PropertyType,
    Range,
    Scalar,
    Schema,
    Unique,
)

IR_VERSION = 1

_JsonObject = dict[str, object]


class IdCollisionError(BadDataError):
    """Two names share a 32-bit id, by which types and properties are told apart."""

    def __init__(self, first: str, second: str) -> None:
        self.first = first
        self.second = second
        super().__init__(
            f"schema names '{first}' and '{second}' have the same internal id", hint="rename one of them"
        )

    def details(self) -> dict[str, object]:
        return {"first": self.first, "second": self.second}


def schema_hash(schema: Schema) -> str:
    """`sha256:<hex>` over the compact compiled form: the identity of a schema."""
    return "sha256:" + hashlib.sha256(compact_json(schema).encode("utf-8")).hexdigest()


def compact_json(schema: Schema) -> str:
    """The text that is hashed."""
    return json.dumps(to_compiled(schema), ensure_ascii=False, separators=(",", ":"))


def pretty_json(schema: Schema) -> str:
    """The text that is stored for people to read."""
    return json.dumps(to_compiled(schema), ensure_ascii=False, indent=2) + "\n"


def to_compiled(schema: Schema) -> _JsonObject:
    """The compiled form as JSON values, keys in their fixed order."""
    ids = _Ids()
    return {
        "ir_version": IR_VERSION,
        "interfaces": [_named("interface", interface, ids) for interface in schema.interfaces],
        "nodes": [
            {
                **_named("node", node, ids),
                "annotations": _annotations_json(node.annotations),
                "implements": list(node.implements),
                "constraints": [constraint_json(c) for c in node.constraints],
            }
            for node in schema.nodes
        ],
        "edges": [
            {
                **_named("edge", edge, ids),
                "from_type": edge.from_type,
                "to_type": edge.to_type,
                "cardinality": {"min": edge.cardinality.minimum, "max": edge.cardinality.maximum},
                "annotations": _annotations_json(edge.annotations),
                "constraints": [constraint_json(c) for c in edge.constraints],
            }
            for edge in schema.edges
        ],
    }


class _Ids:
    """FNV-1a ids of one schema, each given out once."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def assign(self, name: str) -> int:
        number = fnv1a32(name)
        earlier = self._names.setdefault(number, name)
        if earlier != name:
            raise IdCollisionError(earlier, name)
        return number


def _named(kind: TypeKind, type_: InterfaceType | EntityType, ids: _Ids) -> _JsonObject:
    qualified = f"{kind}:{type_.name}"
    return {
        "name": type_.name,
        "type_id": ids.assign(qualified),
        "properties": [
            {
                "name": prop.name,
                "prop_id": ids.assign(f"{qualified}:{prop.name}"),
                "prop_type": type_json(prop.type),
                "annotations": _annotations_json(prop.annotations),
            }
            for prop in type_.properties
        ],
    }


def type_json(type_: PropertyType) -> _JsonObject:
    scalar: object = type_.scalar.value
    if type_.scalar is Scalar.VECTOR:
        scalar = {"Vector": type_.dimension}
    values = None if type_.enum_values is None else list(type_.enum_values)
    return {"scalar": scalar, "nullable": type_.nullable, "list": type_.is_list, "enum_values": values}


def _annotations_json(annotations: Iterable[Annotation]) -> list[_JsonObject]:
    return [{"name": a.name, "value": a.value, "arguments": dict(a.arguments)} for a in annotations]


def constraint_json(constraint: Constraint) -> _JsonObject:
    match constraint:
        case Key(columns) | Unique(columns) | Index(columns):
            return {type(constraint).__name__: list(columns)}
        case Range(name, minimum, maximum):
            bounds = {"min": _bound_json(minimum), "max": _bound_json(maximum)}
            return {"Range": {"property": name, **bounds}}
        case Check(name, pattern):
            return {"Check": {"property": name, "pattern": pattern}}


def _bound_json(bound: int | float | None) -> _JsonObject | None:
    if bound is None:
        return None
    return {"Integer": bound} if isinstance(bound, int) else {"Float": bound}
