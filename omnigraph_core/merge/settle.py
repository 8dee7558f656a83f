"""Choices put into a merge: its tables without the clashes and orphans that were decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.errors import BadDataError
from omnigraph_core.layout import split_table_key
from omnigraph_core.merge.conflicts import Conflict, ConflictKind
from omnigraph_core.merge.engine import MergedTable, Sides, rows_at
from omnigraph_core.merge.resolve import Choice, Identity, Take
from omnigraph_core.merge.rows import ENDS, MergedRows, differing_ids, no_clashes, rows, units_of
from omnigraph_core.schema import EdgeType, EntityType, NodeType
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.dataset import Tables
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
    tables: Sequence[MergedTable], orphans: Iterable[Conflict], choices: Choices, lance: Tables, sides: Sides
) -> tuple[MergedTable, ...]:
    """The merge in which edges without their node are gone, or their node is there again."""
    found = _Orphans({each.entity.table_key: each for each in tables}, lance, sides)
    for orphan in orphans:
        kind, type_name = split_table_key(orphan.table_key)
        assert kind == "edge"
        assert orphan.entity_id is not None
        edge = next(each for each in sides.ours.schema.edges if each.name == type_name)
        if choices[orphan.identity].take is Take.DELETE:
            found.drop(edge, orphan.entity_id)
        else:
            found.keep_nodes(edge, orphan.entity_id)
    return tuple(found.tables[key] for key in sorted(found.tables))


class _Orphans:
    """One orphan at a time: there are few, and each was decided by a person."""

    def __init__(self, tables: dict[str, MergedTable], lance: Tables, sides: Sides) -> None:
        self.tables = tables
        self._lance = lance
        self._sides = sides

    def drop(self, edge: EdgeType, entity_id: str) -> None:
        merged = self._merged(edge).rows
        kept = merged.upserts.filter(pc.not_equal(merged.upserts.column(ID_COLUMN), entity_id))
        there = self._ours(edge, entity_id).column(ID_COLUMN).combine_chunks()
        new = there.filter(pc.invert(pc.is_in(there, value_set=merged.removed)))
        self._put(edge, replace(merged, upserts=kept, removed=pa.concat_arrays([merged.removed, new])))

    def keep_nodes(self, edge: EdgeType, entity_id: str) -> None:
        written = self._merged(edge).rows.upserts
        found = written.filter(pc.equal(written.column(ID_COLUMN), entity_id))
        row = found if found.num_rows else self._ours(edge, entity_id)
        schema = self._sides.ours.schema
        for column, type_name in ((SRC_COLUMN, edge.from_type), (DST_COLUMN, edge.to_type)):
            for node_id in row.column(column).to_pylist():
                self._keep(schema.node(type_name), node_id)

    def _keep(self, node: NodeType, node_id: str) -> None:
        merged = self._merged(node).rows
        removed = merged.removed.filter(pc.not_equal(merged.removed, node_id))
        if len(removed) < len(merged.removed):
            self._put(node, replace(merged, removed=removed))
        elif not self._ours(node, node_id).num_rows and not _has(merged.upserts, node_id):
            row = rows_at(self._lance, self._sides.theirs, node, pa.array([node_id]))
            upserts = pa.concat_tables([merged.upserts, row]).sort_by(ID_COLUMN)
            self._put(node, replace(merged, upserts=upserts))

    def _ours(self, entity: EntityType, entity_id: str) -> pa.Table:
        return rows_at(self._lance, self._sides.ours, entity, pa.array([entity_id]))

    def _merged(self, entity: EntityType) -> MergedTable:
        if entity.table_key not in self.tables:
            none = rows_at(self._lance, self._sides.ours, entity, pa.array([], pa.utf8()))
            nothing = MergedRows(none, pa.array([], pa.utf8()), no_clashes(), none)
            self.tables[entity.table_key] = MergedTable(entity, nothing, rows(none), rows(none), rows(none))
        return self.tables[entity.table_key]

    def _put(self, entity: EntityType, merged: MergedRows) -> None:
        self.tables[entity.table_key] = replace(self._merged(entity), rows=merged)


def _has(table: pa.Table, entity_id: str) -> bool:
    return bool(pc.index(table.column(ID_COLUMN), entity_id).as_py() >= 0)


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
