"""One step of a match along edges that are in an index on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph_core.records import dataclass
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.limits import ADDRESSES_IN_FILTER_MAX
from omnigraph_core.topology.arrays import in_arrow, sorted_distinct, within
from omnigraph_core.topology.selection import EdgeSelection
from omnigraph_core.topology.stored import StoredTopology
from omnigraph_core.values.arrays import whole

if TYPE_CHECKING:
    from omnigraph_core.topology.arrays import BoolArray, IntArray
    from omnigraph_core.topology.reader import CodedEntities, Limits, StepLog
    from omnigraph_core.topology.stored_edges import Edges

_ADDRESS = "_rowaddr"


@dataclass(frozen=True, slots=True)
class Followed:
    """Where nodes lead: `rows` says which of the nodes, ascending; all are codes of a read.

    `edges` are there if every edge counts; otherwise a target occurs once for each of the nodes.
    """

    rows: IntArray
    targets: IntArray
    edges: IntArray | None


@dataclass(frozen=True, slots=True)
class StoredStep:
    """A selection of edges, found in an index; filters and properties of edges are read from the table."""

    selection: EdgeSelection
    topology: StoredTopology
    near: CodedEntities
    far: CodedEntities
    edges: CodedEntities
    budget: Limits
    statistics: StepLog

    def follow(self, codes: IntArray) -> Followed:
        found, slots = self._found(self.near.positions_of(codes))
        targets = self.far.codes_at(found.targets)
        if not self.selection.by_edge:
            return Followed(found.rows, targets, None)
        at = np.searchsorted(slots.known, found.slots)
        return Followed(found.rows, targets, slots.codes[at])

    def connected(self, codes: IntArray) -> BoolArray:
        """Which of the nodes have such an edge."""
        numbers = self.near.positions_of(codes)
        known = numbers >= 0
        if self.selection.where is None:
            found = np.zeros(len(codes), np.bool_)
            found[known] = self.topology.has_any(self.selection.direction, numbers[known])
            return found
        rows = self._found(numbers)[0].rows
        connected = np.zeros(len(codes), np.bool_)
        connected[rows] = True
        return connected

    def _found(self, numbers: IntArray) -> tuple[Edges, _Read]:
        """The edges at these nodes, in numbers; what is no node has none."""
        selection = self.selection
        known = np.flatnonzero(numbers >= 0)
        nodes = numbers[known]
        needs_slots = selection.by_edge or selection.where is not None
        self.budget.check_rows(self.topology.count(selection.direction, nodes), 4 if needs_slots else 3)
        found = self.topology.follow(selection.direction, nodes, with_slots=needs_slots)
        read = _Read(np.zeros(0, np.int64), np.zeros(0, np.int64))
        if needs_slots:
            read = self._read(sorted_distinct(found.slots))
            found = found.kept(within(found.slots, read.known))
        if not selection.by_edge:
            found = found.distinct()
        if len(known) < len(numbers):
            found = type(found)(known[found.rows], found.targets, found.slots)
        return found, read

    def _read(self, slots: IntArray) -> _Read:
        """Those of the edges that pass the filter; their codes and properties, if they are asked for."""
        selection = self.selection
        columns = [ID_COLUMN, *selection.columns] if selection.by_edge else []
        found, pieces = [np.zeros(0, np.int64)], []
        for batch in self._batches(columns, slots):
            at = self.topology.slots.of(batch.column(_ADDRESS).to_numpy().astype(np.int64))
            mine = within(at, slots)
            found.append(at[mine])
            pieces.append(batch.filter(in_arrow(mine)))
        known = np.concatenate(found)
        order = np.argsort(known, kind="stable")
        if not selection.by_edge:
            return _Read(known[order], known[:0])
        codes = np.zeros(0, np.int64)
        if pieces:
            rows = pa.Table.from_batches(pieces)
            codes = self.edges.codes_of(whole(rows.column(ID_COLUMN)))
            for name in selection.columns:
                self.edges.keep(name, codes, rows.column(name).chunks)
        return _Read(known[order], codes[order])

    def _batches(self, columns: list[str], slots: IntArray) -> list[pa.RecordBatch]:
        """Rows of the table that pass the filter, the wanted ones among them."""
        where = self.selection.where
        if not len(slots):
            return []
        if len(slots) <= ADDRESSES_IN_FILTER_MAX:
            listed = ", ".join(map(str, self.topology.slots.addresses(slots).tolist()))
            wanted = f"{_ADDRESS} IN ({listed})"
            where = wanted if where is None else f"({where}) AND {wanted}"
        batches = []
        for batch in self.edges.table.scan(columns, where, with_row_address=True):
            self.budget.check_time()
            self.statistics.count_read(batch.num_rows, batch.nbytes)
            if batch.num_rows:
                batches.append(batch)
        return batches


@dataclass(frozen=True, slots=True)
class _Read:
    """Slots of edges that pass, ascending, and the codes these have."""

    known: IntArray
    codes: IntArray
