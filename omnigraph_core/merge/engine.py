"""What makes a branch the merge of itself and another state: changes of its tables, and conflicts.

Three states go in, of which ours is the branch, all read as if they had the schema of the result.
Only rows that theirs has changed since the base are looked at; all others stay as ours has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.diff.graph import State
from omnigraph_core.merge.base import BaseRows, only, together
from omnigraph_core.merge.clashes import row_conflicts
from omnigraph_core.merge.conflicts import Conflict
from omnigraph_core.merge.ground import Ground
from omnigraph_core.merge.lens import Lens, read_schema
from omnigraph_core.merge.limits import ROWS_AT_ONCE
from omnigraph_core.merge.rows import MergedRows, Preference, Rows, differing_ids, no_clashes, rows, three_way
from omnigraph_core.records import dataclass
from omnigraph_core.rules.changeset import TableChange
from omnigraph_core.schema import EntityType
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.row_set import RowSet
from omnigraph_core.values.arrays import whole
from omnigraph_core.values.columns import storable


@dataclass(frozen=True, slots=True)
class MergedTable:
    """One type: what to do to ours, and what clashes. The clashing rows stay as they are.

    Of base, ours and theirs it has the clashing rows.
    """

    entity: EntityType
    rows: MergedRows
    base: Rows
    ours: Rows
    theirs: Rows
    whole: pa.Table | None = None
    """All rows of ours, where the rules must judge all that there are afterwards."""
    rewrites: bool = False
    """Must every row be written, because a column is made anew?"""

    @property
    def change(self) -> TableChange:
        written = self._with_rest() if self.rewrites else self.rows.upserts
        return TableChange(self.entity, storable(written, self.entity), removed=self.rows.removed)

    @property
    def judged(self) -> TableChange:
        """What the rules are asked about: the same, or everything that is there afterwards."""
        if self.whole is None:
            return self.change
        return TableChange(self.entity, storable(self._with_rest(), self.entity), replaces=True)

    def _with_rest(self) -> pa.Table:
        """What is written, and what stays; clashing rows are neither."""
        if self.whole is None:
            return self.rows.upserts
        touched = [whole(self.rows.upserts.column(ID_COLUMN)), self.rows.removed, self.clashing_ids]
        gone = pc.is_in(self.whole.column(ID_COLUMN), value_set=pa.concat_arrays(touched))
        return pa.concat_tables([self.rows.upserts, self.whole.filter(pc.invert(gone))])

    @property
    def clashing_ids(self) -> pa.Array:
        return pc.unique(whole(self.rows.clashes.column(ID_COLUMN)))

    @property
    def conflicts(self) -> list[Conflict]:
        return row_conflicts(self.entity, self.rows, self.base, self.ours, self.theirs)


def merge_tables(tables: Tables, ground: Ground, prefer: Preference | None = None) -> Iterator[MergedTable]:
    """Every type that theirs has changed, or that must be judged as a whole, in the order of table keys."""
    whole_types = judged_whole(ground)
    for entity in sorted(ground.schema.types(), key=lambda each: each.table_key):
        merger = _Merger(tables, ground, entity)
        merged = merger.merged(prefer)
        if entity.table_key in whole_types:
            yield merger.as_a_whole(merged)
        elif merged is not None:
            yield merged


class _Merger:
    """The merge of one type."""

    def __init__(self, tables: Tables, ground: Ground, entity: EntityType) -> None:
        self._tables = tables
        self._ground = ground
        self._sides = ground.sides
        self._entity = entity
        self._opened: dict[str, Lens] = {}

    def merged(self, prefer: Preference | None) -> MergedTable | None:
        theirs, ours = self._entry(self._sides.theirs), self._entry(self._sides.ours)
        known = [self._entry(state) for state in self._sides.bases.values()]
        if theirs is None or theirs == ours or (known and all(theirs == each for each in known)):
            return None
        changed = [self._base(one).compared(self._tables, self._side(other)) for one, other in self._pairs()]
        if len(changed) == 1 and sum(_count(each) for each in changed[0]) <= ROWS_AT_ONCE:
            return self._few(*changed[0], prefer)
        ids = self._candidates(changed)
        if not len(ids):
            return None
        starts = range(0, len(ids), ROWS_AT_ONCE)
        return _joined([self._part(ids[start : start + ROWS_AT_ONCE], prefer) for start in starts])

    def as_a_whole(self, merged: MergedTable | None) -> MergedTable:
        """The merge with all rows of ours; they are written too if a column is made anew."""
        ours = self._side("ours")
        every = ours.read(ours.all())
        fitting(self._entity, "ours", every)
        rewrites = bool(remade_columns(self._ground, self._entity))
        return replace(merged or unchanged(self._entity), whole=every.table, rewrites=rewrites)

    def _part(self, ids: pa.Array, prefer: Preference | None) -> MergedTable:
        """The merge of some of the rows: what is not needed any more is let go of before the next."""
        sides = self._sides
        bases = BaseRows(
            sides.parents, self._side("theirs").none().table.schema, self._read_at, sides.is_readable
        )
        base = bases.of(tuple(sides.bases), ids)
        return self._three_way(base, self._side("ours").of(ids), self._side("theirs").of(ids), prefer)

    def _few(self, gone: RowSet | None, come: RowSet | None, prefer: Preference | None) -> MergedTable | None:
        """The merge from one base, if little has changed since.

        What differs are all rows of base and theirs that have one of these ids: a row that both
        have is in neither part, and no table has an id twice. So they need not be looked up. Nor
        need rows of ours that nobody has touched since the base: they are still in its files.
        """
        if not _count(gone) and not _count(come):
            return None
        base_lens, ours = self._base(next(iter(self._sides.bases))), self._side("ours")
        (base, places), theirs = base_lens.read_placed(gone), self._side("theirs").read(come)
        if ours.is_same_table(base_lens):
            return self._three_way(base, base, theirs, prefer)
        ids = differing_ids(base, theirs)
        if not len(ids):
            return None
        base, theirs = only(base, ids), only(theirs, ids)
        places = places.filter(pc.is_in(places.column(ID_COLUMN), value_set=ids))
        kept = ours.kept(self._tables, base_lens, places)
        others = ids.filter(pc.invert(pc.is_in(ids, value_set=kept)))
        if not len(others):
            return self._three_way(base, base, theirs, prefer)
        mine = together(only(base, kept), ours.of(others))
        return self._three_way(base, mine, theirs, prefer)

    def _three_way(self, base: Rows, ours: Rows, theirs: Rows, prefer: Preference | None) -> MergedTable:
        fitting(self._entity, "ours", ours)
        fitting(self._entity, "theirs", theirs)
        merged = three_way(base, ours, theirs, prefer, self._restored())
        clashing = whole(merged.clashing.column(ID_COLUMN))
        before, mine, yours = (only(side, clashing) for side in (base, ours, theirs))
        return MergedTable(self._entity, merged, before, mine, yours)

    def _restored(self) -> frozenset[str]:
        """Columns that a revert or a reset brings back."""
        if not self._sides.takes_back:
            return frozenset()
        bases = [self._base(each) for each in self._sides.bases]
        return frozenset(
            name
            for name in self._entity.columns
            if self._side("theirs").stored(name) is not None
            and all(each.stored(name) is None for each in bases)
        )

    def _pairs(self) -> list[tuple[str, str]]:
        """What to compare: a base with theirs, and with the other bases."""
        bases = list(self._sides.bases)
        return [(bases[0], other) for other in ("theirs", *bases[1:])] if bases else []

    def _candidates(self, changed: Sequence[tuple[RowSet | None, RowSet | None]]) -> pa.Array:
        """Every id that theirs may have changed since any of the bases, or in which the bases differ."""
        sets = [each for pair in changed for each in pair] if changed else [self._side("theirs").all()]
        found: list[pa.Array] = []
        for each in sets:
            if each is not None and not each.is_empty:
                found += each.read([ID_COLUMN]).column(ID_COLUMN).chunks
        return _ids(pa.chunked_array(found, pa.utf8()))

    def _entry(self, state: State) -> tuple[str, str | None, int] | None:
        """The very version of the table that a state has."""
        key = self._ground.key_of(state, self._entity)
        if key is None:
            return None
        entry = state.snapshot.entry(key)
        return entry.table_path, entry.table_branch, entry.table_version

    def _side(self, name: str) -> Lens:
        """Ours, theirs, or a base by its commit."""
        if name in ("ours", "theirs"):
            if name not in self._opened:
                state = self._sides.ours if name == "ours" else self._sides.theirs
                self._opened[name] = self._ground.lens(state, self._entity)
            return self._opened[name]
        return self._base(name)

    def _base(self, commit_id: str) -> Lens:
        if commit_id not in self._opened:
            state = self._sides.bases.get(commit_id) or self._sides.state_at(commit_id)
            self._opened[commit_id] = self._ground.lens(state, self._entity)
        return self._opened[commit_id]

    def _read_at(self, commit_id: str, ids: pa.Array) -> Rows:
        return self._base(commit_id).of(ids)


def judged_whole(ground: Ground) -> set[str]:
    """Types that ours may break a rule of with rows it has: rules that are new to it, and types.

    Also those that tell rows apart by a column which is not stored so yet.
    """
    if ground.plan is None:
        return set()
    found = {question.table for question in ground.plan.questions}
    for image in ground.plan.images:
        unique = {name for each in image.entity.uniques for name in each.columns}
        changed = {each.prop.name for each in image.columns if not each.is_same}
        if image.origin is None or unique & changed or remade_columns(ground, image.entity):
            found.add(image.entity.table_key)
    return found


def remade_columns(ground: Ground, entity: EntityType) -> set[str]:
    """Properties whose stored column cannot become what is wanted, so that it is made anew."""
    if ground.plan is None:
        return set()
    return {
        step.property_name
        for step in ground.plan.unsupported
        if step.owner.name == entity.name and step.owner.kind == entity.kind and step.property_name
    }


class ValuesDoNotFit(Exception):
    """A side has values that the type of the merged schema cannot hold."""


def fitting(entity: EntityType, side: str, found: Rows) -> None:
    for name, mask in found.nobody.items():
        count = int(mask.sum())
        if count:
            prop = entity.find_property(name)
            assert prop is not None
            held = "1 row" if count == 1 else f"{count} rows"
            raise ValuesDoNotFit(f"{entity.name}.{name}: {held} of {side} cannot be {prop.type}")


def unchanged(entity: EntityType) -> MergedTable:
    """The merge of a type in which nothing is to be done."""
    none = rows(read_schema(entity).empty_table())
    nothing = MergedRows(none.table, pa.array([], pa.utf8()), no_clashes(), none.table)
    return MergedTable(entity, nothing, none, none, none)


def rows_at(ground: Ground, state: State, entity: EntityType, ids: pa.Array) -> pa.Table:
    """The rows of a type with these ids, as a merge reads them."""
    return ground.lens(state, entity).of(ids).table


def _count(chosen: RowSet | None) -> int:
    return 0 if chosen is None else chosen.rows


def _ids(found: pa.ChunkedArray) -> pa.Array:
    """Each once, ascending: the rows of a part lie together in an indexed table."""
    ids = pc.unique(found)
    return ids.take(pc.sort_indices(ids))


def _joined(parts: Sequence[MergedTable]) -> MergedTable:
    """The merge of all rows; they were taken by ascending id."""
    if len(parts) == 1:
        return parts[0]
    merged = [part.rows for part in parts]
    return MergedTable(
        parts[0].entity,
        MergedRows(
            upserts=pa.concat_tables([each.upserts for each in merged]),
            removed=pa.concat_arrays([each.removed for each in merged]),
            clashes=pa.concat_tables([each.clashes for each in merged]),
            clashing=pa.concat_tables([each.clashing for each in merged]),
        ),
        *(reduce(together, side) for side in zip(*((p.base, p.ours, p.theirs) for p in parts), strict=True)),
    )
