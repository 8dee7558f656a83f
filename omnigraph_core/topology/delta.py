"""What has happened to a table since an index of it was made, on any branch and in any version.

A row is its slot: the fragments that the index was made from one after the other, and the offset inside;
fragments that came since go on behind them. Fragments are the same if their data files are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.physical import Stretch, deleted_rows, stretches
from omnigraph_core.topology.arrays import in_arrow, within
from omnigraph_core.topology.record import StoredStretch

if TYPE_CHECKING:
    from omnigraph_core.topology.arrays import IntArray

_ADDRESS = "_rowaddr"
_ROW_ID = "_rowid"


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots and the addresses that the rows in them have in one version of a table."""

    firsts: IntArray
    """The first slot of each fragment, ascending."""
    fragments: IntArray
    """The ids of the fragments in this version; -1 for one that it does not have."""

    def addresses(self, slots: IntArray) -> IntArray:
        at = np.searchsorted(self.firsts, slots, side="right") - 1
        return (self.fragments[at] << 32) | (slots - self.firsts[at])

    def of(self, addresses: IntArray) -> IntArray:
        order = np.argsort(self.fragments, kind="stable")
        at = order[np.searchsorted(self.fragments, addresses >> 32, sorter=order)]
        found: IntArray = self.firsts[at] + (addresses & 0xFFFFFFFF)
        return found


@dataclass(frozen=True, slots=True)
class Change:
    """Slots of the index whose rows are gone, and the rows that have come."""

    slots: Slots
    gone: IntArray
    """Ascending."""
    came: pa.Table
    """The columns that were asked for, and `_rowid`."""
    came_slots: IntArray

    @property
    def is_none(self) -> bool:
        return not len(self.gone) and not len(self.came_slots)


def rows_changed(table: Table, columns: Sequence[str], known: Sequence[StoredStretch]) -> int:
    """How many rows at most are to be read, or known to be gone; told by the manifest alone."""
    theirs = {each.known_by for each in known}
    mine = {each.known_by for each in stretches(table, columns)}
    return sum(rows for _, rows in theirs ^ mine)


def is_same_order(table: Table, columns: Sequence[str], known: Sequence[StoredStretch]) -> bool:
    """Does a scan meet the same fragments one after the other?"""
    return [each.known_by for each in stretches(table, columns)] == [each.known_by for each in known]


def change_since(
    table: Table,
    storage: Storage,
    columns: Sequence[str],
    known: Sequence[StoredStretch],
    dead: IntArray,
) -> Change:
    """`dead` are the slots whose rows were deleted when the index was made, ascending."""
    now = stretches(table, columns)
    by_file = {each.known_by: each for each in now}
    shared = {each.known_by for each in known} & by_file.keys()
    fresh = [each for each in now if each.known_by not in shared]
    slots = _slots(known, by_file, fresh)
    gone, back, places = [], [], 0
    for each in known:
        current = by_file.get(each.known_by)
        end = places + each.rows
        was = dead[np.searchsorted(dead, places) : np.searchsorted(dead, end)]
        if current is None:
            gone.append(_without(np.arange(places, end, dtype=np.int64), was))
        elif current.deletion != each.deletion:
            is_now = deleted_rows(table, storage, current) + places
            gone.append(_without(is_now, was))
            if len(returned := _without(was, is_now)):
                back.append((current, returned - places))
        places = end
    came = _read(table, columns, fresh, back)
    addresses = came.column(_ADDRESS).to_numpy().astype(np.int64)
    nothing = np.zeros(0, np.int64)
    came_slots = slots.of(addresses) if len(addresses) else nothing
    return Change(slots, np.concatenate([nothing, *gone]), came, came_slots)


def _slots(
    known: Sequence[StoredStretch], by_file: dict[tuple[str, int], Stretch], fresh: Sequence[Stretch]
) -> Slots:
    rows = [*(each.rows for each in known), *(each.rows for each in fresh)]
    firsts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.array(rows, np.int64), out=firsts[1:])
    found = [by_file.get(each.known_by) for each in known]
    ids = [-1 if each is None else each.fragment_id for each in (*found, *fresh)]
    return Slots(firsts[:-1], np.array(ids, np.int64))


def _read(
    table: Table,
    columns: Sequence[str],
    fresh: Sequence[Stretch],
    back: Sequence[tuple[Stretch, IntArray]],
) -> pa.Table:
    """Rows of whole fragments, and single rows that were deleted where the index was made, but not here."""
    schema = pa.schema([*(pa.field(name, pa.utf8()) for name in columns), *_PLACE])
    parts = [schema.empty_table()]
    for fragments, offsets in [([each.fragment_id for each in fresh], None)] + [
        ([each.fragment_id], some) for each, some in back
    ]:
        if not fragments:
            continue
        read = table.read(list(columns), with_row_id=True, with_row_address=True, fragment_ids=fragments)
        if offsets is not None:
            at = read.column(_ADDRESS).to_numpy().astype(np.int64) & 0xFFFFFFFF
            read = read.filter(in_arrow(within(at, offsets)))
        parts.append(pa.table(read.select(schema.names).columns, schema=schema))
    return pa.concat_tables(parts)


_PLACE = (pa.field(_ADDRESS, pa.uint64()), pa.field(_ROW_ID, pa.uint64()))


def row_ids_of(rows: pa.Table) -> IntArray:
    """The row ids of rows that have come."""
    found: IntArray = rows.column(_ROW_ID).to_numpy().astype(np.int64)
    return found


def _without(values: IntArray, others: IntArray) -> IntArray:
    """Both are ascending, and so is what is left."""
    return values[~within(values, others)] if len(others) else values
