"""Reaching nodes in a bounded number of hops, from many nodes at once.

A node counts at the hop it is first reached at, and only there. The node one starts
from is reached already, so that coming back to it counts for nothing, except by an
edge from it to itself, which reaches it at the first hop and leads no further. In
other words: `b` is reached from `a` when the shortest way has between `minimum` and
`maximum` hops, and that relation is the same seen from either end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from omnigraph_core.read.session.entities import Entities
from omnigraph_core.topology.adjacency import Fan, adjacency_of_pairs
from omnigraph_core.topology.arrays import pair_keys, sorted_distinct
from omnigraph_core.topology.neighbours import Topology
from omnigraph_core.topology.selection import EdgeSelection

if TYPE_CHECKING:
    from omnigraph_core.topology.arrays import BoolArray, IntArray

# Pairs of start and node that a table of one byte each may have, and its part of the memory.
_TABLE_PAIRS_MAX = 1 << 26
_TABLE_SHARE = 8


def reach(
    topology: Topology,
    selection: EdgeSelection,
    far: Entities,
    starts: IntArray,
    minimum: int,
    maximum: int,
) -> Fan:
    """What each start leads to. The starts are distinct and ascending."""
    if maximum == 1 or selection.near != selection.far:
        return _one_hop(topology, selection, starts, minimum)

    pieces: list[tuple[IntArray, IntArray]] = []
    origins = np.arange(len(starts), dtype=np.int64)
    nodes = starts
    visited: _Visited | None = None
    for hop in range(1, maximum + 1):
        followed = topology.follow(selection, nodes)
        if visited is None:
            visited = _visited(len(starts), far, topology.memory_bytes)
            visited.first(origins, starts)
        origins, nodes = origins[followed.rows], followed.targets
        if hop == 1 and minimum == 1:
            loops = starts[origins] == nodes
            pieces.append((origins[loops], nodes[loops]))
        origins, nodes = visited.first(origins, nodes)
        if hop >= minimum:
            pieces.append((origins, nodes))
        if not len(nodes):
            break
    joined = [np.concatenate([piece[side] for piece in pieces]) if pieces else starts[:0] for side in (0, 1)]
    return adjacency_of_pairs(joined[0], joined[1], None, len(starts)).fan


def _one_hop(topology: Topology, selection: EdgeSelection, starts: IntArray, minimum: int) -> Fan:
    if minimum > 1:
        empty = np.zeros(0, np.int64)
        return Fan(np.zeros(len(starts) + 1, np.int64), empty, empty if selection.by_edge else None)
    found = topology.follow(selection, starts)
    begins = np.searchsorted(found.rows, np.arange(len(starts) + 1, dtype=np.int64))
    return Fan(begins.astype(np.int64), found.targets, found.edges)


class _Visited(Protocol):
    def first(self, origins: IntArray, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """The pairs not seen before, each once; from now on they have been seen."""


def _visited(starts: int, far: Entities, memory_bytes: int) -> _Visited:
    """A table where all codes are known and it is small, else a sorted list."""
    if far.codes_are_positions and starts * far.size <= min(_TABLE_PAIRS_MAX, memory_bytes // _TABLE_SHARE):
        return _VisitedTable(starts, far.size)
    return _VisitedList()


class _VisitedTable:
    def __init__(self, starts: int, size: int) -> None:
        self._size = size
        self._seen: BoolArray = np.zeros(starts * size, np.bool_)

    def first(self, origins: IntArray, nodes: IntArray) -> tuple[IntArray, IntArray]:
        keys = origins * self._size + nodes
        keys = keys[~self._seen[keys]]
        if len(keys) * 8 > len(self._seen):
            fresh = np.zeros(len(self._seen), np.bool_)
            fresh[keys] = True
            keys = np.flatnonzero(fresh)
        else:
            keys = sorted_distinct(keys)
        self._seen[keys] = True
        return keys // self._size, keys % self._size


class _VisitedList:
    def __init__(self) -> None:
        self._seen: IntArray = np.zeros(0, np.int64)

    def first(self, origins: IntArray, nodes: IntArray) -> tuple[IntArray, IntArray]:
        keys = sorted_distinct(pair_keys(origins, nodes))
        if len(self._seen):
            places = np.minimum(np.searchsorted(self._seen, keys), len(self._seen) - 1)
            keys = keys[self._seen[places] != keys]
        self._seen = np.sort(np.concatenate([self._seen, keys]))
        return keys >> 32, keys & 0xFFFFFFFF
