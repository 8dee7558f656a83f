"""Finding the edges around nodes: in an index on disk, by look-ups in the edge table, or from memory.

All ways give the same edges. An index on disk (`stored.py`) is asked first. Without one, a few nodes
are looked up, which costs some tenths of a millisecond each; for many it pays to read all edges of
the type once. What was read is kept for later reads of the same process, by table version.

In memory and in an index, a node is its position among all ids of its type
(`CodedEntities.numbering`), so that the arrays mean the same to every read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omnigraph_core.schema import EdgeType
from omnigraph_core.settings import TraversalMode
from omnigraph_core.topology.adjacency import Adjacency, Fan, compact
from omnigraph_core.topology.arrays import distinct, is_among
from omnigraph_core.topology.cache import CacheKey, ReadCache
from omnigraph_core.topology.edges import DENSE_EDGE_BYTES, EdgeReader
from omnigraph_core.topology.followed import Followed, StoredStep
from omnigraph_core.topology.node_numbers import NodeNumbers
from omnigraph_core.topology.selection import EdgeSelection
from omnigraph_core.topology.stored import TopologyIndex

if TYPE_CHECKING:
    from omnigraph_core.topology.arrays import BoolArray, IntArray
    from omnigraph_core.topology.reader import CodedEntities, Limits, StepLog

# Measured on 1 M nodes and 10 M edges. A look-up reads one page of the index for each key until
# it has read them all, then the rows it names; reading everything is so much for each row.
_PAGE_ROWS = 4_096
_PAGE_S = 0.35e-3
_FOUND_ROW_S = 12e-6
_DENSE_ROW_S = 0.25e-6
_DENSE_FIXED_S = 5e-3

# An id in memory with its place in a table, while the table is made.
DENSE_NODE_BYTES = 100


class Topology:
    """The edges of one snapshot, for the length of one read."""

    def __init__(
        self,
        nodes_of: Callable[[str], CodedEntities],
        edges_of: Callable[[EdgeType], CodedEntities],
        mode: TraversalMode | None,
        budget: Limits,
        statistics: StepLog,
        cache: ReadCache,
        index: TopologyIndex,
    ) -> None:
        self._nodes_of = nodes_of
        self._edges_of = edges_of
        self._mode = mode
        self._budget = budget
        self._statistics = statistics
        self._cache = cache
        self._index = index
        self._fans: dict[EdgeSelection, Fan] = {}
        self._steps: dict[EdgeSelection, StoredStep | None] = {}

    @property
    def memory_bytes(self) -> int:
        return self._budget.memory_bytes

    def forget(self) -> None:
        """Let go of the edges of this read."""
        self._fans.clear()
        self._steps.clear()

    def follow(self, selection: EdgeSelection, codes: IntArray) -> Followed:
        """What these nodes, which may repeat, lead to; ordered by node. Targets are in any order."""
        near = self._nodes_of(selection.near)
        stored = self._stored(selection)
        if stored is not None:
            self._statistics.note("topology")
            return stored.follow(codes)
        nodes, places = distinct(codes, near.size)
        adjacency = self._around(selection, nodes)
        positions = adjacency.positions(nodes)[places]
        self._budget.check_rows(int(adjacency.fan.counts(positions).sum()), 3)
        rows, at = adjacency.fan.spread(positions)
        edges = adjacency.fan.edges
        return Followed(rows, adjacency.fan.targets[at], None if edges is None else edges[at])

    def _around(self, selection: EdgeSelection, nodes: IntArray) -> Adjacency:
        """An adjacency that covers at least these nodes, which are distinct and ascending codes."""
        if not self._is_dense(selection, len(nodes)):
            self._looked_up(selection, len(nodes))
            return self._reader(selection).around(nodes)
        self._statistics.note("csr")
        fan = self._whole(selection)
        near, far = self._nodes_of(selection.near), self._nodes_of(selection.far)
        if near.codes_are_positions and far.codes_are_positions:
            return Adjacency(None, fan)
        places = near.positions_of(nodes)
        self._budget.check_rows(int(fan.counts(places).sum()), 4)
        rows, at = fan.spread(places)
        edges = None if fan.edges is None else fan.edges[at]
        return compact(rows, far.codes_at(fan.targets[at]), edges, nodes)

    def connected(self, selection: EdgeSelection, codes: IntArray) -> BoolArray:
        """Which of the nodes have any such edge; only one end of the edges is read for it."""
        near = self._nodes_of(selection.near)
        stored = self._stored(selection)
        if stored is not None:
            self._statistics.note("topology")
            return stored.connected(codes)
        nodes, places = distinct(codes, near.size)
        if self._is_dense(selection, len(nodes)):
            self._statistics.note("csr")
            return self._with_any(selection)[near.positions_of(nodes)][places]
        self._looked_up(selection, len(nodes))
        return is_among(codes, self._reader(selection).those_with_any(nodes), near.size)

    def _is_dense(self, selection: EdgeSelection, node_count: int) -> bool:
        """Would so many nodes be served from memory?

        Look-ups of earlier reads count too: when they have cost as much as reading
        everything would, it is read. So a process never pays more than twice.
        """
        if self._mode is TraversalMode.INDEXED:
            return False
        key = self._key(selection)
        if selection in self._fans or self._cache.get(key) is not None:
            return True
        edges = self._edges_of(selection.edge)
        near, far = self._nodes_of(selection.near), self._nodes_of(selection.far)
        needed = edges.row_count * DENSE_EDGE_BYTES + (near.row_count + far.row_count) * DENSE_NODE_BYTES
        if needed > self._budget.memory_bytes:
            return False
        if self._mode is TraversalMode.CSR:
            return True
        dense = (edges.row_count + near.row_count + far.row_count) * _DENSE_ROW_S + _DENSE_FIXED_S
        before = self._cache.spent(key) if selection.is_plain else 0.0
        return before + self._look_up_s(selection, node_count) > dense

    def _stored(self, selection: EdgeSelection) -> StoredStep | None:
        """The edges of a step in an index on disk, if there is one and they are in it."""
        if self._mode is TraversalMode.INDEXED:
            return None
        if selection not in self._steps:
            self._steps[selection] = self._opened(selection)
        return self._steps[selection]

    def _opened(self, selection: EdgeSelection) -> StoredStep | None:
        edges = self._edges_of(selection.edge)
        ends = [self._nodes_of(name) for name in (selection.edge.from_type, selection.edge.to_type)]
        if not self._index.has(edges.table, ends[0].table, ends[1].table):
            return None
        numbers = [each.numbering() for each in ends]
        if not isinstance(numbers[0], NodeNumbers) or not isinstance(numbers[1], NodeNumbers):
            return None
        entries = (edges.entry, ends[0].entry, ends[1].entry)
        topology = self._index.edges(edges.table, entries, numbers[0], numbers[1])
        if topology is None:
            return None
        near, far = self._nodes_of(selection.near), self._nodes_of(selection.far)
        return StoredStep(selection, topology, near, far, edges, self._budget, self._statistics)

    def _looked_up(self, selection: EdgeSelection, node_count: int) -> None:
        self._statistics.note("indexed")
        self._cache.spend(self._key(selection), self._look_up_s(selection, node_count))

    def _look_up_s(self, selection: EdgeSelection, keys: int) -> float:
        """Seconds that looking up the edges of so many nodes is expected to take."""
        edges = self._edges_of(selection.edge).row_count
        nodes = self._nodes_of(selection.near).row_count
        pages = max(1.0, edges / _PAGE_ROWS)
        touched = pages * (1 - (1 - 1 / pages) ** keys) if pages > 1 else 1.0
        each = touched * _PAGE_S + keys * (1 + edges / max(1, nodes)) * _FOUND_ROW_S
        return each * len(selection.sides)

    def _whole(self, selection: EdgeSelection) -> Fan:
        """All edges of a selection, by the positions of nodes."""
        known = self._fans.get(selection)
        if known is None and selection.is_plain:
            known = self._cache.get(self._key(selection))
        if known is None:
            known = self._reader(selection).all()
            if selection.is_plain:
                self._cache.put(self._key(selection), known, known.nbytes)
        self._fans[selection] = known
        return known

    def _with_any(self, selection: EdgeSelection) -> BoolArray:
        known = self._fans.get(selection)
        if known is None and selection.is_plain:
            known = self._cache.get(self._key(selection))
        if known is not None:
            found: BoolArray = known.starts[1:] > known.starts[:-1]
            return found
        key: CacheKey[BoolArray] = CacheKey(("with any", *self._key(selection)))
        kept = self._cache.get(key)
        if kept is None:
            kept = self._reader(selection).with_any()
            self._cache.put(key, kept, kept.nbytes)
        return kept

    def _key(self, selection: EdgeSelection) -> CacheKey[Fan]:
        near, far = self._nodes_of(selection.near), self._nodes_of(selection.far)
        edges = self._edges_of(selection.edge)
        numbered = near.numbered_by, far.numbered_by
        return CacheKey(("edges", selection, edges.entry, near.entry, far.entry, *numbered))

    def _reader(self, selection: EdgeSelection) -> EdgeReader:
        near, far = self._nodes_of(selection.near), self._nodes_of(selection.far)
        edges = self._edges_of(selection.edge)
        return EdgeReader(selection, near, far, edges, self._budget, self._statistics)
