"""Changes of rows as records, one per entity, for those who show them or write them to a file."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from heapq import merge
from operator import attrgetter
from typing import Any

import pyarrow as pa

from omnigraph_core.diff.tables import RowChanges, TableDiff
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, PropertyType, Scalar
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.values.arrays import whole

Values = Mapping[str, Any]
"""By property; `src` and `dst` of an edge are among them, and `id` is not."""

_TEXT = PropertyType(Scalar.STRING)


class Op(StrEnum):
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class EntityChange:
    """What became of one entity. An update has the properties that differ, by their later names."""

    op: Op
    entity: EntityType
    entity_id: str
    before: Values | None
    after: Values | None


def entity_changes(diff: TableDiff, ops: Collection[Op] = tuple(Op)) -> Iterator[EntityChange]:
    """All changes of a type by ascending id."""
    for found in diff.batches():
        parts = []
        if Op.INSERT in ops and diff.after is not None:
            parts.append(_whole_rows(Op.INSERT, diff.after.entity, found.inserted))
        if Op.DELETE in ops and diff.before is not None:
            parts.append(_whole_rows(Op.DELETE, diff.before.entity, found.deleted))
        if Op.UPDATE in ops and diff.before is not None and diff.after is not None:
            parts.append(_updates(diff.before.entity, diff.after.entity, found))
        yield from merge(*parts, key=attrgetter("entity_id"))


def _whole_rows(op: Op, entity: EntityType, rows: pa.Table) -> Iterator[EntityChange]:
    for entity_id, values in shown_rows(entity, rows):
        before, after = (values, None) if op is Op.DELETE else (None, values)
        yield EntityChange(op, entity, entity_id, before, after)


def shown_rows(entity: EntityType, rows: pa.Table) -> Iterator[tuple[str, dict[str, Any]]]:
    """The id and all values of each row."""
    if not rows.num_rows:
        return
    names = [name for name in entity.columns if name != ID_COLUMN]
    columns = [_shown(rows, name, entity) for name in names]
    for position, entity_id in enumerate(rows.column(ID_COLUMN).to_pylist()):
        yield entity_id, {name: column[position] for name, column in zip(names, columns, strict=True)}


def _updates(old: EntityType, new: EntityType, found: RowChanges) -> Iterator[EntityChange]:
    touched = {name: mask for name, mask in found.changed.items() if mask.any()}
    before = {name: _shown(found.before, found.was[name], old) for name in touched}
    after = {name: _shown(found.after, name, new) for name in touched}
    for position, entity_id in enumerate(found.after.column(ID_COLUMN).to_pylist() if touched else ()):
        names = [name for name, mask in touched.items() if mask[position]]
        was = {name: before[name][position] for name in names}
        yield EntityChange(Op.UPDATE, new, entity_id, was, {name: after[name][position] for name in names})


def _shown(rows: pa.Table, name: str, entity: EntityType) -> list[Any]:
    prop = entity.find_property(name)
    return shown_values(whole(rows.column(name)), _TEXT if prop is None else prop.type)


def shown_values(values: pa.Array, type_: PropertyType) -> list[Any]:
    """Values of a column for a record: instants in UTC, F32 in its shortest digits, blobs by digest."""
    if type_.scalar is Scalar.BLOB:
        return [None if each is None else blob_facts(each) for each in values.to_pylist()]
    listed = type_.is_list or type_.scalar is Scalar.VECTOR
    if type_.scalar is Scalar.VECTOR:
        values = values.cast(pa.list_(values.type.value_field))
    if type_.scalar in (Scalar.F32, Scalar.VECTOR):
        values = _through(values, pa.utf8(), pa.float64(), listed=listed)
    elif type_.scalar is Scalar.DATE_TIME:
        values = _through(values, pa.int64(), pa.timestamp("ms", "UTC"), listed=listed)
    found: list[Any] = values.to_pylist()
    return found


def _through(values: pa.Array, first: pa.DataType, then: pa.DataType, *, listed: bool) -> pa.Array:
    if not listed:
        return values.cast(first).cast(then)
    return values.cast(pa.list_(pa.field("item", first))).cast(pa.list_(pa.field("item", then)))


def blob_facts(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
