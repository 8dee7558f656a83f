"""Merging rows: base, ours and theirs in, what to write and what clashes out. Nothing else.

Rows are matched by `id`. An entity is merged property by property: what one side changed and the
other left alone is taken from the side that changed it; what both changed to the same is that.
The two ends of an edge are one value, and so are a list and a vector: a merge never makes a value
that neither side has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.diff.equality import Mask, differ
from omnigraph_core.merge.conflicts import ConflictKind
from omnigraph_core.records import dataclass
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.values.arrays import whole

ENDS = "src, dst"
"""The unit that the two ends of an edge are."""


class Preference(StrEnum):
    """Whose value is taken where both changed it, instead of a clash."""

    OURS = "ours"
    THEIRS = "theirs"


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of one state, each id once; of a virtual one, with values that nobody has."""

    table: pa.Table
    nobody: Mapping[str, Mask]
    """By unit, the rows in which it holds a value that differs from every other; none if left out."""


def rows(table: pa.Table) -> Rows:
    """Rows of a state that somebody saw."""
    return Rows(table, {})


@dataclass(frozen=True, slots=True)
class MergedRows:
    """What makes ours the merge: nothing of it for rows that stay as ours has them."""

    upserts: pa.Table
    """Whole rows to insert or to replace, by ascending id."""
    removed: pa.Array
    """Ids of rows to delete."""
    clashes: pa.Table
    """`id`, `kind` and `unit` of everything that both sides changed differently. The unit is null
    where the whole row clashes. By id, then by unit."""
    clashing: pa.Table
    """The clashing rows as merged so far: with ours where a unit clashes, and where ours has no
    row, theirs. What a resolution is put into."""


def units_of(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The values that are merged one by one, with their columns."""
    units: dict[str, tuple[str, ...]] = {ENDS: (SRC_COLUMN, DST_COLUMN)} if SRC_COLUMN in names else {}
    return units | {name: (name,) for name in names if name not in (ID_COLUMN, SRC_COLUMN, DST_COLUMN)}


def three_way(
    base: Rows,
    ours: Rows,
    theirs: Rows,
    prefer: Preference | None = None,
    restored: frozenset[str] = frozenset(),
) -> MergedRows:
    """Merge all rows that any of the three has. They have the same columns.

    A row that is equal to ours is not written. With `prefer` nothing clashes. That theirs has other
    values in `restored` columns does not make a row changed which ours has deleted.
    """
    merge = _Merge(base, ours, theirs, restored)
    by_row, by_unit = merge.clashing_rows(), merge.clashing_units()
    takes_theirs = dict(merge.takes_theirs)
    if prefer is not None:
        theirs_wins = prefer is Preference.THEIRS
        takes_theirs = {unit: mask | (by_unit[unit] & theirs_wins) for unit, mask in takes_theirs.items()}
        present = np.where(by_row, merge.theirs.present if theirs_wins else merge.ours.present, merge.present)
        takes_theirs = {unit: mask | (by_row & theirs_wins) for unit, mask in takes_theirs.items()}
        clash = np.zeros(len(merge.ids), np.bool_)
    else:
        present = merge.present
        clash = by_row.copy()
        for mask in by_unit.values():
            clash |= mask
    taken = np.zeros(len(merge.ids), np.bool_)
    for mask in takes_theirs.values():
        taken |= mask
    merged = merge.combined(takes_theirs)
    written = present & ~clash & (taken | ~merge.ours.present)
    removed = merge.ours.present & ~present & ~clash
    return MergedRows(
        upserts=merged.filter(pa.array(written)),
        removed=merge.ids.filter(pa.array(removed)),
        clashes=merge.clashes(by_row, by_unit) if prefer is None else no_clashes(),
        clashing=merged.filter(pa.array(clash)),
    )


def virtual(base: Rows, ours: Rows, theirs: Rows) -> Rows:
    """The same for two bases: a state that stands for both.

    Where they clash it holds a value that nobody has, so whoever agrees later agrees in spite of
    it, and whoever does not clashes again.
    """
    merge = _Merge(base, ours, theirs)
    by_row, by_unit = merge.clashing_rows(), merge.clashing_units()
    present = merge.present | by_row
    merged = merge.combined(merge.takes_theirs)
    nobody = {}
    for unit, taken in merge.takes_theirs.items():
        inherited = np.where(taken, merge.theirs.nobody[unit], merge.ours.nobody[unit])
        only_one = by_row & ~(merge.ours.present & merge.theirs.present)
        unsettled = by_row & merge.differ_now[unit]
        nobody[unit] = (inherited | by_unit[unit] | only_one | unsettled)[present]
    return Rows(merged.filter(pa.array(present)), nobody)


def differing_ids(one: Rows, other: Rows) -> pa.Array:
    """The ids of rows that only one of the two has, or that are not alike."""
    ids, units = _all_ids(one, other), units_of(one.table.column_names)
    before, after = _Aligned(one, ids, units), _Aligned(other, ids, units)
    found = before.present != after.present
    for unit, names in units.items():
        found |= _differ(unit, names, before, after)
    return ids.filter(pa.array(found))


def no_clashes() -> pa.Table:
    return pa.table({name: pa.array([], pa.utf8()) for name in ("id", "kind", "unit")})


class _Aligned:
    """One side brought in line with the ids of all three: a null row where it has none."""

    def __init__(self, side: Rows, ids: pa.Array, units: Mapping[str, Sequence[str]]) -> None:
        places = pc.index_in(ids, value_set=whole(side.table.column(ID_COLUMN)))
        self.present: Mask = pc.is_valid(places).to_numpy(zero_copy_only=False)
        self.table = side.table.take(places)
        self.nobody: dict[str, Mask] = {}
        positions = pc.fill_null(places, 0).to_numpy()
        for unit in units:
            known = side.nobody.get(unit)
            found = np.zeros(len(ids), np.bool_)
            if known is not None and len(known):
                found = known[positions] & self.present
            self.nobody[unit] = found


def _differ(unit: str, names: Sequence[str], one: _Aligned, other: _Aligned) -> Mask:
    """The rows that both have, and in which a unit is not the same."""
    found = one.nobody[unit] | other.nobody[unit]
    if one is not other:
        for name in names:
            found = found | differ(one.table.column(name), other.table.column(name))
    return found & one.present & other.present


class _Merge:
    """The decisions, row by row and unit by unit; masks over all ids."""

    def __init__(self, base: Rows, ours: Rows, theirs: Rows, restored: frozenset[str] = frozenset()) -> None:
        names = ours.table.column_names
        self.units = units_of(names)
        self.ids = _all_ids(base, ours, theirs)
        self.base, self.theirs = (_Aligned(side, self.ids, self.units) for side in (base, theirs))
        self.ours = self.base if ours is base else _Aligned(ours, self.ids, self.units)
        ours_changed = self._differ(self.base, self.ours)
        theirs_changed = self._differ(self.base, self.theirs)
        self.differ_now = theirs_changed if ours is base else self._differ(self.ours, self.theirs)
        self._updated_by_both = self.base.present & self.ours.present & self.theirs.present
        self._clash_if_updated = {
            unit: ours_changed[unit] & theirs_changed[unit] & self.differ_now[unit] for unit in self.units
        }
        self._ours_changed, self._theirs_changed = (
            self._any({unit: mask for unit, mask in changed.items() if unit not in restored})
            for changed in (ours_changed, theirs_changed)
        )
        added = ~self.base.present & ~self.ours.present & self.theirs.present
        brought_back = self.clashing_rows() & ~self.ours.present
        self.takes_theirs: dict[str, Mask] = {
            unit: (self._updated_by_both & theirs_changed[unit] & ~ours_changed[unit]) | added | brought_back
            for unit in self.units
        }
        """Where theirs is in the merged row; where ours clashes with it, it is not."""
        self.present = self._present()

    def clashing_rows(self) -> Mask:
        """Where the rows clash as a whole: inserted on both sides and not alike, or deleted and changed."""
        return self._inserted_twice() | self._deleted_and_changed()

    def clashing_units(self) -> dict[str, Mask]:
        return {unit: self._updated_by_both & mask for unit, mask in self._clash_if_updated.items()}

    def _inserted_twice(self) -> Mask:
        both = ~self.base.present & self.ours.present & self.theirs.present
        return both & self._any(self.differ_now)

    def _deleted_and_changed(self) -> Mask:
        ours_deleted = ~self.ours.present & self.theirs.present & self._theirs_changed
        theirs_deleted = self.ours.present & ~self.theirs.present & self._ours_changed
        return self.base.present & (ours_deleted | theirs_deleted)

    def _present(self) -> Mask:
        """Is there a row afterwards? Where rows clash, as ours has it."""
        kept = self.base.present & self.ours.present & self.theirs.present
        added = ~self.base.present & (self.ours.present | self.theirs.present)
        return np.where(self.clashing_rows(), self.ours.present, kept | added)

    def _any(self, masks: Mapping[str, Mask]) -> Mask:
        found = np.zeros(len(self.ids), np.bool_)
        for mask in masks.values():
            found |= mask
        return found

    def _differ(self, one: _Aligned, other: _Aligned) -> dict[str, Mask]:
        return {unit: _differ(unit, names, one, other) for unit, names in self.units.items()}

    def combined(self, takes_theirs: Mapping[str, Mask]) -> pa.Table:
        """Every row, with theirs where it says so and ours elsewhere."""
        columns = {ID_COLUMN: self.ids}
        for unit, names in self.units.items():
            places = np.arange(len(self.ids)) + takes_theirs[unit] * len(self.ids)
            for name in names:
                ours, theirs = self.ours.table.column(name), self.theirs.table.column(name)
                both = pa.chunked_array([*ours.chunks, *theirs.chunks], ours.type)
                columns[name] = both.take(pa.array(places))
        schema = self.ours.table.schema
        return pa.table([columns[name] for name in schema.names], schema=schema)

    def clashes(self, by_row: Mask, by_unit: Mapping[str, Mask]) -> pa.Table:
        twice = self._inserted_twice()
        parts = [
            self._clash_part(by_row & twice, ConflictKind.DIVERGENT_INSERT, None),
            self._clash_part(by_row & ~twice, ConflictKind.DELETE_VS_UPDATE, None),
        ]
        parts += [
            self._clash_part(mask, ConflictKind.DIVERGENT_UPDATE, unit) for unit, mask in by_unit.items()
        ]
        return pa.concat_tables(parts).sort_by([("id", "ascending"), ("unit", "ascending")])

    def _clash_part(self, mask: Mask, kind: ConflictKind, unit: str | None) -> pa.Table:
        ids = self.ids.filter(pa.array(mask))
        kinds, units = pa.array([kind.value] * len(ids), pa.utf8()), pa.array([unit] * len(ids), pa.utf8())
        return pa.table({"id": ids, "kind": kinds, "unit": units})


def _all_ids(*sides: Rows) -> pa.Array:
    """Every id of any side once, ascending."""
    chunks = [chunk for side in sides for chunk in side.table.column(ID_COLUMN).chunks]
    ids = pc.unique(pa.chunked_array(chunks, pa.utf8()))
    return ids.take(pc.sort_indices(ids))
