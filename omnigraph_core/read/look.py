"""A first look at the data without a query: one entity, the first ones of a type, what a type has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.records import dataclass
from omnigraph_core.schema import EdgeType, EntityType, Property, Scalar
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.indexes import list_indexes
from omnigraph_core.tables.keys import quote_text

_UNORDERED = (Scalar.BLOB, Scalar.VECTOR, Scalar.BOOL)


@dataclass(frozen=True, slots=True)
class Entity:
    """A node or an edge. A blob is shown by its size in bytes; `None` if it has none."""

    type: EntityType
    id: str
    source: str | None
    target: str | None
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """What a property is, and what is in it; `least` and `greatest` where values have an order."""

    name: str
    type: str
    nullable: bool
    nulls: int
    least: Any
    greatest: Any
    indexes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """A type at one state of the graph."""

    type: EntityType
    rows: int
    columns: tuple[ColumnFacts, ...]


def find_entity(table: Table, type_: EntityType, entity_id: str) -> Entity | None:
    rows = table.read(list(type_.columns), f"{ID_COLUMN} = {quote_text(entity_id)}")
    return next(iter(_entities(type_, rows)), None)


def first_entities(table: Table, type_: EntityType, limit: int) -> list[Entity]:
    """The first ones by id, so that they are the same however the table is stored."""
    if not limit:
        return []
    rows = table.scan(list(type_.columns), order_by=ID_COLUMN, limit=limit).read_all()
    return _entities(type_, rows)


def type_facts(table: Table, type_: EntityType) -> TypeFacts:
    """Reads every value that has an order, a batch at a time."""
    indexes: dict[str, list[str]] = {}
    for index in list_indexes(table).values():
        if index.column is not None and index.kind is not None:
            indexes.setdefault(index.column, []).append(index.kind.value)
    gathered = {prop.name: _Gathered() for prop in type_.properties if not _is_blob(prop)}
    rows = 0
    for batch in table.scan(list(gathered)) if gathered else ():
        rows += batch.num_rows
        for prop in type_.properties:
            if prop.name in gathered:
                gathered[prop.name].add(batch.column(prop.name), has_order=_has_order(prop))
    blobs = {
        prop.name: table.count_rows(f"`{prop.name}` IS NULL") for prop in type_.properties if _is_blob(prop)
    }
    columns = tuple(
        ColumnFacts(
            prop.name,
            str(prop.type),
            prop.type.nullable,
            blobs[prop.name] if prop.name in blobs else gathered[prop.name].nulls,
            None if prop.name in blobs else gathered[prop.name].least,
            None if prop.name in blobs else gathered[prop.name].greatest,
            tuple(sorted(indexes.get(prop.name, ()))),
        )
        for prop in type_.properties
    )
    return TypeFacts(type_, rows if gathered else table.count_rows(), columns)


class _Gathered:
    """Nulls and bounds of a column, over all batches."""

    def __init__(self) -> None:
        self.nulls = 0
        self.least: Any = None
        self.greatest: Any = None

    def add(self, values: pa.Array, *, has_order: bool) -> None:
        self.nulls += values.null_count
        if not has_order or values.null_count == len(values):
            return
        bounds = pc.min_max(values).as_py()
        if self.least is None or bounds["min"] < self.least:
            self.least = bounds["min"]
        if self.greatest is None or bounds["max"] > self.greatest:
            self.greatest = bounds["max"]


def _entities(type_: EntityType, rows: pa.Table) -> list[Entity]:
    is_edge = isinstance(type_, EdgeType)
    blobs = {prop.name for prop in type_.properties if _is_blob(prop)}
    found = []
    for row in rows.to_pylist():
        values = {prop.name: row[prop.name] for prop in type_.properties}
        values |= {name: None if values[name] is None else values[name]["size"] for name in blobs}
        source, target = (row[SRC_COLUMN], row[DST_COLUMN]) if is_edge else (None, None)
        found.append(Entity(type_, row[ID_COLUMN], source, target, values))
    return found


def _is_blob(prop: Property) -> bool:
    return prop.type.scalar is Scalar.BLOB


def _has_order(prop: Property) -> bool:
    return not prop.type.is_list and prop.type.scalar not in _UNORDERED
