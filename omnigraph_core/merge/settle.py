"""Choices put into a merge: its tables without the clashes and orphans that were decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.errors import BadDataError
from omnigraph_core.merge.conflicts import Conflict, ConflictKind, Take
from omnigraph_core.merge.engine import MergedTable, rows_at, unchanged
from omnigraph_core.merge.ground import Ground
from omnigraph_core.merge.resolve import Choice, Identity
from omnigraph_core.merge.rows import ENDS, MergedRows, differing_ids, no_clashes, rows, units_of
from omnigraph_core.schema import EdgeType, EntityType, NodeType
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.values.arrays import whole
from omnigraph_core.values.coerce import CoercionError, coerce

Choices = Mapping[Identity, Choice]
_OURS, _THEIRS, _GIVEN = 0, 1, 2


def settle_rows(table: MergedTable, choices: Choices) -> MergedTable:
    """The merge of a type in which every clash is decided."""
    if not table.rows.clashes.num_rows:
        return table
    return replace(table, rows=_Clashing(table, choices).settled())


class _Clashing:
    """The clashing rows of one type; `clashing` has ours where a unit clashes."""

    def __init__(self, table: MergedTable, choices: Choices) -> None:
        self._table = table
        self._choices = choices
        self._rows = table.rows.clashing
        self._ids: list[str] = self._rows.column(ID_COLUMN).to_pylist()
        self._place = {entity_id: place for place, entity_id in enumerate(self._ids)}
        self._units = units_of(self._rows.column_names)
        self._from = {unit: np.full(len(self._ids), _OURS) for unit in self._units}
        self._given: dict[str, list[object]] = {
            name: [None] * len(self._ids) for names in self._units.values() for name in names
        }
        self._has_ours = self._present(table.ours.table)
        self._has_theirs = self._present(table.theirs.table)
        self._stays = np.zeros(len(self._ids), np.bool_)
        self._goes = np.zeros(len(self._ids), np.bool_)

    def settled(self) -> MergedRows:
        for clash in self._table.rows.clashes.to_pylist():
            self._decide(clash["id"], ConflictKind(clash["kind"]), clash["unit"])
        merged = self._combined()
        written = merged.filter(pa.array(~self._goes & ~self._stays))
        changed = differing_ids(rows(written), rows(self._table.ours.table))
        written = written.filter(pc.is_in(written.column(ID_COLUMN), value_set=changed))
        gone = pa.array(self._ids, pa.utf8()).filter(pa.array(self._goes & self._has_ours))
        before = self._table.rows
        return MergedRows(
            upserts=pa.concat_tables([before.upserts, written]).sort_by(ID_COLUMN),
            removed=pa.concat_arrays([before.removed, gone]),
            clashes=no_clashes(),
            clashing=self._rows.slice(0, 0),
        )

    def _decide(self, entity_id: str, kind: ConflictKind, unit: str | None) -> None:
        place = self._place[entity_id]
        name = None if unit == ENDS else unit
        choice = self._choices[(kind, self._table.entity.table_key, entity_id, name)]
        if choice.take is Take.DELETE:
            self._goes[place] = True
        elif choice.take is Take.VALUE:
            self._give(place, unit, choice.value)
        elif choice.take is Take.THEIRS:
            self._goes[place] |= not self._has_theirs[place]
            for each in self._units if unit is None else (unit,):
                self._from[each][place] = _THEIRS
        elif unit is None:
            self._stays[place] = True

    def _give(self, place: int, unit: str | None, value: Any) -> None:
        """Take a value, or all values of an entity, from the file."""
        entity = self._table.entity
        wanted = [name for each in (self._units if unit is None else (unit,)) for name in self._units[each]]
        given = {unit: value} if unit is not None and unit != ENDS else value
        subject = f"{entity.name}/{self._ids[place]}"
        if not isinstance(given, dict) or not set(given) <= set(wanted):
            raise BadDataError(f"{subject}: the value must be an object of {', '.join(wanted)}")
        keyed = _key_columns(entity)
        for each in self._units if unit is None else (unit,):
            for name in self._units[each]:
                if name in keyed:
                    self._check_key(place, name, given, subject)
                    continue
                self._given[name][place] = _coerced(entity, name, given.get(name), subject)
                self._from[each][place] = _GIVEN

    def _check_key(self, place: int, name: str, given: Mapping[str, Any], subject: str) -> None:
        """A key is what the entity is known by: both sides have the same."""
        kept = self._rows.column(name)[place]
        if name not in given:
            return
        wanted = pa.scalar(_coerced(self._table.entity, name, given[name], subject), kept.type)
        if not wanted.equals(kept):
            raise BadDataError(f"{subject}: {name} is its key, and stays what it is")

    def _combined(self) -> pa.Table:
        columns: dict[str, Any] = {ID_COLUMN: self._rows.column(ID_COLUMN)}
        theirs = self._aligned(self._table.theirs.table)
        for unit, names in self._units.items():
            places = pa.array(np.arange(len(self._ids)) + self._from[unit] * len(self._ids))
            for name in names:
                ours = whole(self._rows.column(name))
                parts = [ours, whole(theirs.column(name)), pa.array(self._given[name], ours.type)]
                columns[name] = pa.chunked_array(parts, ours.type).take(places)
        schema = self._rows.schema
        return pa.table([columns[name] for name in schema.names], schema=schema)

    def _aligned(self, side: pa.Table) -> pa.Table:
        ids = whole(side.column(ID_COLUMN))
        return side.take(pc.index_in(pa.array(self._ids, pa.utf8()), value_set=ids))

    def _present(self, side: pa.Table) -> np.ndarray[Any, Any]:
        known = set(side.column(ID_COLUMN).to_pylist())
        return np.array([entity_id in known for entity_id in self._ids], np.bool_)


def settle_orphans(
    tables: Sequence[MergedTable], orphans: Sequence[Conflict], choices: Choices, ground: Ground
) -> tuple[MergedTable, ...]:
    """The merge in which edges without their node are gone, or their node is there again."""
    found = _Orphans({each.entity.table_key: each for each in tables}, ground)
    for edge, ids in _by_edge(ground, orphans, choices, goes=True):
        found.drop(edge, ids)
    for edge, ids in _by_edge(ground, orphans, choices, goes=False):
        found.keep_nodes(edge, ids)
    return tuple(found.tables[key] for key in sorted(found.tables))


def _by_edge(
    ground: Ground, orphans: Sequence[Conflict], choices: Choices, *, goes: bool
) -> Iterator[tuple[EdgeType, pa.Array]]:
    """The edges that are to go, or whose nodes are to stay, type by type."""
    for edge in ground.schema.edges:
        found = {
            each.entity_id
            for each in orphans
            if each.table_key == edge.table_key and (choices[each.identity].take is Take.DELETE) == goes
        }
        if found:
            yield edge, pa.array(sorted(str(each) for each in found), pa.utf8())


class _Orphans:
    """The edges of one type at a time: there may be as many as a node that went had."""

    def __init__(self, tables: dict[str, MergedTable], ground: Ground) -> None:
        self.tables = tables
        self._ground = ground

    def drop(self, edge: EdgeType, ids: pa.Array) -> None:
        merged = self._merged(edge).rows
        there = whole(self._ours(edge, ids).column(ID_COLUMN))
        removed = pa.concat_arrays([merged.removed, _not_in(there, merged.removed)])
        self._put(edge, replace(merged, upserts=_without(merged.upserts, ids), removed=removed))

    def keep_nodes(self, edge: EdgeType, ids: pa.Array) -> None:
        upserts = self._merged(edge).rows.upserts
        written = upserts.filter(pc.is_in(upserts.column(ID_COLUMN), value_set=ids))
        others = self._ours(edge, _not_in(ids, whole(written.column(ID_COLUMN))))
        schema = self._ground.schema
        for column, type_name in ((SRC_COLUMN, edge.from_type), (DST_COLUMN, edge.to_type)):
            found = pa.chunked_array(
                [*written.column(column).chunks, *others.column(column).chunks], pa.utf8()
            )
            self._keep(schema.node(type_name), whole(pc.unique(found)))

    def _keep(self, node: NodeType, ids: pa.Array) -> None:
        """Those that theirs deleted stay as they are; those that ours deleted come back from theirs."""
        merged = self._merged(node).rows
        lost = _not_in(_not_in(ids, merged.removed), whole(merged.upserts.column(ID_COLUMN)))
        lost = _not_in(lost, whole(self._ours(node, lost).column(ID_COLUMN)))
        back = rows_at(self._ground, self._ground.sides.theirs, node, lost)
        upserts = pa.concat_tables([merged.upserts, back]).sort_by(ID_COLUMN)
        self._put(node, replace(merged, removed=_not_in(merged.removed, ids), upserts=upserts))

    def _ours(self, entity: EntityType, ids: pa.Array) -> pa.Table:
        return rows_at(self._ground, self._ground.sides.ours, entity, ids)

    def _merged(self, entity: EntityType) -> MergedTable:
        if entity.table_key not in self.tables:
            self.tables[entity.table_key] = unchanged(entity)
        return self.tables[entity.table_key]

    def _put(self, entity: EntityType, merged: MergedRows) -> None:
        self.tables[entity.table_key] = replace(self._merged(entity), rows=merged)


def _not_in(ids: pa.Array, others: pa.Array) -> pa.Array:
    return ids.filter(pc.invert(pc.is_in(ids, value_set=others)))


def _without(table: pa.Table, ids: pa.Array) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table.column(ID_COLUMN), value_set=ids)))


def _key_columns(entity: EntityType) -> Sequence[str]:
    key = entity.key if isinstance(entity, NodeType) else None
    return () if key is None else key.columns


def _coerced(entity: EntityType, name: str, value: Any, subject: str) -> object:
    prop = entity.find_property(name)
    if prop is None:
        if not isinstance(value, str):
            raise BadDataError(f"{subject}: {name} must be a text")
        return value
    if value is None:
        if not prop.type.nullable:
            raise BadDataError(f"{subject}: {name} must have a value")
        return None
    try:
        return coerce(value, prop.type)
    except CoercionError as error:
        raise BadDataError(f"{subject}: {name}: {error}") from error
