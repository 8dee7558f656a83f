"""What makes a branch the merge of itself and another state: changes of its tables, and conflicts.

Three states go in, of which ours is the branch. Only rows that theirs has changed since the base
are looked at; all others stay as ours has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.diff.graph import State
from omnigraph_core.history.bases import Parents
from omnigraph_core.merge.base import BaseRows, only, together
from omnigraph_core.merge.clashes import row_conflicts
from omnigraph_core.merge.conflicts import Conflict
from omnigraph_core.merge.limits import ROWS_AT_ONCE
from omnigraph_core.merge.rows import MergedRows, Preference, Rows, rows, three_way
from omnigraph_core.records import dataclass
from omnigraph_core.rules.changeset import TableChange
from omnigraph_core.schema import EntityType
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.compare import Compared, compare
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.row_set import all_rows, rows_of
from omnigraph_core.values.arrays import whole
from omnigraph_core.values.columns import storable


@dataclass(frozen=True, slots=True)
class Sides:
    """The states of a merge: those it starts from by commit id, and the two that came of them.

    `parents` says how the bases hang together, for bases of bases; `state_at` reads one, if it
    `is_readable`.
    """

    bases: Mapping[str, State]
    ours: State
    theirs: State
    parents: Parents
    state_at: Callable[[str], State]
    is_readable: Callable[[str], bool] = lambda _: True


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

    @property
    def change(self) -> TableChange:
        return TableChange(self.entity, storable(self.rows.upserts, self.entity), removed=self.rows.removed)

    @property
    def clashing_ids(self) -> pa.Array:
        return pc.unique(whole(self.rows.clashes.column(ID_COLUMN)))

    @property
    def conflicts(self) -> list[Conflict]:
        return row_conflicts(self.entity, self.rows, self.base, self.ours, self.theirs)


def merge_tables(tables: Tables, sides: Sides, prefer: Preference | None = None) -> Iterator[MergedTable]:
    """Every type that theirs has changed, in the order of table keys.

    All states have the same types with the same columns.
    """
    for entity in sorted(sides.ours.schema.types(), key=lambda each: each.table_key):
        merged = _Merger(tables, sides, entity).merged(prefer)
        if merged is not None:
            yield merged


class _Merger:
    """The merge of one type."""

    def __init__(self, tables: Tables, sides: Sides, entity: EntityType) -> None:
        self._tables = tables
        self._sides = sides
        self._entity = entity
        self._schema = table_schema(entity)
        self._opened: dict[str, Table] = {}

    def merged(self, prefer: Preference | None) -> MergedTable | None:
        key = self._entity.table_key
        theirs_entry, ours_entry = (
            side.snapshot.entry(key) for side in (self._sides.theirs, self._sides.ours)
        )
        known = [state.snapshot.entry(key) for state in self._sides.bases.values()]
        if theirs_entry == ours_entry or (known and all(theirs_entry == each for each in known)):
            return None
        changed = [self._differing(one, other) for one, other in self._pairs()]
        if len(changed) == 1 and changed[0].gone.rows + changed[0].come.rows <= ROWS_AT_ONCE:
            return self._few(changed[0], prefer, is_forward=ours_entry == known[0])
        ids = self._candidates(changed)
        if not len(ids):
            return None
        starts = range(0, len(ids), ROWS_AT_ONCE)
        return _joined([self._part(ids[start : start + ROWS_AT_ONCE], prefer) for start in starts])

    def _part(self, ids: pa.Array, prefer: Preference | None) -> MergedTable:
        """The merge of some of the rows: what is not needed any more is let go of before the next."""
        sides = self._sides
        bases = BaseRows(sides.parents, self._schema, self._read_at, sides.is_readable)
        base = bases.of(tuple(sides.bases), ids)
        ours, theirs = (rows(self._read(self._table(state), ids)) for state in (sides.ours, sides.theirs))
        return self._three_way(base, ours, theirs, prefer)

    def _few(self, changed: Compared, prefer: Preference | None, *, is_forward: bool) -> MergedTable | None:
        """The merge from one base, if little has changed since.

        What differs are all rows of base and theirs that have one of these ids: a row that both
        have is in neither part, and no table has an id twice. So they need not be looked up.
        """
        if changed.gone.is_empty and changed.come.is_empty:
            return None
        names = self._schema.names
        base, theirs = (
            rows(each.read(names, blobs=True).select(names)) for each in (changed.gone, changed.come)
        )
        if is_forward:
            return self._three_way(base, base, theirs, prefer)
        found = [chunk for side in (base, theirs) for chunk in side.table.column(ID_COLUMN).chunks]
        ids = _ids(pa.chunked_array(found, pa.utf8()))
        return self._three_way(base, rows(self._read(self._table(self._sides.ours), ids)), theirs, prefer)

    def _three_way(self, base: Rows, ours: Rows, theirs: Rows, prefer: Preference | None) -> MergedTable:
        merged = three_way(base, ours, theirs, prefer)
        clashing = whole(merged.clashing.column(ID_COLUMN))
        kept = (only(side, clashing) for side in (base, ours, theirs))
        return MergedTable(self._entity, merged, *kept)

    def _pairs(self) -> list[tuple[Table, Table]]:
        """What to compare: theirs with a base, and the other bases with it."""
        theirs = self._table(self._sides.theirs)
        bases = [self._table(state) for state in self._sides.bases.values()]
        return [(bases[0], other) for other in (theirs, *bases[1:])] if bases else []

    def _candidates(self, changed: Sequence[Compared]) -> pa.Array:
        """Every id that theirs may have changed since any of the bases, or in which the bases differ."""
        if not changed:
            theirs = self._table(self._sides.theirs)
            return _ids(theirs.read([ID_COLUMN]).column(ID_COLUMN))
        found: list[pa.Array] = []
        for compared in changed:
            for side in (compared.gone, compared.come):
                if not side.is_empty:
                    found += side.read([ID_COLUMN]).column(ID_COLUMN).chunks
        return _ids(pa.chunked_array(found, pa.utf8()))

    def _differing(self, one: Table, other: Table) -> Compared:
        """Rows that may differ: all, if the type was dropped and made again in between."""
        if one.ref.path != other.ref.path:
            return Compared(all_rows(one), all_rows(other))
        return compare(self._tables, one, other, [(name, name) for name in self._schema.names])

    def _table(self, state: State) -> Table:
        entry = state.snapshot.entry(self._entity.table_key)
        return self._tables.open(entry.ref, entry.table_version)

    def _read_at(self, commit_id: str, ids: pa.Array) -> pa.Table:
        if commit_id not in self._opened:
            known = self._sides.bases.get(commit_id)
            self._opened[commit_id] = self._table(known or self._sides.state_at(commit_id))
        return self._read(self._opened[commit_id], ids)

    def _read(self, table: Table, ids: pa.Array) -> pa.Table:
        return _read(table, self._schema.names, ids)


def rows_at(tables: Tables, state: State, entity: EntityType, ids: pa.Array) -> pa.Table:
    """The rows of a type with these ids, as a merge reads them."""
    entry = state.snapshot.entry(entity.table_key)
    return _read(tables.open(entry.ref, entry.table_version), table_schema(entity).names, ids)


def _read(table: Table, names: Sequence[str], ids: pa.Array) -> pa.Table:
    """Whole rows, blobs as bytes, with the columns of the type."""
    found = rows_of(table, pa.chunked_array([ids])).read(names, blobs=True)
    return found.select(names)


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
