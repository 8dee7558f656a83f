"""The edges of a type from an index on disk, with what has happened to them since.

Both directions are lists ordered by node and by target, in which parallel edges are kept, with the slot
of every edge beside its target. A node that has won or lost an edge since has a whole list of its own, so
that following edges asks one thing of each node, and nothing of each edge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from omnigraph_core.records import dataclass
from omnigraph_core.schema.model import DST_COLUMN, SRC_COLUMN
from omnigraph_core.topology.arrays import pair_keys, ranges, sorted_distinct, within
from omnigraph_core.topology.delta import Change
from omnigraph_core.topology.format import NotTopology
from omnigraph_core.topology.node_numbers import NodeNumbers
from omnigraph_core.topology.stored_ids import believed
from omnigraph_core.values.arrays import whole

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.topology.arrays import IntArray
    from omnigraph_core.topology.format import Arrays

NO_NODE = 0xFFFFFFFF
"""In the place of an end that is no node, and of both ends of a deleted edge."""


@dataclass(frozen=True, slots=True)
class Lists:
    """Targets and slots of the edges at each node: those of node i from `starts[i]` up to `starts[i + 1]`."""

    starts: npt.NDArray[Any]
    targets: npt.NDArray[Any]
    slots: npt.NDArray[Any]

    @classmethod
    def of(cls, arrays: Arrays, nodes: int) -> Lists:
        try:
            found = cls(arrays["starts"], arrays["targets"], arrays["slots"])
        except KeyError as error:
            raise NotTopology(f"no lists of edges: {error}") from error
        is_whole = len(found.starts) == nodes + 1 and len(found.targets) == len(found.slots)
        if not is_whole or found.starts[0] or found.starts[-1] != len(found.targets):
            raise NotTopology("lists of other edges")
        return found

    def bounds(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """Where the lists of nodes begin, and how long they are."""
        begins = self.starts[nodes].astype(np.int64)
        return begins, self.starts[nodes + 1].astype(np.int64) - begins


@dataclass(frozen=True, slots=True)
class Patch:
    """The lists of the nodes that changed, which are ascending."""

    nodes: IntArray
    lists: Lists


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges that begin or end at nodes: `rows` says at which of the nodes asked for, ascending."""

    rows: IntArray
    targets: IntArray
    slots: IntArray

    def distinct(self) -> Edges:
        """Of parallel edges one; they are next to each other."""
        if len(self.rows) < 2:
            return self
        fresh = np.ones(len(self.rows), np.bool_)
        fresh[1:] = (self.rows[1:] != self.rows[:-1]) | (self.targets[1:] != self.targets[:-1])
        return self if fresh.all() else self.kept(fresh)

    def kept(self, mask: npt.NDArray[np.bool_]) -> Edges:
        slots = self.slots[mask] if len(self.slots) else self.slots
        return Edges(self.rows[mask], self.targets[mask], slots)


class Direction:
    """All edges seen from one of their ends."""

    def __init__(self, lists: Lists, patch: Patch) -> None:
        self._lists = lists
        self._patch = patch

    def counts(self, nodes: IntArray) -> IntArray:
        with believed():
            return self._bounds(nodes)[1]

    def follow(self, nodes: IntArray, *, with_slots: bool) -> Edges:
        """The edges at these nodes, which may repeat."""
        with believed():
            begins, counts = self._bounds(nodes)
            if len(counts) and counts.min() < 0:
                raise NotTopology("a list that ends before it begins")
            rows = np.repeat(np.arange(len(nodes), dtype=np.int64), counts)
            places = ranges(begins, counts)
            targets = self._at(places, self._lists.targets, self._patch.lists.targets)
            if not with_slots:
                return Edges(rows, targets, rows[:0])
            return Edges(rows, targets, self._at(places, self._lists.slots, self._patch.lists.slots))

    def _bounds(self, nodes: IntArray) -> tuple[IntArray, IntArray]:
        """Places in the lists of the index, and behind them those of the patch."""
        patch = self._patch
        changed = within(nodes, patch.nodes)
        if not changed.any():
            return self._lists.bounds(nodes)
        begins, counts = self._lists.bounds(np.where(changed, 0, nodes))
        at = np.searchsorted(patch.nodes, nodes[changed])
        begins[changed], counts[changed] = patch.lists.bounds(at)
        begins[changed] += len(self._lists.targets)
        return begins, counts

    def _at(self, places: IntArray, stored: npt.NDArray[Any], patched: npt.NDArray[Any]) -> IntArray:
        end = len(stored)
        if not len(patched) or not (behind := places >= end).any():
            return stored[places].astype(np.int64)
        found = np.empty(len(places), np.int64)
        found[behind] = patched[places[behind] - end]
        found[~behind] = stored[places[~behind]]
        return found


class EdgeEnds:
    """What has happened to edges, in numbers of nodes; both directions are patched with it."""

    def __init__(self, arrays: Arrays, change: Change, near: NodeNumbers, far: NodeNumbers) -> None:
        try:
            self._src, self._dst = arrays["src"], arrays["dst"]
        except KeyError as error:
            raise NotTopology(f"no ends of edges: {error}") from error
        self._change = change
        self._near, self._far = near, far
        came = [
            table.find(whole(change.came.column(name)))
            for table, name in ((near, SRC_COLUMN), (far, DST_COLUMN))
        ]
        known = (came[0] >= 0) & (came[1] >= 0)
        self._came = came[0][known], came[1][known], change.came_slots[known]

    def patched(self, lists: Lists, other: Lists | None, *, backward: bool) -> Direction:
        """One direction; `other`, the opposite one, is asked only about nodes that are gone."""
        near, far = (self._far, self._near) if backward else (self._near, self._far)
        with believed():
            gone = self._gone(lists, other, near, far)
            ends = (self._dst if backward else self._src)[gone].astype(np.int64)
            came = self._came[1 if backward else 0], self._came[0 if backward else 1], self._came[2]
            new = np.arange(near.base_count, len(near), dtype=np.int64)
            nodes = sorted_distinct(np.concatenate([ends[ends != NO_NODE], came[0], near.dead, new]))
            return Direction(lists, Patch(nodes, self._lists(lists, nodes, near, gone, came)))

    def _gone(self, lists: Lists, other: Lists | None, near: NodeNumbers, far: NodeNumbers) -> IntArray:
        """Slots of edges that are there no more: deleted, or of a node that is gone."""
        parts = [self._change.gone]
        for direction, dead in ((lists, near.dead), (other, far.dead)):
            dead = dead[dead < (0 if direction is None else len(direction.starts) - 1)]
            if direction is not None and len(dead):
                parts.append(direction.slots[ranges(*direction.bounds(dead))].astype(np.int64))
        return sorted_distinct(np.concatenate(parts)) if len(parts) > 1 else parts[0]

    @staticmethod
    def _lists(
        lists: Lists,
        nodes: IntArray,
        near: NodeNumbers,
        gone: IntArray,
        came: tuple[IntArray, IntArray, IntArray],
    ) -> Lists:
        """What is left of the lists of these nodes, with what has come."""
        begins, counts = lists.bounds(nodes[nodes < near.base_count])
        places = ranges(begins, counts)
        slots = lists.slots[places].astype(np.int64)
        stays = ~within(slots, gone)
        rows = np.repeat(np.arange(len(counts), dtype=np.int64), counts)[stays]
        rows = np.concatenate([rows, np.searchsorted(nodes, came[0])])
        targets = np.concatenate([lists.targets[places].astype(np.int64)[stays], came[1]])
        keys = pair_keys(rows, targets)
        order = np.argsort(keys, kind="stable")
        starts = np.searchsorted(keys[order], np.arange(len(nodes) + 1, dtype=np.int64) << 32)
        return Lists(starts, targets[order], np.concatenate([slots[stays], came[2]])[order])


def sorted_edges(one: Edges, other: Edges) -> Edges:
    """Both together, ordered by row and target."""
    keys = np.concatenate([pair_keys(each.rows, each.targets) for each in (one, other)])
    if not len(one.slots) and not len(other.slots):
        keys.sort()
        return Edges(keys >> 32, keys & 0xFFFFFFFF, one.slots)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    return Edges(keys >> 32, keys & 0xFFFFFFFF, np.concatenate([one.slots, other.slots])[order])
