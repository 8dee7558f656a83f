"""The exact reader of JSON lines: one record at a time, and the last word on each.

It decides what is an error and says so with file, line, type and property; all that is
wrong with a record is said at once. The fast reader only has to be right about what it
accepts.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from omnigraph_core.change.coerce import CoercionError, clipped, coerce, column, shown, unicode_text
from omnigraph_core.change.violations import Violation
from omnigraph_core.ids import canonical_scalar, entity_id
from omnigraph_core.load.records import TypedRows
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EdgeType, EntityType, NodeType, Scalar, Schema
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa

_NODE_ENVELOPE = ("type", "data")
_EDGE_ENVELOPE = ("edge", "from", "to", "data")
_ENDPOINTS = {"from": SRC_COLUMN, "to": DST_COLUMN}
RESERVED = frozenset(
    {
        "_tombstone",
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
    }
)
# More digits than any column can hold. Python refuses to convert very long digit strings;
# the leading ones are enough to be out of every range.
_DIGITS_MAX = 400


class JsonObject(dict[str, object]):
    """A JSON object that remembers which of its keys were given more than once."""

    __slots__ = ("repeated",)

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self.repeated: tuple[str, ...] = ()
        if len(self) < len(pairs):
            names = [name for name, _ in pairs]
            self.repeated = tuple(sorted({name for name in names if names.count(name) > 1}))


class NotJson(ValueError):
    """The text is not one JSON value; the message says what is wrong and in which column."""


def parse_strict(line: bytes) -> object:
    """The one JSON value of a line; NaN and infinities, which are no JSON, are refused."""
    try:
        return _DECODER.decode(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        bad = error.object[error.start]
        raise NotJson(f"not valid UTF-8: byte 0x{bad:02x} at position {error.start + 1}") from error
    except json.JSONDecodeError as error:
        # Some of Python's messages end in "at" already.
        reason = error.msg.removesuffix(" at")
        raise NotJson(f"invalid JSON: {reason} at column {error.colno}") from error
    except RecursionError as error:
        raise NotJson("invalid JSON: nested too deeply") from error


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f"invalid JSON: {name} is not a JSON number")


class _MinusZero(int):
    """`-0`: nothing but zero for an integer column, but a float column keeps the sign."""

    def __float__(self) -> float:
        return -0.0


def _integer(digits: str) -> int:
    return _MinusZero() if digits == "-0" else int(digits[:_DIGITS_MAX])


_DECODER = json.JSONDecoder(object_pairs_hook=JsonObject, parse_constant=_no_constant, parse_int=_integer)


@dataclass(slots=True)
class Record:
    """A record under examination: the columns read so far, and what was found wrong."""

    source: str
    line: int
    text: bytes
    entity: EntityType | None = None
    values: dict[str, object] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)

    def wrong(self, message: str, name: str | None = None) -> None:
        type_name = None if self.entity is None else self.entity.name
        self.violations.append(Violation(message, self.source, self.line, type_name, name, self.text))


@dataclass(slots=True)
class Collected:
    """The good records of one type, a list of values for each column."""

    entity: EntityType
    columns: dict[str, list[object]]
    lines: list[int] = field(default_factory=list)

    def append(self, record: Record) -> None:
        self.lines.append(record.line)
        for name, values in self.columns.items():
            values.append(record.values.get(name))

    def typed_rows(self, source: str) -> TypedRows:
        import pyarrow as pa

        from omnigraph_core.schema.arrow import table_schema

        arrays = [self._array(name) for name in self.columns]
        rows = pa.Table.from_arrays(arrays, schema=table_schema(self.entity))
        return TypedRows(self.entity, rows, source, pa.array(self.lines, pa.int64()))

    def _array(self, name: str) -> pa.Array:
        import pyarrow as pa

        prop = self.entity.find_property(name)
        values = self.columns[name]
        return pa.array(values, pa.utf8()) if prop is None else column(values, prop)


class ExactReader:
    """Reads records of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._nodes = tuple(node.name for node in schema.nodes)
        self._edges = tuple(edge.name for edge in schema.edges)

    def read(
        self, source: str, lines: Iterable[tuple[int, bytes]]
    ) -> tuple[list[TypedRows], list[Violation]]:
        """The good records by type, and what is wrong with the others; blank lines are nothing."""
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
        _read_data(record, record.entity, value)

    def _entity(self, record: Record, envelope: JsonObject) -> EntityType | None:
        """The type a record names; None, with the reason said, if it names none."""
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
    """What to say of a type name the schema does not have, with what was probably meant."""
    message = f"unknown {kind} type '{clipped(name)}'"
    if kind == "node" and name in edges:
        return f"{message} (it is an edge type)"
    if kind == "edge" and name in nodes:
        return f"{message} (it is a node type)"
    return message + near_miss(name, edges if kind == "edge" else nodes)


@lru_cache(maxsize=1024)
def near_miss(name: str, known: Sequence[str]) -> str:
    """` (did you mean 'x'?)` for the closest of the known names, nothing if none is close."""
    folded = {candidate.lower(): candidate for candidate in reversed(known)}
    close = difflib.get_close_matches(name.lower()[:100], folded, n=1, cutoff=0.75)
    return f" (did you mean '{folded[close[0]]}'?)" if close else ""


def _check_envelope(record: Record, envelope: JsonObject) -> None:
    for name in envelope.repeated:
        record.wrong(f"duplicate key '{clipped(name)}'")
    if isinstance(record.entity, EdgeType) or ("edge" in envelope and "type" not in envelope):
        allowed: tuple[str, ...] = _EDGE_ENVELOPE
    elif record.entity is not None or ("type" in envelope and "edge" not in envelope):
        allowed = _NODE_ENVELOPE
    else:
        allowed = ("type", *_EDGE_ENVELOPE)
    for name in envelope:
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


def _read_data(record: Record, entity: EntityType, envelope: JsonObject) -> None:
    data = envelope.get("data", _NO_DATA)
    if not isinstance(data, JsonObject):
        record.wrong(f"'data' must be an object, got {shown(data)}")
        return
    for name in data.repeated:
        record.wrong(f"duplicate key '{clipped(name)}'", name)
    for name, value in data.items():
        if name == ID_COLUMN:
            _read_id(record, value)
        else:
            _read_property(record, entity, name, value)
    finish_identity(record, entity)


def finish_identity(record: Record, entity: EntityType) -> None:
    """What is left to say of a record's id once all its values have been read."""
    if isinstance(entity, NodeType) and entity.key is not None:
        _identify(record, entity, entity.key.columns)
    elif record.values.get(ID_COLUMN) == "":
        record.wrong("an id must not be empty", ID_COLUMN)


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


def _identify(record: Record, entity: NodeType, columns: Sequence[str]) -> None:
    """Give a keyed node its canonical id; one that was given has to be the same."""
    given = record.values.get(ID_COLUMN)
    members = [record.values.get(name) for name in columns]
    if any(member is None for member in members):
        record.values[ID_COLUMN] = None
        return
    singles = [
        prop is not None and prop.type.scalar is Scalar.F32 for prop in map(entity.find_property, columns)
    ]
    texts = [canonical_scalar(member, single=single) for member, single in zip(members, singles, strict=True)]
    canonical = entity_id(texts)
    if isinstance(given, str) and given != canonical:
        record.wrong(f"id '{clipped(given)}' is not the id its key gives, '{clipped(canonical)}'", ID_COLUMN)
    record.values[ID_COLUMN] = canonical
