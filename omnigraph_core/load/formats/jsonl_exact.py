"""The exact reader of JSON lines: one record at a time, and the last word on each.

It decides what is an error and says so with file, line, type and property; all that is
wrong with a record is said at once. The fast reader only has to be right about what it
accepts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from omnigraph_core.load.formats.limits import MISTAKES_PER_RECORD_MAX
from omnigraph_core.load.formats.record import RESERVED, Collected, Record, finish_identity, near_miss
from omnigraph_core.load.formats.strict_json import JsonObject, NotJson, parse_strict
from omnigraph_core.load.formats.typed_rows import TypedRows
from omnigraph_core.rules.violations import Violation
from omnigraph_core.schema import EdgeType, EntityType, Schema
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.values.coerce import CoercionError, coerce, unicode_text
from omnigraph_core.values.defaults import default_values
from omnigraph_core.values.shown import clipped, shown

_NODE_ENVELOPE = ("type", "data")
_EDGE_ENVELOPE = ("edge", "from", "to", "data")
_ENDPOINTS = {"from": SRC_COLUMN, "to": DST_COLUMN}


class ExactReader:
    """Reads records of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._nodes = tuple(node.name for node in schema.nodes)
        self._edges = tuple(edge.name for edge in schema.edges)
        self._defaults = {entity.table_key: default_values(entity) for entity in schema.types()}

    def read(
        self, source: str, lines: Iterable[tuple[int, bytes]]
    ) -> tuple[list[TypedRows], list[Violation]]:
        """The good records by type, and what is wrong with the others; blank lines are ignored."""
        collected: dict[str, Collected] = {}
        violations: list[Violation] = []
        for number, text in lines:
            if not text.strip():
                continue
            record = Record(source, number, text.rstrip(b"\r\n"))
            self._examine(record)
            if record.violations:
                violations += record.violations
            elif record.entity is not None:
                one = collected.get(record.entity.table_key)
                if one is None:
                    one = Collected(record.entity, {name: [] for name in record.entity.columns})
                    collected[record.entity.table_key] = one
                one.append(record)
        return [one.typed_rows(source) for one in collected.values()], violations

    def _examine(self, record: Record) -> None:
        try:
            value = parse_strict(record.text)
        except NotJson as error:
            record.wrong(str(error))
            return
        if not isinstance(value, JsonObject):
            record.wrong(f"a record must be a JSON object, got {shown(value)}")
            return
        record.entity = self._entity(record, value)
        _check_envelope(record, value)
        if record.entity is None:
            return
        if isinstance(record.entity, EdgeType):
            _read_endpoints(record, value)
        _read_data(record, record.entity, value, self._defaults[record.entity.table_key])

    def _entity(self, record: Record, envelope: JsonObject) -> EntityType | None:
        """The type a record names; None, with a violation added, if it names none."""
        if "type" in envelope and "edge" in envelope:
            record.wrong("a record has either 'type' or 'edge', not both")
            return None
        kind = "edge" if "edge" in envelope else "type"
        if kind not in envelope:
            record.wrong("a record needs 'type' (a node) or 'edge'")
            return None
        name = envelope[kind]
        if not isinstance(name, str):
            record.wrong(f"'{kind}' must be a string, got {shown(name)}")
            return None
        found = self._schema.find_edge(name) if kind == "edge" else self._schema.find_node(name)
        if found is None:
            record.wrong(_unknown_type("edge" if kind == "edge" else "node", name, self._nodes, self._edges))
        return found


@lru_cache(maxsize=1024)
def _unknown_type(kind: str, name: str, nodes: tuple[str, ...], edges: tuple[str, ...]) -> str:
    """The message for an unknown type name, with a suggestion if one is close."""
    message = f"unknown {kind} type '{clipped(name)}'"
    if kind == "node" and name in edges:
        return f"{message} (it is an edge type)"
    if kind == "edge" and name in nodes:
        return f"{message} (it is a node type)"
    return message + near_miss(name, edges if kind == "edge" else nodes)


def _check_envelope(record: Record, envelope: JsonObject) -> None:
    for name in envelope.repeated[:MISTAKES_PER_RECORD_MAX]:
        record.wrong(f"duplicate key '{clipped(name)}'")
    if isinstance(record.entity, EdgeType) or ("edge" in envelope and "type" not in envelope):
        allowed: tuple[str, ...] = _EDGE_ENVELOPE
    elif record.entity is not None or ("type" in envelope and "edge" not in envelope):
        allowed = _NODE_ENVELOPE
    else:
        allowed = ("type", *_EDGE_ENVELOPE)
    for name in envelope:
        if record.is_hopeless:
            return
        if name in RESERVED:
            record.wrong(f"'{name}' is a reserved name")
        elif name not in allowed:
            record.wrong(f"unknown envelope field '{clipped(name)}' (allowed: {', '.join(allowed)})")


def _read_endpoints(record: Record, envelope: JsonObject) -> None:
    for name, column_name in _ENDPOINTS.items():
        if name not in envelope:
            record.wrong(f"edge missing '{name}'")
            continue
        value = envelope[name]
        if isinstance(value, str):
            _take_text(record, column_name, value, f"'{name}': ")
        else:
            record.wrong(f"'{name}' must be a string, got {shown(value)}")


def _read_data(
    record: Record, entity: EntityType, envelope: JsonObject, defaults: Mapping[str, object]
) -> None:
    data = envelope.get("data", _NO_DATA)
    if not isinstance(data, JsonObject):
        record.wrong(f"'data' must be an object, got {shown(data)}")
        return
    for name in data.repeated[:MISTAKES_PER_RECORD_MAX]:
        record.wrong(f"duplicate key '{clipped(name)}'", name)
    for name, value in data.items():
        if record.is_hopeless:
            return
        if name == ID_COLUMN:
            _read_id(record, value)
        else:
            _read_property(record, entity, name, value)
    for name, value in defaults.items():
        if name not in data:
            record.values[name] = value
    finish_identity(record, entity)


_NO_DATA = JsonObject([])


def _read_id(record: Record, value: object) -> None:
    if isinstance(value, str):
        _take_text(record, ID_COLUMN, value, "")
    else:
        record.wrong(f"an id must be a string, got {shown(value)}", ID_COLUMN)


def _take_text(record: Record, name: str, value: str, prefix: str) -> None:
    try:
        record.values[name] = unicode_text(value)
    except CoercionError as error:
        record.wrong(f"{prefix}{error}", name if not prefix else None)


def _read_property(record: Record, entity: EntityType, name: str, value: object) -> None:
    prop = entity.find_property(name)
    if prop is None:
        record.wrong(_unknown_field(entity, name), name)
        return
    try:
        record.values[name] = coerce(value, prop.type)
    except CoercionError as error:
        record.wrong(str(error), name)


def _unknown_field(entity: EntityType, name: str) -> str:
    if name in RESERVED:
        return f"'{name}' is a reserved name"
    if isinstance(entity, EdgeType) and name in (SRC_COLUMN, DST_COLUMN):
        envelope = "from" if name == SRC_COLUMN else "to"
        return f"'{name}' is not a property: an edge's ends are '{envelope}' beside 'data'"
    known = tuple(prop.name for prop in entity.properties)
    return f"unknown input field '{clipped(name)}' for '{entity.table_key}'{near_miss(name, known)}"
