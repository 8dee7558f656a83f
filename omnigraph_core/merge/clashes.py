"""Clashes of rows in the words of conflicts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.diff.records import shown_rows
from omnigraph_core.merge.conflicts import Conflict, ConflictKind
from omnigraph_core.merge.rows import ENDS, MergedRows, Rows
from omnigraph_core.schema import EntityType
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.values.as_json import as_json
from omnigraph_core.values.shown import clipped

_Shown = dict[str, dict[str, Any]]


def row_conflicts(
    entity: EntityType, merged: MergedRows, base: Rows, ours: Rows, theirs: Rows
) -> list[Conflict]:
    """A conflict for each clash of `three_way(base, ours, theirs)`, in their order."""
    if not merged.clashes.num_rows:
        return []
    ids = merged.clashes.column(ID_COLUMN)
    sides = [_shown(entity, side.table, ids) for side in (base, ours, theirs)]
    settled = _without_nobody(base, sides[0])
    return [_conflict(entity, clash, settled, sides[1], sides[2]) for clash in merged.clashes.to_pylist()]


def _shown(entity: EntityType, table: pa.Table, ids: pa.ChunkedArray) -> _Shown:
    """The clashing rows of a side by id, JSON-ready."""
    chosen = table.filter(pc.is_in(table.column(ID_COLUMN), value_set=ids.combine_chunks()))
    return {
        entity_id: {name: as_json(value) for name, value in values.items()}
        for entity_id, values in shown_rows(entity, chosen)
    }


def _without_nobody(base: Rows, shown: _Shown) -> _Shown:
    """Values that nobody has are not shown."""
    if not any(mask.any() for mask in base.nobody.values()):
        return shown
    for position, entity_id in enumerate(base.table.column(ID_COLUMN).to_pylist()):
        for unit, mask in base.nobody.items():
            if entity_id in shown and mask[position]:
                names = (SRC_COLUMN, DST_COLUMN) if unit == ENDS else (unit,)
                shown[entity_id].update(dict.fromkeys(names))
    return shown


def _conflict(
    entity: EntityType, clash: dict[str, Any], base: _Shown, ours: _Shown, theirs: _Shown
) -> Conflict:
    entity_id, unit, kind = clash["id"], clash["unit"], ConflictKind(clash["kind"])
    subject = f"{entity.name}/{clipped(entity_id)}"
    return Conflict(
        kind=kind,
        entity_kind=entity.kind,
        type_name=entity.name,
        entity_id=entity_id,
        property_name=None if unit == ENDS else unit,
        base=_value(base.get(entity_id), unit),
        ours=_value(ours.get(entity_id), unit),
        theirs=_value(theirs.get(entity_id), unit),
        message=_message(subject, kind, unit, ours_has=entity_id in ours),
    )


def _value(row: dict[str, Any] | None, unit: str | None) -> Any:
    if row is None or unit is None:
        return row
    if unit == ENDS:
        return {name: row[name] for name in (SRC_COLUMN, DST_COLUMN)}
    return row[unit]


def _message(name: str, kind: ConflictKind, unit: str | None, *, ours_has: bool) -> str:
    if kind is ConflictKind.DIVERGENT_INSERT:
        return f"{name} was inserted on both sides, with different values"
    if kind is ConflictKind.DELETE_VS_UPDATE:
        who = ("theirs", "ours") if ours_has else ("ours", "theirs")
        return f"{name} was deleted by {who[0]} and changed by {who[1]}"
    what = "the ends of the edge were" if unit == ENDS else f"{unit} was"
    return f"{name}: {what} changed differently on both sides"
