"""Adjacency: the neighbours of many nodes at once, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from omnigraph_core.records import dataclass
from omnigraph_core.topology.arrays import pair_keys, ranges

if TYPE_CHECKING:
    from omnigraph_core.topology.arrays import IntArray


@dataclass(frozen=True, slots=True)
class Fan:
    """For each of some sources, what it leads to: `targets[starts[i]:starts[i + 1]]` for source i.

    `edges`, if the edges matter, are the codes of the edges that lead there; then a
    target may occur several times. Without them it occurs once.
    """

    starts: IntArray
    targets: IntArray
    edges: IntArray | None = None

    @property
    def nbytes(self) -> int:
        edges = 0 if self.edges is None else self.edges.nbytes
        return int(self.starts.nbytes + self.targets.nbytes + edges)

    def counts(self, positions: IntArray) -> IntArray:
        """How many targets the sources at these positions have."""
        found: IntArray = self.starts[positions + 1] - self.starts[positions]
        return found

    def spread(self, positions: IntArray) -> tuple[IntArray, IntArray]:
        """Every target of every source at these positions (which may repeat).

        Answers which of the positions it belongs to, and where in `targets` it is.
        """
        counts = self.counts(positions)
        rows = np.repeat(np.arange(len(positions), dtype=np.int64), counts)
        return rows, ranges(self.starts[positions], counts)


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The edges around some nodes, ordered by node: the fan of the node `nodes[i]` is the i-th.

    `nodes` is ascending; None stands for all codes from 0 on.
    """

    nodes: IntArray | None
    fan: Fan

    def positions(self, codes: IntArray) -> IntArray:
        """Where the fans of these nodes are; all of them must be covered."""
        return codes if self.nodes is None else np.searchsorted(self.nodes, codes).astype(np.int64)

    def spread(self, codes: IntArray) -> tuple[IntArray, IntArray]:
        return self.fan.spread(self.positions(codes))


def adjacency_of_pairs(sources: IntArray, targets: IntArray, edges: IntArray | None, size: int) -> Adjacency:
    """An adjacency that covers the codes below `size`. Parallel edges count once unless `edges` matter."""
    keys = pair_keys(sources, targets)
    if edges is None:
        return Adjacency(None, fan_of_keys(keys, size))
    order = np.argsort(keys, kind="stable")
    return Adjacency(None, _fan(keys[order], edges[order], size))


def fan_of_keys(keys: IntArray, size: int) -> Fan:
    """What is connected to what, from keys of pairs in any order and any number; they are sorted in place."""
    keys.sort()
    if len(keys):
        fresh = np.empty(len(keys), np.bool_)
        fresh[0] = True
        np.not_equal(keys[1:], keys[:-1], out=fresh[1:])
        keys = keys if fresh.all() else keys[fresh]
    return _fan(keys, None, size)


def _fan(keys: IntArray, edges: IntArray | None, size: int) -> Fan:
    starts = np.searchsorted(keys, np.arange(size + 1, dtype=np.int64) << 32).astype(np.int64)
    return Fan(starts, keys & 0xFFFFFFFF, edges)


def compact(sources: IntArray, targets: IntArray, edges: IntArray | None, nodes: IntArray) -> Adjacency:
    """An adjacency that covers a few nodes: `sources` are positions in `nodes`, which is ascending."""
    return Adjacency(nodes, adjacency_of_pairs(sources, targets, edges, len(nodes)).fan)
