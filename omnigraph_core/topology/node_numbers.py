"""Nodes as numbers, for one version of their table: the list of an index, and what has come since.

An id that comes again, because its row was replaced or because it was deleted and made anew, has the
number it had. New ids are numbered on. A number whose node is gone stays, and no id has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.topology.arrays import in_arrow, within
from omnigraph_core.topology.delta import Change, row_ids_of
from omnigraph_core.topology.format import NotTopology
from omnigraph_core.topology.idtable import IdTable
from omnigraph_core.topology.stored_ids import StoredIdTable, believed
from omnigraph_core.values.arrays import whole

if TYPE_CHECKING:
    from omnigraph_core.topology.arrays import IntArray
    from omnigraph_core.topology.format import Arrays


class NodeNumbers:
    """Immutable, so reads may share it."""

    def __init__(self, name: str, arrays: Arrays, change: Change, *, is_scan_order: bool = False) -> None:
        self.name = name
        """Of the index; numbers of two are not the same."""
        self.is_scan_order = is_scan_order
        """Is a number also the place of a node in a scan of its table?"""
        self._base = StoredIdTable(arrays)
        self.base_count = len(self._base)
        self._row_ids = arrays["row_ids"]
        self._slots = arrays["slots"]
        if len(self._row_ids) != self.base_count or len(self._slots) not in (0, self.base_count):
            raise NotTopology("row ids of other nodes")
        ids = whole(change.came.column(ID_COLUMN))
        numbers = self._base.find(ids)
        row_ids = row_ids_of(change.came)
        gone = self._numbers_of(change.gone)
        known = numbers >= 0
        moved = np.argsort(numbers[known], kind="stable")
        self._moved, self._moved_to = numbers[known][moved], row_ids[known][moved]
        self.dead: IntArray = gone[~within(gone, self._moved)]
        """Numbers that no node has any more, ascending."""
        self._new = IdTable(ids.filter(in_arrow(~known)))
        self._new_row_ids = row_ids[~known]

    @property
    def new_count(self) -> int:
        return len(self._new)

    def lists(self, ids: pa.Array) -> bool:
        """Is the id at each position the one with that number?"""
        return not self.new_count and self._base.lists(ids)

    @property
    def nbytes(self) -> int:
        own = (self._moved, self._moved_to, self.dead, self._new_row_ids)
        return self._new.nbytes + sum(each.nbytes for each in own) + 1_024

    def __len__(self) -> int:
        return self.base_count + self.new_count

    def find(self, texts: pa.Array) -> IntArray:
        """For each text the number of the node with that id, or -1."""
        found = self._base.find(texts)
        if len(self.dead):
            found[within(found, self.dead)] = -1
        if self.new_count and (left := np.flatnonzero(found < 0)).size:
            new = self._new.find(texts.take(in_arrow(left)))
            found[left] = np.where(new >= 0, new + self.base_count, -1)
        return found

    def ids_at(self, numbers: IntArray) -> pa.Array:
        new = numbers >= self.base_count
        if not new.any():
            return self._base.ids_at(numbers)
        parts = [self._base.ids_at(numbers[~new]), self._new.ids_at(numbers[new] - self.base_count)]
        places = np.empty(len(numbers), np.int64)
        places[np.concatenate([np.flatnonzero(~new), np.flatnonzero(new)])] = np.arange(len(numbers))
        return pa.concat_arrays(parts).take(in_arrow(places))

    def row_ids(self, numbers: IntArray) -> IntArray:
        """What the rows of these nodes are read by, in this version."""
        with believed():
            new = numbers >= self.base_count
            found = numbers.copy()
            found[~new] = self._row_ids[numbers[~new]]
            found[new] = self._new_row_ids[numbers[new] - self.base_count]
            if len(self._moved):
                is_moved = within(numbers, self._moved)
                found[is_moved] = self._moved_to[np.searchsorted(self._moved, numbers[is_moved])]
            return found

    def _numbers_of(self, slots: IntArray) -> IntArray:
        """The numbers of nodes by their slots in the index, of rows that were live in it."""
        return np.searchsorted(self._slots, slots).astype(np.int64) if len(self._slots) else slots
