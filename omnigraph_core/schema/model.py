"""The checked schema: what every other floor works with.

A model is canonical. Types, properties, annotations and constraints are sorted,
enum values sorted and unique, so two schemas that mean the same are equal,
however their sources were arranged. The one order that counts is that of key
members, because composite ids are built from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from decimal import Decimal
from enum import StrEnum
from typing import Literal

from omnigraph_core.errors import NotFoundError
from omnigraph_core.layout import EntityKind, table_key
from omnigraph_core.records import dataclass
from omnigraph_core.schema.lexer import string_literal
from omnigraph_core.schema.limits import RANGE_BOUND_MAX, RANGE_BOUND_MIN

ID_COLUMN = "id"
SRC_COLUMN = "src"
DST_COLUMN = "dst"


class Scalar(StrEnum):
    """What one value is; the text is the `.pg` spelling. Enums are `STRING` with a value set."""

    STRING = "String"
    BLOB = "Blob"
    BOOL = "Bool"
    I32 = "I32"
    I64 = "I64"
    U32 = "U32"
    U64 = "U64"
    F32 = "F32"
    F64 = "F64"
    DATE_TIME = "DateTime"
    DATE = "Date"
    VECTOR = "Vector"

    @property
    def is_numeric(self) -> bool:
        return self in _NUMERIC

    @property
    def is_integer(self) -> bool:
        return self in _INTEGERS


_INTEGERS = frozenset({Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64})
_NUMERIC = _INTEGERS | {Scalar.F32, Scalar.F64}


@dataclass(frozen=True, slots=True)
class PropertyType:
    """A property type; `dimension` belongs to vectors, `enum_values` (sorted) to enums."""

    scalar: Scalar
    nullable: bool = False
    is_list: bool = False
    enum_values: tuple[str, ...] | None = None
    dimension: int | None = None

    def __str__(self) -> str:
        """The name messages use; reads back as the same type."""
        if self.enum_values is not None:
            text = f"enum({', '.join(self.enum_values)})"
        elif self.scalar is Scalar.VECTOR:
            text = f"Vector({self.dimension})"
        else:
            text = self.scalar.value
        if self.is_list:
            text = f"[{text}]"
        return text + "?" if self.nullable else text


@dataclass(frozen=True, slots=True)
class Annotation:
    """Metadata as written; every value is text. `arguments` is sorted by name."""

    name: str
    value: str | None = None
    arguments: tuple[tuple[str, str], ...] = ()

    def argument(self, name: str) -> str | None:
        return dict(self.arguments).get(name)

    @property
    def order(self) -> tuple[str, bool, str, tuple[tuple[str, str], ...]]:
        """Sort key that puts annotations in the canonical order."""
        return self.name, self.value is not None, self.value or "", self.arguments


@dataclass(frozen=True, slots=True)
class Embed:
    """The String property a vector is computed from, and the model if it was recorded."""

    source: str
    model: str | None


@dataclass(frozen=True, slots=True)
class Property:
    """A named column. `renamed_from` is a migration hint and no part of equality.

    On interfaces the annotations include `key`, `unique` and `index`; on nodes and
    edges these have become constraints.
    """

    name: str
    type: PropertyType
    annotations: tuple[Annotation, ...] = ()
    renamed_from: str | None = field(default=None, compare=False)

    @property
    def embed(self) -> Embed | None:
        found = find_annotation(self.annotations, "embed")
        if found is None or found.value is None:
            return None
        return Embed(found.value, found.argument("model"))

    @property
    def description(self) -> str | None:
        return annotation_value(self.annotations, "description")


@dataclass(frozen=True, slots=True)
class Key:
    """Identity of a node. `columns` is in declared order, which is the order inside ids."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"@key({', '.join(self.columns)})"


@dataclass(frozen=True, slots=True)
class Unique:
    """No two entities share the tuple; a null in it exempts. On edges `src`, `dst` may be in it."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"@unique({', '.join(self.columns)})"


@dataclass(frozen=True, slots=True)
class Index:
    """Intent to index; only single columns of nodes ever become physical indexes."""

    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"@index({', '.join(self.columns)})"


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive numeric bounds. A whole number is always an `int`, however it was written."""

    property: str
    minimum: int | float | None
    maximum: int | float | None

    def __str__(self) -> str:
        return f"@range({self.property}, {_bound_text(self.minimum)}..{_bound_text(self.maximum)})"


@dataclass(frozen=True, slots=True)
class Check:
    """The RE2 pattern must be found in the value. Not compiled here: data validation does."""

    property: str
    pattern: str

    def __str__(self) -> str:
        return f"@check({self.property}, {string_literal(self.pattern)})"


def _bound_text(bound: int | float | None) -> str:
    """A bound as `.pg` spells it: without exponent, and a float always with its point."""
    if bound is None:
        return ""
    if isinstance(bound, int):
        return str(bound)
    text = format(Decimal(repr(bound)), "f")
    return text if "." in text else text + ".0"


def canonical_bound(real: float) -> int | float:
    """A range bound as `Range` keeps it, so that `1.0..` and `1..` are one range."""
    return int(real) if real.is_integer() and RANGE_BOUND_MIN <= real <= RANGE_BOUND_MAX else real


Constraint = Key | Unique | Index | Range | Check

_CONSTRAINT_ORDER: tuple[type[Constraint], ...] = (Key, Unique, Index, Range, Check)


def constraint_order(constraint: Constraint) -> tuple[int, str]:
    """Sort key that puts constraints in the canonical order."""
    return _CONSTRAINT_ORDER.index(type(constraint)), str(constraint)


@dataclass(frozen=True, slots=True)
class Cardinality:
    """How many edges of a type each source node may have; no maximum means any number."""

    minimum: int = 0
    maximum: int | None = None

    @property
    def is_unbounded(self) -> bool:
        return self.minimum == 0 and self.maximum is None

    def __str__(self) -> str:
        return f"@card({self.minimum}..{'' if self.maximum is None else self.maximum})"


@dataclass(frozen=True, slots=True)
class InterfaceType:
    """A set of properties nodes can share. It has no table and is never an endpoint."""

    name: str
    properties: tuple[Property, ...] = ()


@dataclass(frozen=True, slots=True)
class _TableType:
    """What node and edge types have in common: each is one table."""

    name: str
    properties: tuple[Property, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    renamed_from: str | None = field(default=None, compare=False)
    _by_name: dict[str, Property] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {prop.name: prop for prop in self.properties})

    def find_property(self, name: str) -> Property | None:
        return self._by_name.get(name)

    @property
    def uniques(self) -> tuple[Unique, ...]:
        """The declared uniqueness groups; a key's own uniqueness is not among them."""
        return tuple(c for c in self.constraints if isinstance(c, Unique))

    @property
    def indexes(self) -> tuple[Index, ...]:
        return tuple(c for c in self.constraints if isinstance(c, Index))

    @property
    def description(self) -> str | None:
        return annotation_value(self.annotations, "description")

    @property
    def instruction(self) -> str | None:
        return annotation_value(self.annotations, "instruction")


@dataclass(frozen=True, slots=True)
class NodeType(_TableType):
    """A node type. Interface properties are already part of `properties`."""

    implements: tuple[str, ...] = ()

    @property
    def kind(self) -> Literal["node"]:
        return "node"

    @property
    def table_key(self) -> str:
        return table_key("node", self.name)

    @property
    def key(self) -> Key | None:
        return next((c for c in self.constraints if isinstance(c, Key)), None)

    @property
    def ranges(self) -> tuple[Range, ...]:
        return tuple(c for c in self.constraints if isinstance(c, Range))

    @property
    def checks(self) -> tuple[Check, ...]:
        return tuple(c for c in self.constraints if isinstance(c, Check))

    @property
    def columns(self) -> tuple[str, ...]:
        """Physical column names in table order."""
        return (ID_COLUMN, *(prop.name for prop in self.properties))


@dataclass(frozen=True, slots=True)
class EdgeType(_TableType):
    """An edge type between two node types."""

    from_type: str = ""
    to_type: str = ""
    cardinality: Cardinality = Cardinality()

    @property
    def kind(self) -> Literal["edge"]:
        return "edge"

    @property
    def table_key(self) -> str:
        return table_key("edge", self.name)

    @property
    def columns(self) -> tuple[str, ...]:
        """Physical column names in table order."""
        return (ID_COLUMN, SRC_COLUMN, DST_COLUMN, *(prop.name for prop in self.properties))


EntityType = NodeType | EdgeType


class NoSuchTypeError(NotFoundError):
    """Neither a node nor an edge type is called so; the hint names both kinds apart."""

    def __init__(self, name: str, table_keys: Iterable[str]) -> None:
        kinds: dict[str, list[str]] = {"node": [], "edge": []}
        for key in sorted(set(table_keys)):
            kind, _, known = key.partition(":")
            kinds[kind].append(known)
        listed = (f"{kind} types are: {', '.join(names)}" for kind, names in kinds.items() if names)
        super().__init__(f"there is no type '{name}'", hint="; ".join(listed) or "the schema has no types")


class UnknownTypeError(NotFoundError):
    """The schema has no node or edge type of this name."""

    def __init__(self, kind: EntityKind, name: str, known: tuple[str, ...]) -> None:
        self.type_kind = kind
        self.name = name
        self.known = known
        listed = ", ".join(known) if known else "none"
        super().__init__(f"unknown {kind} type '{name}'", hint=f"{kind} types are: {listed}")

    def details(self) -> dict[str, object]:
        return {"type_kind": self.type_kind, "name": self.name, "known": list(self.known)}


@dataclass(frozen=True, slots=True)
class Schema:
    """Everything a `.pg` file declares, each group sorted by name."""

    interfaces: tuple[InterfaceType, ...] = ()
    nodes: tuple[NodeType, ...] = ()
    edges: tuple[EdgeType, ...] = ()
    _nodes: dict[str, NodeType] = field(init=False, repr=False, compare=False)
    _edges: dict[str, EdgeType] = field(init=False, repr=False, compare=False)
    _folded_edges: dict[str, EdgeType] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_nodes", {node.name: node for node in self.nodes})
        object.__setattr__(self, "_edges", {edge.name: edge for edge in self.edges})
        object.__setattr__(self, "_folded_edges", {edge.name.lower(): edge for edge in self.edges})

    def find_node(self, name: str) -> NodeType | None:
        return self._nodes.get(name)

    def find_edge(self, name: str) -> EdgeType | None:
        """The edge type of this name, else the one whose name differs in case only."""
        return self._edges.get(name) or self._folded_edges.get(name.lower())

    def node(self, name: str) -> NodeType:
        found = self.find_node(name)
        if found is None:
            raise UnknownTypeError("node", name, tuple(self._nodes))
        return found

    def edge(self, name: str) -> EdgeType:
        found = self.find_edge(name)
        if found is None:
            raise UnknownTypeError("edge", name, tuple(self._edges))
        return found

    def types(self) -> Iterator[EntityType]:
        """Every node and edge type in the order of their table keys: edges come first."""
        yield from self.edges
        yield from self.nodes

    def edges_at(self, node_name: str) -> tuple[EdgeType, ...]:
        """The edge types with this node type at either end: what deleting such a node touches."""
        return tuple(edge for edge in self.edges if node_name in (edge.from_type, edge.to_type))


def find_annotation(annotations: tuple[Annotation, ...], name: str) -> Annotation | None:
    return next((annotation for annotation in annotations if annotation.name == name), None)


def annotation_value(annotations: tuple[Annotation, ...], name: str) -> str | None:
    found = find_annotation(annotations, name)
    return None if found is None else found.value
