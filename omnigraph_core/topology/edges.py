"""Reading edges as numbers: all of a type at once, or those around a few nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph_core.query.checked import Direction
from omnigraph_core.records import dataclass
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.keys import in_filter
from omnigraph_core.topology.adjacency import Adjacency, Fan, adjacency_of_pairs, compact, fan_of_keys
from omnigraph_core.topology.arrays import in_arrow, pair_keys
from omnigraph_core.topology.selection import EdgeSelection

if TYPE_CHECKING:
    from omnigraph_core.topology.arrays import BoolArray, IntArray
    from omnigraph_core.topology.reader import CodedEntities, Limits, StepLog

    _Edges: TypeAlias = tuple[IntArray, IntArray, IntArray | None]
    _Numbers: TypeAlias = Callable[[pa.Array], IntArray]

_KEYS_PER_FILTER = 10_000
_BATCH_ROWS = 1 << 18

# An edge in memory while all are read: its key, once more while they are joined, and what is read.
DENSE_EDGE_BYTES = 40


@dataclass(frozen=True, slots=True)
class EdgeReader:
    """Reads the edges of a selection. `near` is where they are followed from."""

    selection: EdgeSelection
    near: CodedEntities
    far: CodedEntities
    edges: CodedEntities
    budget: Limits
    statistics: StepLog

    def all(self) -> Fan:
        """Every edge; nodes are their positions among all ids of their types, not codes."""
        selection = self.selection
        self.budget.check_bytes(self.edges.row_count, self.edges.row_count * DENSE_EDGE_BYTES)
        near, far = self.near.numbering(), self.far.numbering()
        if not selection.is_plain:
            parts = [self._read(selection.sides[0], None, near.find, far.find)]
            if selection.direction is Direction.BOTH:
                first = parts[0]
                parts.append(_without_loops((first[1], first[0], first[2])))
            sources, targets, edges = _joined(parts)
            return adjacency_of_pairs(sources, targets, edges, len(near)).fan
        keys = []
        for batch in self._batches(self._ends(selection.sides[0]), selection.where):
            sources, targets = near.find(batch.column(0)), far.find(batch.column(1))
            known = (sources >= 0) & (targets >= 0)
            if not known.all():
                sources, targets = sources[known], targets[known]
            keys.append(pair_keys(sources, targets))
            if selection.direction is Direction.BOTH:
                keys.append(pair_keys(targets, sources))
        return fan_of_keys(np.concatenate(keys) if keys else np.zeros(0, np.int64), len(near))

    def around(self, nodes: IntArray) -> Adjacency:
        """The edges around these nodes, which are distinct and ascending codes, by the index."""
        parts = []
        for side, column in enumerate(self.selection.sides):
            for some in _chunks(nodes):
                where = in_filter(self.near.ids_of(some), column)
                found = self._read(column, where, self._near_numbers(some), self.far.codes_of)
                parts.append(_without_loops(found) if side else found)
        if not parts:
            empty = np.zeros(0, np.int64)
            parts.append((empty, empty, empty if self.selection.by_edge else None))
        near, far, edges = _joined(parts)
        return compact(np.searchsorted(nodes, near).astype(np.int64), far, edges, nodes)

    def _near_numbers(self, nodes: IntArray) -> _Numbers | int:
        """How to tell which of the nodes an edge is at. Of a single one this need not be read."""
        return int(nodes[0]) if len(nodes) == 1 else self.near.codes_of

    def with_any(self) -> BoolArray:
        """For each node, by its position among all ids, whether it has such an edge."""
        table = self.near.numbering()
        found = np.zeros(len(table), np.bool_)
        for column in self.selection.sides:
            for batch in self._batches([column], self.selection.where):
                places = table.find(batch.column(0))
                found[places[places >= 0]] = True
        return found

    def those_with_any(self, nodes: IntArray) -> IntArray:
        """Those of the nodes, given by their codes, that have such an edge; by the index."""
        found = [np.zeros(0, np.int64)]
        for column in self.selection.sides:
            for some in _chunks(nodes):
                where = _both(self.selection.where, in_filter(self.near.ids_of(some), column))
                for batch in self._batches([column], where):
                    found.append(self.near.codes_of(batch.column(0)))
        return np.concatenate(found)

    def _read(self, near_column: str, where: str | None, near_of: _Numbers | int, far_of: _Numbers) -> _Edges:
        """The edges that pass, seen from one of their ends: numbers of both ends, code of the edge.

        If that end is the same for all, `near_of` is its number.
        """
        selection = self.selection
        far_column = self._ends(near_column)[1]
        columns = [far_column] if isinstance(near_of, int) else [near_column, far_column]
        if selection.by_edge:
            columns += [ID_COLUMN, *selection.columns]
        near, far, read = [], [], []
        rows = 0
        for batch in self._batches(columns, _both(selection.where, where)):
            rows += batch.num_rows
            self.budget.check_rows(rows, len(columns) + 1)
            targets = far_of(batch.column(far_column))
            if isinstance(near_of, int):
                sources = np.full(len(targets), near_of, np.int64)
            else:
                sources = near_of(batch.column(near_column))
            known = (sources >= 0) & (targets >= 0)
            if not known.all():
                sources, targets, batch = sources[known], targets[known], batch.filter(in_arrow(known))
            near.append(sources)
            far.append(targets)
            read.append(batch)
        joined = [np.concatenate(part) if part else np.zeros(0, np.int64) for part in (near, far)]
        return joined[0], joined[1], self._edge_codes(read) if selection.by_edge else None

    def _edge_codes(self, batches: list[pa.RecordBatch]) -> IntArray:
        codes = self.edges.met([batch.column(ID_COLUMN) for batch in batches])
        for name in self.selection.columns:
            self.edges.keep(name, codes, [batch.column(name) for batch in batches])
        return codes

    def _ends(self, near_column: str) -> list[str]:
        return [near_column, DST_COLUMN if near_column == SRC_COLUMN else SRC_COLUMN]

    def _batches(self, columns: list[str], where: str | None) -> Iterator[pa.RecordBatch]:
        for batch in self.edges.table.scan(columns, where, batch_rows=_BATCH_ROWS):
            self.budget.check_time()
            self.statistics.count_read(batch.num_rows, batch.nbytes)
            if batch.num_rows:
                yield batch.select(columns)


def _both(first: str | None, second: str | None) -> str | None:
    return " AND ".join(f"({text})" for text in (first, second) if text is not None) or None


def _chunks(nodes: IntArray) -> list[IntArray]:
    """So many at a time that the text of a filter stays small."""
    return [nodes[start : start + _KEYS_PER_FILTER] for start in range(0, len(nodes), _KEYS_PER_FILTER)]


def _without_loops(edges: _Edges) -> _Edges:
    """An edge from a node to itself is one edge, also when followed both ways."""
    near, far, codes = edges
    kept = near != far
    return near[kept], far[kept], None if codes is None else codes[kept]


def _joined(parts: list[_Edges]) -> _Edges:
    near = np.concatenate([part[0] for part in parts])
    far = np.concatenate([part[1] for part in parts])
    edges = [part[2] for part in parts if part[2] is not None]
    return near, far, np.concatenate(edges) if edges else None
