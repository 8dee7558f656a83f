"""The topology index of a graph as one read sees it: numbers of nodes, and edges between them.

A read uses one index, so that a number means one node. It is the one from which the fewest rows have
changed since. Any that cannot be read, or from which too much has changed, is as good as none.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from omnigraph_core.query.checked import Direction
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.topology.cache import CacheKey, ReadCache
from omnigraph_core.topology.delta import Change, Slots, change_since, is_same_order, rows_changed
from omnigraph_core.topology.format import NotTopology
from omnigraph_core.topology.node_numbers import NodeNumbers
from omnigraph_core.topology.record import StoredEdges, StoredNodes, TopologyRecord
from omnigraph_core.topology.store import TopologyStore
from omnigraph_core.topology.stored_edges import Direction as Way
from omnigraph_core.topology.stored_edges import EdgeEnds, Edges, Lists, sorted_edges

if TYPE_CHECKING:
    from omnigraph_core.manifest.snapshot import SubTableEntry
    from omnigraph_core.tables.dataset import Table, Tables
    from omnigraph_core.topology.arrays import BoolArray, IntArray

# An index is of use while less than a part of the rows has changed; few rows are nothing in any case.
_CHANGED_SHARE = 4
_CHANGED_ROWS_MIN = 20_000

# Looking up a node without an index of the topology, and how much of that opening one costs.
_LOOK_UP_S = 0.5e-3
_OPENED_AFTER_S = 2e-3

EDGE_COLUMNS = (SRC_COLUMN, DST_COLUMN)
NODE_COLUMNS = (ID_COLUMN,)


class StoredTopology:
    """The edges of one type in one version. A direction is opened when it is first followed."""

    def __init__(
        self, store: TopologyStore, edges: StoredEdges, change: Change, near: NodeNumbers, far: NodeNumbers
    ) -> None:
        self._store = store
        self._edges = edges
        self._ends = EdgeEnds(store.arrays(edges.ends), change, near, far)
        self._near, self._far = near, far
        self.slots: Slots = change.slots

    @cached_property
    def _out_lists(self) -> Lists:
        return Lists.of(self._store.arrays(self._edges.out), self._near.base_count)

    @cached_property
    def _into_lists(self) -> Lists:
        return Lists.of(self._store.arrays(self._edges.into), self._far.base_count)

    @cached_property
    def _out(self) -> Way:
        other = self._into_lists if len(self._far.dead) else None
        return self._ends.patched(self._out_lists, other, backward=False)

    @cached_property
    def _into(self) -> Way:
        other = self._out_lists if len(self._near.dead) else None
        return self._ends.patched(self._into_lists, other, backward=True)

    def _ways(self, direction: Direction) -> list[Way]:
        if direction is Direction.BOTH:
            return [self._out, self._into]
        return [self._into if direction is Direction.BACKWARD else self._out]

    def count(self, direction: Direction, nodes: IntArray) -> int:
        """How many edges there are at these nodes, which may repeat."""
        return sum(int(way.counts(nodes).sum()) for way in self._ways(direction))

    def has_any(self, direction: Direction, nodes: IntArray) -> BoolArray:
        found = np.zeros(len(nodes), np.bool_)
        for way in self._ways(direction):
            found |= way.counts(nodes) > 0
        return found

    def follow(self, direction: Direction, nodes: IntArray, *, with_slots: bool) -> Edges:
        """Every edge at these nodes, which may repeat; ordered by row and target.

        An edge from a node to itself is one edge, also when followed both ways.
        """
        first, *others = (way.follow(nodes, with_slots=with_slots) for way in self._ways(direction))
        if not others:
            return first
        second = others[0].kept(others[0].targets != nodes[others[0].rows])
        return sorted_edges(first, second)


class TopologyIndex:
    """The index that one read uses, chosen when the first table of it is asked for."""

    def __init__(self, tables: Tables, cache: ReadCache, store: TopologyStore | None) -> None:
        self._tables = tables
        self._cache = cache
        self._store = store
        self._chosen: TopologyRecord | None = None
        self._is_chosen = False

    def has(self, edges: Table, near: Table, far: Table) -> bool:
        """Are these edges in the index, between these nodes?"""
        record = self._record(edges, EDGE_COLUMNS)
        found = None if record is None else record.edges.get(edges.ref.path)
        return (
            found is not None
            and (found.near, found.far) == (near.ref.path, far.ref.path)
            and _is_near(edges, EDGE_COLUMNS, found)
        )

    def numbers(self, table: Table, entry: SubTableEntry) -> NodeNumbers | None:
        """The nodes of a type by number; None if the index does not have it."""
        record = self._record(table, NODE_COLUMNS)
        stored = None if record is None else record.nodes.get(table.ref.path)
        if record is None or stored is None or self._store is None:
            return None
        key: CacheKey[NodeNumbers] = CacheKey(("stored nodes", record.name, entry))
        known = self._cache.get(key) if self._store.are_whole(stored.files) else None
        if known is None and _is_near(table, NODE_COLUMNS, stored):
            try:
                arrays = self._store.arrays(stored.ids)
                dead = arrays["dead"].astype(np.int64)
                change = change_since(table, self._tables.storage, NODE_COLUMNS, stored.stretches, dead)
                same = change.is_none and is_same_order(table, NODE_COLUMNS, stored.stretches)
                known = NodeNumbers(record.name, arrays, change, is_scan_order=same)
            except (NotTopology, KeyError):
                return None
            self._cache.put(key, known, known.nbytes)
        if known is not None:
            opened: CacheKey[tuple[StoredNodes, NodeNumbers]] = CacheKey(("opened nodes", entry))
            self._cache.put(opened, (stored, known), 0)
        return known

    def numbers_at_hand(self, table: Table, entry: SubTableEntry) -> NodeNumbers | None:
        """The same for a single look-up, which alone is not worth opening an index for, nor fetching one.

        Once a process has looked up a few, files of this machine are mapped.
        """
        if self._store is None:
            return None
        opened: CacheKey[tuple[StoredNodes, NodeNumbers]] = CacheKey(("opened nodes", entry))
        known = self._cache.get(opened)
        if known is not None:
            return known[1] if self._store.are_whole(known[0].files) else None
        key: CacheKey[NodeNumbers] = CacheKey(("looked up", entry))
        self._cache.spend(key, _LOOK_UP_S)
        is_worth_it = self._cache.spent(key) > _OPENED_AFTER_S and self._tables.storage.location.is_local
        return self.numbers(table, entry) if is_worth_it else None

    def edges(
        self,
        table: Table,
        entries: tuple[SubTableEntry, SubTableEntry, SubTableEntry],
        near: NodeNumbers,
        far: NodeNumbers,
    ) -> StoredTopology | None:
        """The edges of a type that the index has; `entries` are those of the edges and of both ends."""
        record = self._record(table, EDGE_COLUMNS)
        if record is None or self._store is None or {near.name, far.name} != {record.name}:
            return None
        key: CacheKey[StoredTopology] = CacheKey(("stored edges", record.name, *entries))
        stored = record.edges[table.ref.path]
        known = self._cache.get(key) if self._store.are_whole(stored.files) else None
        if known is not None:
            return known
        if stored.dangling and (near.new_count or far.new_count):
            return None  # An end that was no node may be one by now.
        try:
            dead = self._store.arrays(stored.ends)["dead"].astype(np.int64)
            change = change_since(table, self._tables.storage, EDGE_COLUMNS, stored.stretches, dead)
            known = StoredTopology(self._store, stored, change, near, far)
        except (NotTopology, KeyError):
            return None
        self._cache.put(key, known, change.came.nbytes * 4 + change.gone.nbytes * 4 + 4_096)
        return known

    def _record(self, table: Table, columns: tuple[str, ...]) -> TopologyRecord | None:
        if not self._is_chosen and self._store is not None:
            with_table = [
                (rows_changed(table, columns, part.stretches), record)
                for record in self._store.records()
                if (part := record.part(table.ref.path)) is not None
            ]
            self._chosen = min(with_table, key=lambda each: each[0])[1] if with_table else None
            self._is_chosen = True
        return self._chosen


def _is_near(table: Table, columns: tuple[str, ...], stored: StoredNodes | StoredEdges) -> bool:
    changed = rows_changed(table, columns, stored.stretches)
    return changed <= max(_CHANGED_ROWS_MIN, sum(each.rows for each in stored.stretches) // _CHANGED_SHARE)
