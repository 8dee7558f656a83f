"""The schema that a state of the original had, told by its tables.

The original keeps one compiled schema, the newest. Of an older state its tables say which types and
columns there were. What the newest schema says of a type, a property or a constraint that was the same
then is taken from there; a hint of a rename leads from one to the other. The ends of an edge that is
gone are found by looking its ids up among the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.schema import (
    Check,
    Constraint,
    EdgeType,
    EntityType,
    NodeType,
    Property,
    PropertyType,
    Range,
    Scalar,
    Schema,
)
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN, constraint_order
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.keys import in_filter

if TYPE_CHECKING:
    import pyarrow as pa

_FIXED = (ID_COLUMN, SRC_COLUMN, DST_COLUMN)

# So many edges are enough to tell whose ids they have.
_EDGES_LOOKED_UP = 1_000


class SchemaNotKnown(NotFoundError):
    """The tables of an old state do not say enough of its schema."""

    def __init__(self, snapshot: Snapshot, type_name: str, reason: str) -> None:
        super().__init__(
            f"the schema that branch '{snapshot.branch}' had at manifest version "
            f"{snapshot.manifest_version} cannot be told: {reason} of '{type_name}'",
            hint="the original keeps its newest schema only; commits with that one can be read",
        )
        self.type_name = type_name


@dataclass(frozen=True, slots=True)
class _Old:
    """A type as a table had it, and what the newest schema calls it."""

    name: str
    table: Table
    declared: EntityType | None
    renamed: Mapping[str, str]
    """From the newest name of a property to the one it had."""


def schema_then(
    tables: Tables, accepted: Schema, snapshot: Snapshot, others: Callable[[], Iterable[Snapshot]]
) -> Schema:
    """The schema of a state; `accepted` itself if that was it. `others` are more states of the branch."""
    nodes: list[NodeType] = []
    edges: list[tuple[_Old, tuple[Property, ...], tuple[Constraint, ...]]] = []
    known = {each.table_key: each for each in accepted.types()}
    before = {_old_key(each): each for each in accepted.types() if each.renamed_from}
    for key, entry in snapshot.tables.items():
        kind, name = layout.split_table_key(key)
        table = tables.open(entry.ref, entry.table_version)
        old = _old(name, table, known.get(key) or before.get(key))
        properties = _properties(old, snapshot)
        constraints = _constraints(old, properties)
        if kind == "node":
            nodes.append(_node(old, properties, constraints, accepted))
        else:
            edges.append((old, properties, constraints))
    names = {each.name for each in nodes}
    renamed = {each.name: each.renamed_from for each in accepted.nodes if each.renamed_from}
    found = Schema(
        accepted.interfaces,
        tuple(sorted(nodes, key=lambda each: each.name)),
        tuple(
            sorted(
                (
                    _edge(old, properties, constraints, _ends(tables, old, names, renamed, snapshot, others))
                    for old, properties, constraints in edges
                ),
                key=lambda each: each.name,
            )
        ),
    )
    return accepted if found == accepted else found


def _old_key(entity: EntityType) -> str:
    return layout.table_key(entity.kind, entity.renamed_from or entity.name)


def _old(name: str, table: Table, declared: EntityType | None) -> _Old:
    columns = set(table.schema.names)
    renamed = {
        prop.name: prop.renamed_from
        for prop in (declared.properties if declared else ())
        if prop.renamed_from and prop.renamed_from in columns and prop.name not in columns
    }
    return _Old(name, table, declared, renamed)


def _properties(old: _Old, snapshot: Snapshot) -> tuple[Property, ...]:
    declared = {old.renamed.get(prop.name, prop.name): prop for prop in _declared_properties(old)}
    is_edge = SRC_COLUMN in old.table.schema.names and old.table.ref.key.startswith("edge:")
    fixed = _FIXED if is_edge else _FIXED[:1]
    found = []
    for field in old.table.schema:
        if field.name in fixed:
            continue
        stored = _property_type(field)
        if stored is None:
            raise SchemaNotKnown(snapshot, old.name, f"the type of property '{field.name}' ({field.type})")
        prop = declared.get(field.name)
        same = prop is not None and replace(prop.type, enum_values=None) == stored
        found.append(replace(prop, name=field.name) if prop and same else Property(field.name, stored))
    return tuple(sorted(found, key=lambda each: each.name))


def _declared_properties(old: _Old) -> Sequence[Property]:
    return old.declared.properties if old.declared else ()


def _property_type(field: pa.Field) -> PropertyType | None:
    """What `schema/arrow.py` made the column of; None for a column that it never makes."""
    import pyarrow as pa

    from omnigraph_core.schema.arrow import arrow_type

    stored = field.type
    if isinstance(stored, pa.BaseExtensionType):
        return PropertyType(Scalar.BLOB, nullable=field.nullable)
    if pa.types.is_fixed_size_list(stored) and pa.types.is_float32(stored.value_type):
        return PropertyType(Scalar.VECTOR, nullable=field.nullable, dimension=stored.list_size)
    is_list = pa.types.is_list(stored)
    item = stored.value_type if is_list else stored
    for scalar in Scalar:
        if scalar not in (Scalar.VECTOR, Scalar.BLOB) and arrow_type(PropertyType(scalar)) == item:
            return PropertyType(scalar, nullable=field.nullable, is_list=is_list)
    return None


def _constraints(old: _Old, properties: Sequence[Property]) -> tuple[Constraint, ...]:
    """Those of the newest schema whose properties were there; what was before is not on record."""
    present = {prop.name for prop in properties} | {SRC_COLUMN, DST_COLUMN}
    declared = old.declared.constraints if old.declared else ()
    found = [_called_then(each, old.renamed) for each in declared]
    return tuple(sorted((each for each in found if _names(each) <= present), key=constraint_order))


def _called_then(constraint: Constraint, renamed: Mapping[str, str]) -> Constraint:
    if isinstance(constraint, (Range, Check)):
        return replace(constraint, property=renamed.get(constraint.property, constraint.property))
    return replace(constraint, columns=tuple(renamed.get(each, each) for each in constraint.columns))


def _names(constraint: Constraint) -> set[str]:
    return {constraint.property} if isinstance(constraint, (Range, Check)) else set(constraint.columns)


def _node(
    old: _Old, properties: tuple[Property, ...], constraints: tuple[Constraint, ...], accepted: Schema
) -> NodeType:
    declared = old.declared if isinstance(old.declared, NodeType) else None
    present = {prop.name for prop in properties}
    offered = {each.name: {prop.name for prop in each.properties} for each in accepted.interfaces}
    wanted = declared.implements if declared else ()
    return NodeType(
        name=old.name,
        properties=properties,
        constraints=constraints,
        annotations=declared.annotations if declared else (),
        implements=tuple(each for each in wanted if offered.get(each, set()) <= present),
    )


def _edge(
    old: _Old,
    properties: tuple[Property, ...],
    constraints: tuple[Constraint, ...],
    ends: tuple[str, str],
) -> EdgeType:
    declared = old.declared if isinstance(old.declared, EdgeType) else None
    found = EdgeType(
        name=old.name,
        properties=properties,
        constraints=constraints,
        annotations=declared.annotations if declared else (),
        from_type=ends[0],
        to_type=ends[1],
    )
    return replace(found, cardinality=declared.cardinality) if declared else found


def _ends(
    tables: Tables,
    old: _Old,
    nodes: set[str],
    renamed: Mapping[str, str],
    snapshot: Snapshot,
    others: Callable[[], Iterable[Snapshot]],
) -> tuple[str, str]:
    """The types an edge led from and to: as declared, or else by its ids."""
    if isinstance(old.declared, EdgeType):
        ends = [
            each if each in nodes else renamed.get(each, "")
            for each in (old.declared.from_type, old.declared.to_type)
        ]
        if set(ends) <= nodes:
            return ends[0], ends[1]
    found: list[str | None] = [None, None]
    for state in (snapshot, *others()):
        for at, column in enumerate((SRC_COLUMN, DST_COLUMN)):
            found[at] = found[at] or _end_in(tables, state, old.table.ref.key, column, nodes)
        if found[0] and found[1]:
            return found[0], found[1]
    raise SchemaNotKnown(snapshot, old.name, "the ends")


def _end_in(tables: Tables, state: Snapshot, key: str, column: str, nodes: set[str]) -> str | None:
    """The only node type that has the ids in a column of an edge; None if none has, or several have."""
    entry = state.tables.get(key)
    if entry is None or not entry.row_count:
        return None
    some = tables.open(entry.ref, entry.table_version).scan([column], limit=_EDGES_LOOKED_UP).read_all()
    ids = some.column(column).unique()
    if not len(ids):
        return None
    having = []
    for name in sorted(nodes):
        node = state.tables.get(layout.table_key("node", name))
        if node is not None and node.row_count >= len(ids):
            table = tables.open(node.ref, node.table_version)
            having += [name] if table.count_rows(in_filter(ids)) == len(ids) else []
    return having[0] if len(having) == 1 else None
