"""Stored compiled form to model.

Nothing is guessed: reading checks that writing the result again gives the very same
object, so that nothing unknown, misplaced or stale is ever dropped silently.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import cast

from omnigraph_core.errors import StorageError
from omnigraph_core.schema.compiled import IR_VERSION, IdCollisionError, to_compiled
from omnigraph_core.schema.model import (
    DST_COLUMN,
    SRC_COLUMN,
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
    Scalar,
    Schema,
    Unique,
    canonical_bound,
    constraint_order,
)

_JsonObject = dict[str, object]
_SCALAR_NAMES = frozenset(scalar.value for scalar in Scalar if scalar is not Scalar.VECTOR)
_COLUMN_CONSTRAINTS: dict[str, type[Key] | type[Unique] | type[Index]] = {
    "Key": Key,
    "Unique": Unique,
    "Index": Index,
}


class CompiledSchemaError(StorageError):
    """A stored compiled schema is not one this program wrote."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"compiled schema is malformed at {path}: {reason}")

    def details(self) -> dict[str, object]:
        return {"path": self.path, "reason": self.reason}


def parse_compiled(text: str) -> Schema:
    """The schema of a stored text, in either layout."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CompiledSchemaError("$", f"not readable as JSON: {error}") from error
    return from_compiled(value)


def from_compiled(value: object) -> Schema:
    """The schema of a compiled form; `CompiledSchemaError` for anything `to_compiled` would not write."""
    root = _object(value, "$")
    version = _integer(_get(root, "ir_version", "$"), "$.ir_version")
    if version != IR_VERSION:
        raise CompiledSchemaError("$.ir_version", f"expected {IR_VERSION}, found {_shown(version)}")
    schema = Schema(
        tuple(
            InterfaceType(_text(item, "name", path), _properties(item, path))
            for item, path in _objects(root, "interfaces", "$")
        ),
        tuple(_read_node(item, path) for item, path in _objects(root, "nodes", "$")),
        tuple(_read_edge(item, path) for item, path in _objects(root, "edges", "$")),
    )
    _require_canonical(schema)
    _check_references(schema)
    try:
        rewritten = to_compiled(schema)
    except IdCollisionError as error:
        raise CompiledSchemaError("$", error.message) from error
    if rewritten != value:
        raise CompiledSchemaError(*_first_difference(value, rewritten))
    return schema


def _read_node(item: _JsonObject, path: str) -> NodeType:
    return NodeType(
        name=_text(item, "name", path),
        properties=_properties(item, path),
        constraints=_constraints(item, path),
        annotations=_annotations(item, path),
        implements=_texts(_get(item, "implements", path), f"{path}.implements"),
    )


def _read_edge(item: _JsonObject, path: str) -> EdgeType:
    at = f"{path}.cardinality"
    cardinality = _object(_get(item, "cardinality", path), at)
    maximum = _get(cardinality, "max", at)
    return EdgeType(
        name=_text(item, "name", path),
        properties=_properties(item, path),
        constraints=_constraints(item, path),
        annotations=_annotations(item, path),
        from_type=_text(item, "from_type", path),
        to_type=_text(item, "to_type", path),
        cardinality=Cardinality(
            _integer(_get(cardinality, "min", at), f"{at}.min"),
            None if maximum is None else _integer(maximum, f"{at}.max"),
        ),
    )


def _properties(item: _JsonObject, path: str) -> tuple[Property, ...]:
    return tuple(
        Property(
            _text(prop, "name", at),
            _property_type(_object(_get(prop, "prop_type", at), f"{at}.prop_type"), f"{at}.prop_type"),
            _annotations(prop, at),
        )
        for prop, at in _objects(item, "properties", path)
    )


def _property_type(item: _JsonObject, path: str) -> PropertyType:
    scalar = _get(item, "scalar", path)
    dimension = None
    if isinstance(scalar, dict):
        dimension = _integer(_get(_object(scalar, path), "Vector", f"{path}.scalar"), f"{path}.scalar.Vector")
        kind = Scalar.VECTOR
    elif not isinstance(scalar, str) or scalar not in _SCALAR_NAMES:
        raise CompiledSchemaError(f"{path}.scalar", f"unknown scalar {_shown(scalar)}")
    else:
        kind = Scalar(scalar)
    values = _get(item, "enum_values", path)
    return PropertyType(
        kind,
        _boolean(item, "nullable", path),
        _boolean(item, "list", path),
        None if values is None else _texts(values, f"{path}.enum_values"),
        dimension,
    )


def _annotations(item: _JsonObject, path: str) -> tuple[Annotation, ...]:
    found: list[Annotation] = []
    for entry, at in _objects(item, "annotations", path):
        value = _get(entry, "value", at)
        arguments = _object(_get(entry, "arguments", at), f"{at}.arguments")
        found.append(
            Annotation(
                _text(entry, "name", at),
                None if value is None else _text(entry, "value", at),
                tuple((name, _text(arguments, name, f"{at}.arguments")) for name in sorted(arguments)),
            )
        )
    return tuple(found)


def _constraints(item: _JsonObject, path: str) -> tuple[Constraint, ...]:
    return tuple(_constraint(entry, at) for entry, at in _objects(item, "constraints", path))


def _constraint(entry: _JsonObject, path: str) -> Constraint:
    if len(entry) != 1:
        raise CompiledSchemaError(path, "expected one constraint")
    ((word, body),) = entry.items()
    at = f"{path}.{word}"
    if word in _COLUMN_CONSTRAINTS:
        return _COLUMN_CONSTRAINTS[word](_texts(body, at))
    if word == "Range":
        fields = _object(body, at)
        low, high = (_bound(_get(fields, end, at), f"{at}.{end}") for end in ("min", "max"))
        return Range(_text(fields, "property", at), low, high)
    if word == "Check":
        fields = _object(body, at)
        return Check(_text(fields, "property", at), _text(fields, "pattern", at))
    raise CompiledSchemaError(path, f"unknown constraint {word!r}")


def _bound(value: object, path: str) -> int | float | None:
    if value is None:
        return None
    item = _object(value, path)
    if "Integer" in item:
        return _integer(item["Integer"], f"{path}.Integer")
    number = _get(item, "Float", path)
    if not isinstance(number, float) or not math.isfinite(number) or canonical_bound(number) is not number:
        raise CompiledSchemaError(
            f"{path}.Float", f"expected a number with a fraction, found {_shown(number)}"
        )
    return number


def _check_references(schema: Schema) -> None:
    """Every column and type named exists; the rest of the language's rules held when it was compiled."""
    for entity in schema.types():
        columns = {prop.name for prop in entity.properties}
        if isinstance(entity, EdgeType):
            columns |= {SRC_COLUMN, DST_COLUMN}
            for end in (entity.from_type, entity.to_type):
                if schema.find_node(end) is None:
                    raise CompiledSchemaError(entity.table_key, f"endpoint type {end!r} is not in the schema")
        for constraint in entity.constraints:
            named = (
                constraint.columns if isinstance(constraint, Key | Unique | Index) else (constraint.property,)
            )
            for name in named:
                if name not in columns:
                    raise CompiledSchemaError(entity.table_key, f"{constraint} names no property {name!r}")


def _first_difference(found: object, expected: object, path: str = "$") -> tuple[str, str]:
    """Where a stored value departs from what would be written for it."""
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        for name in (*expected, *found):
            if name not in expected:
                return f"{path}.{name}", "unknown field"
            if name not in found:
                return f"{path}.{name}", "missing field"
            if found[name] != expected[name]:
                return _first_difference(found[name], expected[name], f"{path}.{name}")
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for position, (one, other) in enumerate(zip(found, expected, strict=True)):
            if one != other:
                return _first_difference(one, other, f"{path}[{position}]")
    return path, f"expected {_shown(expected)}, found {_shown(found)}"


def _require_canonical(schema: Schema) -> None:
    """Everything that has no order of its own is sorted and without repetition."""
    _require_sorted([item.name for item in schema.interfaces], "$.interfaces")
    _require_sorted([node.name for node in schema.nodes], "$.nodes")
    _require_sorted([edge.name for edge in schema.edges], "$.edges")
    for type_ in (*schema.interfaces, *schema.types()):
        _require_sorted([prop.name for prop in type_.properties], f"{type_.name}.properties")
        for prop in type_.properties:
            at = f"{type_.name}.{prop.name}"
            _require_sorted(prop.type.enum_values or (), f"{at}.enum_values")
            _require_sorted_annotations(prop.annotations, at)
    for entity in schema.types():
        at = entity.table_key
        _require_sorted([constraint_order(item) for item in entity.constraints], f"{at}.constraints")
        _require_sorted_annotations(entity.annotations, at)
    for node in schema.nodes:
        _require_sorted(node.implements, f"{node.table_key}.implements")


def _require_sorted(items: Sequence[object], path: str) -> None:
    keys = cast(Sequence[str], items)
    if any(one >= other for one, other in pairwise(keys)):
        raise CompiledSchemaError(path, "entries are not sorted, or repeated")


def _require_sorted_annotations(annotations: tuple[Annotation, ...], path: str) -> None:
    """Unlike the rest, the same custom annotation may be there twice."""
    if any(one.order > other.order for one, other in pairwise(annotations)):
        raise CompiledSchemaError(f"{path}.annotations", "entries are not sorted")


def _shown(value: object) -> str:
    return reprlib.repr(value)


def _get(item: _JsonObject, name: str, path: str) -> object:
    if name not in item:
        raise CompiledSchemaError(f"{path}.{name}", "missing field")
    return item[name]


def _object(value: object, path: str) -> _JsonObject:
    if not isinstance(value, dict):
        raise CompiledSchemaError(path, f"expected an object, found {type(value).__name__}")
    return cast(_JsonObject, value)


def _objects(item: _JsonObject, name: str, path: str) -> list[tuple[_JsonObject, str]]:
    value = _get(item, name, path)
    if not isinstance(value, list):
        raise CompiledSchemaError(f"{path}.{name}", f"expected a list, found {type(value).__name__}")
    places = (f"{path}.{name}[{position}]" for position in range(len(value)))
    return [(_object(entry, at), at) for entry, at in zip(value, places, strict=True)]


def _text(item: _JsonObject, name: str, path: str) -> str:
    value = _get(item, name, path)
    if not _is_text(value):
        raise CompiledSchemaError(f"{path}.{name}", f"expected text, found {_shown(value)}")
    return cast(str, value)


def _texts(value: object, path: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(_is_text(entry) for entry in value):
        raise CompiledSchemaError(path, f"expected a list of texts, found {_shown(value)}")
    return tuple(value)


def _is_text(value: object) -> bool:
    """A string that can be stored: JSON escapes can smuggle in halves of surrogate pairs."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value))


def _boolean(item: _JsonObject, name: str, path: str) -> bool:
    value = _get(item, name, path)
    if not isinstance(value, bool):
        raise CompiledSchemaError(f"{path}.{name}", f"expected true or false, found {_shown(value)}")
    return value


def _integer(value: object, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise CompiledSchemaError(path, f"expected a whole number, found {_shown(value)}")
    return value
