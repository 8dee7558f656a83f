"""Finding the edges around nodes: by look-ups in the index of the edge table, or from memory.

Both ways give the same adjacency. A few nodes are looked up, which costs some tenths
of a millisecond each; for many it pays to read all edges of the type once and keep
them. Whoever needs neighbours asks `Topology.around`; a persisted index would be one
more `EdgeSource` there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeAlias

from omnigraph_core.query.checked import Direction
from omnigraph_core.read.adjacency import Adjacency, adjacency_of_pairs, compact
from omnigraph_core.read.arrays import distinct, is_among, whole
from omnigraph_core.read.budget import Budget
from omnigraph_core.read.entities import Entities
from omnigraph_core.read.statistics import Statistics
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EdgeType
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.settings import TraversalMode
from omnigraph_core.tables.keys import in_filter

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph_core.read.arrays import BoolArray, IntArray

    _Edges: TypeAlias = tuple[IntArray, IntArray, IntArray | None]

# Measured on 1 M nodes and 10 M edges: a look-up by key, and reading and encoding an edge or a node.
_LOOK_UP_S = 0.4e-3
_DENSE_ROW_S = 0.6e-6
_DENSE_FIXED_S = 5e-3

_KEYS_PER_FILTER = 10_000

# Encoding builds a table of all ids for each batch, so batches are large.
_BATCH_ROWS = 1 << 22
_ROWS_FOR_THREADS = 200_000


@dataclass(frozen=True, slots=True)
class EdgeSelection:
    """Edges of one type followed one way; `where` is a filter on them as SQL.

    With `by_edge` every edge counts, otherwise only who is connected to whom.
    """

    edge: EdgeType
    direction: Direction
    where: str | None = None
    by_edge: bool = False
    columns: tuple[str, ...] = ()

    @property
    def near(self) -> str:
        """The type of the nodes that edges are followed from."""
        return self.edge.to_type if self.direction is Direction.BACKWARD else self.edge.from_type

    @property
    def far(self) -> str:
        return self.edge.from_type if self.direction is Direction.BACKWARD else self.edge.to_type


class EdgeSource(Protocol):
    """A way to find the edges around nodes."""

    def around(self, nodes: IntArray) -> Adjacency:
        """An adjacency that covers at least these nodes, which are distinct and ascending."""


class Topology:
    """The edges of one snapshot, for the length of one read."""

    def __init__(
        self,
        entities_of: Callable[[str], Entities],
        edges_of: Callable[[EdgeType], Entities],
        mode: TraversalMode | None,
        budget: Budget,
        statistics: Statistics,
    ) -> None:
        self._entities_of = entities_of
        self._edges_of = edges_of
        self._mode = mode
        self._budget = budget
        self._statistics = statistics
        self._dense: dict[EdgeSelection, _InMemory] = {}

    def around(self, selection: EdgeSelection, nodes: IntArray) -> Adjacency:
        return self._source(selection, len(nodes)).around(nodes)

    def connected(self, selection: EdgeSelection, codes: IntArray) -> BoolArray:
        """Which of the nodes have any such edge; only one end of the edges is read for it."""
        import numpy as np

        near = self._entities_of(selection.near)
        nodes, places = distinct(codes, near.size)
        dense = self.is_dense(selection, len(nodes))
        self._statistics.note("csr" if dense else "indexed")
        if selection in self._dense:
            adjacency = self._dense[selection].around(nodes)
            found: BoolArray = adjacency.fan.counts(adjacency.positions(nodes)) > 0
            return found[places]
        reader = self._reader(selection)
        pieces = [reader.ends(column, nodes, dense=dense) for column in _sides(selection.direction)]
        return is_among(codes, np.concatenate(pieces), near.size)

    def is_dense(self, selection: EdgeSelection, node_count: int) -> bool:
        """Would so many nodes be served from memory?"""
        if self._mode is not None:
            return self._mode is TraversalMode.CSR
        if selection in self._dense:
            return True
        rows = self._edges_of(selection.edge).row_count
        nodes = self._entities_of(selection.near).row_count + self._entities_of(selection.far).row_count
        sides = 2 if selection.direction is Direction.BOTH else 1
        return node_count * sides * _LOOK_UP_S > (rows + nodes) * _DENSE_ROW_S + _DENSE_FIXED_S

    def _source(self, selection: EdgeSelection, node_count: int) -> EdgeSource:
        near, far = self._entities_of(selection.near), self._entities_of(selection.far)
        reader = _EdgeReader(
            selection, near, far, self._edges_of(selection.edge), self._budget, self._statistics
        )
        if not self.is_dense(selection, node_count):
            self._statistics.note("indexed")
            return _LookedUp(reader)
        self._statistics.note("csr")
        return self._dense.setdefault(selection, _InMemory(reader))

    def _reader(self, selection: EdgeSelection) -> _EdgeReader:
        near, far = self._entities_of(selection.near), self._entities_of(selection.far)
        edges = self._edges_of(selection.edge)
        return _EdgeReader(selection, near, far, edges, self._budget, self._statistics)


class _EdgeReader:
    """Reads edges as codes: from, to, edge."""

    def __init__(
        self,
        selection: EdgeSelection,
        near: Entities,
        far: Entities,
        edges: Entities,
        budget: Budget,
        statistics: Statistics,
    ) -> None:
        self.selection = selection
        self.near = near
        self.far = far
        self.edges = edges
        self._budget = budget
        self._statistics = statistics

    def read(self, near_column: str, where: str | None) -> _Edges:
        """Every edge that passes, seen from one of its ends: codes of that end, the other, the edge."""
        import numpy as np

        far_column = DST_COLUMN if near_column == SRC_COLUMN else SRC_COLUMN
        selection = self.selection
        columns = [near_column, far_column]
        if selection.by_edge:
            columns += [ID_COLUMN, *selection.columns]
        filters = [f"({text})" for text in (selection.where, where) if text is not None]
        near, far, edges = [], [], []
        for batch in self._batches(columns, " AND ".join(filters) or None):
            codes = self._encoded(batch)
            near.append(codes[0])
            far.append(codes[1])
            if selection.by_edge:
                edges.append(self._edge_codes(batch))
        empty = np.zeros(0, np.int64)
        joined = [np.concatenate(part) if part else empty for part in (near, far, edges)]
        return joined[0], joined[1], joined[2] if selection.by_edge else None

    def ends(self, column: str, nodes: IntArray, *, dense: bool) -> IntArray:
        """The codes, among these nodes at least, that occur in one column of the edges."""
        import numpy as np
        import pyarrow.compute as pc

        found = [np.zeros(0, np.int64)]
        for keys in [None] if dense else _chunks(nodes):
            where = None if keys is None else in_filter(self.near.ids_of(keys), column)
            filters = [f"({text})" for text in (self.selection.where, where) if text is not None]
            for batch in self._batches([column], " AND ".join(filters) or None):
                known = pc.index_in(batch.column(0), value_set=self.near.ids).drop_null()
                found.append(known.to_numpy().astype(np.int64))
        return np.concatenate(found)

    def _encoded(self, batch: pa.RecordBatch) -> list[IntArray]:
        """Codes of both ends; in two threads where all ids are known, so that nothing is changed."""
        work = [(self.near, batch.column(0)), (self.far, batch.column(1))]
        if batch.num_rows < _ROWS_FOR_THREADS or not (self.near.is_complete and self.far.is_complete):
            return [entities.codes_of(ids) for entities, ids in work]
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(lambda each: each[0].codes_of(each[1]), work))

    def _edge_codes(self, batch: pa.RecordBatch) -> IntArray:
        codes = self.edges.codes_of(batch.column(2))
        for position, name in enumerate(self.selection.columns, 3):
            self.edges.keep(name, codes, [batch.column(position)])
        return codes

    def _batches(self, columns: list[str], where: str | None) -> Iterator[pa.RecordBatch]:

        reader = self.edges.table.scan(columns, where, batch_rows=1 << 20)
        waiting: list[pa.RecordBatch] = []
        rows = 0
        for batch in reader:
            self._budget.check_time()
            self._statistics.count_read(batch.num_rows, batch.nbytes)
            waiting.append(batch)
            rows += batch.num_rows
            if rows >= _BATCH_ROWS:
                yield _merged(waiting, columns)
                waiting, rows = [], 0
        if rows:
            yield _merged(waiting, columns)


def _merged(batches: list[pa.RecordBatch], columns: list[str]) -> pa.RecordBatch:
    import pyarrow as pa

    table = pa.Table.from_batches(batches).select(columns)
    return pa.RecordBatch.from_arrays([whole(column) for column in table.columns], columns)


def _chunks(nodes: IntArray) -> list[IntArray]:
    """So many at a time that the text of a filter stays small."""
    return [nodes[start : start + _KEYS_PER_FILTER] for start in range(0, len(nodes), _KEYS_PER_FILTER)]


def _sides(direction: Direction) -> list[str]:
    """The columns of an edge whose node it is followed from."""
    if direction is Direction.BOTH:
        return [SRC_COLUMN, DST_COLUMN]
    return [SRC_COLUMN if direction is Direction.FORWARD else DST_COLUMN]


def _without_second_loops(side: int, near: IntArray, far: IntArray, edges: IntArray | None) -> _Edges:
    """An edge from a node to itself is one edge, also when followed both ways."""
    if side == 0:
        return near, far, edges
    kept = near != far
    return near[kept], far[kept], None if edges is None else edges[kept]


def _both(parts: list[_Edges]) -> _Edges:
    import numpy as np

    near = np.concatenate([part[0] for part in parts])
    far = np.concatenate([part[1] for part in parts])
    edges = [part[2] for part in parts if part[2] is not None]
    return near, far, np.concatenate(edges) if edges else None


class _LookedUp:
    """Edges found by the index on their ends."""

    def __init__(self, reader: _EdgeReader) -> None:
        self._reader = reader

    def around(self, nodes: IntArray) -> Adjacency:
        import numpy as np

        reader = self._reader
        parts = []
        for side, column in enumerate(_sides(reader.selection.direction)):
            for some in _chunks(nodes):
                found = reader.read(column, in_filter(reader.near.ids_of(some), column))
                parts.append(_without_second_loops(side, *found))
        if not parts:
            empty = np.zeros(0, np.int64)
            parts.append((empty, empty, empty if reader.selection.by_edge else None))
        near, far, edges = _both(parts)
        return compact(np.searchsorted(nodes, near).astype(np.int64), far, edges, nodes)


class _InMemory:
    """All edges of the type, read when first asked for."""

    def __init__(self, reader: _EdgeReader) -> None:
        self._reader = reader
        self._adjacency: Adjacency | None = None

    def around(self, nodes: IntArray) -> Adjacency:
        if self._adjacency is None:
            self._adjacency = self._read()
        return self._adjacency

    def _read(self) -> Adjacency:
        reader = self._reader
        reader.near.meet_all()
        reader.far.meet_all()
        near, far, edges = reader.read(_sides(reader.selection.direction)[0], None)
        if reader.selection.direction is Direction.BOTH:
            near, far, edges = _both([(near, far, edges), _without_second_loops(1, far, near, edges)])
        return adjacency_of_pairs(near, far, edges, reader.near.size)
