"""JSON shapes of a first look: entities as they are, and what a type has."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from omnigraph_core.shapes.json_object import JsonObject
from omnigraph_core.shapes.reads import value

if TYPE_CHECKING:
    from omnigraph_core.read.look import Entity, TypeFacts


def entity(of: Entity) -> JsonObject:
    """A blob is its size in bytes."""
    ends = {} if of.source is None else {"from": of.source, "to": of.target}
    data = {name: value(each) for name, each in of.values.items()}
    return {"kind": of.type.kind, "type": of.type.name, "id": of.id, **ends, "data": data}


def entities(of: Iterable[Entity]) -> JsonObject:
    return {"entities": [entity(each) for each in of]}


def described(of: Iterable[TypeFacts]) -> JsonObject:
    return {"types": [_type(each) for each in of]}


def _type(of: TypeFacts) -> JsonObject:
    columns = [
        {
            "name": each.name,
            "type": each.type,
            "nulls": each.nulls,
            "min": value(each.least),
            "max": value(each.greatest),
            "indexes": list(each.indexes),
        }
        for each in of.columns
    ]
    return {"kind": of.type.kind, "type": of.type.name, "rows": of.rows, "columns": columns}
