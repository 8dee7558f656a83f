"""Building topology indexes: files beside the tables that say who is connected to whom.

They belong to no version and no branch: a reader compares fragments. So building one takes no lock and
publishes nothing. Two builders at once are both right, and a builder that is killed leaves files that no
record names, until cleanup.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from omnigraph_core import faults
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.snapshot import Snapshot, SubTableEntry
from omnigraph_core.progress import Progress, ProgressEvent, silent
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EdgeType, Schema
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.topology.build import (
    EDGE_BYTES,
    NODE_BYTES,
    ROWS_MAX,
    BuiltNodes,
    build_edges,
    build_nodes,
)
from omnigraph_core.topology.delta import rows_changed
from omnigraph_core.topology.record import StoredEdges, StoredNodes, TopologyRecord
from omnigraph_core.topology.store import TopologyStore
from omnigraph_core.topology.stored import EDGE_COLUMNS, NODE_COLUMNS

# Fewer edges than this are read in some tens of milliseconds; nobody builds an index for them unasked.
EDGES_MIN = 100_000

# A load of so many edges takes several times as long as the index of them.
EDGES_LOADED_MIN = 1_000_000

# An index from which so small a part has changed is as good as a new one.
_CHANGED_SHARE = 100


@dataclass(frozen=True, slots=True)
class TopologyBuilt:
    """What became of one edge type."""

    type_name: str
    edges: int
    bytes: int
    is_new: bool
    skipped: str | None = None
    """Why there is no index of it."""


class TopologyBuilder:
    """Builds the index of one state of a graph."""

    def __init__(self, tables: Tables, memory_bytes: int, progress: Progress = silent) -> None:
        self._tables = tables
        self._storage = tables.storage
        self._store = TopologyStore(tables.storage)
        self._memory_bytes = memory_bytes
        self._progress = progress

    def build(
        self, snapshot: Snapshot, schema: Schema, *, edges_min: int = 1, anew: bool = False
    ) -> list[TopologyBuilt]:
        """Have an index of every edge type with so many edges.

        One that is still good stays as it is, unless `anew`.
        """
        wanted = [
            each for each in schema.edges if snapshot.entry(each.table_key).row_count >= max(1, edges_min)
        ]
        needed, skipped = self._fitting(snapshot, schema, wanted)
        current = None if anew else self._current(snapshot, schema, needed)
        if not needed or current is not None:
            kept = current.edges if current is not None else {}
            return [*(self._told(snapshot, each, kept, is_new=False) for each in needed), *skipped]
        nodes: dict[str, BuiltNodes] = {}
        edges: dict[str, StoredEdges] = {}
        name = new_ulid()
        for each in needed:
            near = self._nodes(snapshot, schema, each.from_type, nodes)
            far = self._nodes(snapshot, schema, each.to_type, nodes)
            table = self._open(snapshot.entry(each.table_key))
            told = self._told_rows(each.name)
            edges[table.ref.path] = build_edges(self._storage, self._store, table, near, far, told)
            faults.hit("topology.edges_written")
        stored = {each.stored.path: each.stored for each in nodes.values()}
        self._store.publish(TopologyRecord(name, stored, edges))
        faults.hit("topology.published")
        self._store.remove_damaged()
        return [*(self._told(snapshot, each, edges, is_new=True) for each in needed), *skipped]

    def _fitting(
        self, snapshot: Snapshot, schema: Schema, wanted: Collection[EdgeType]
    ) -> tuple[list[EdgeType], list[TopologyBuilt]]:
        """The edge types that can be sorted within the memory, and those that cannot."""
        fitting, skipped = [], []
        for each in wanted:
            rows = snapshot.entry(each.table_key).row_count
            ends = {schema.node(name).table_key for name in (each.from_type, each.to_type)}
            needed = rows * EDGE_BYTES + sum(snapshot.entry(key).row_count for key in ends) * NODE_BYTES
            if needed > self._memory_bytes or rows > ROWS_MAX:
                limit = self._memory_bytes >> 20
                text = f"it needs {needed >> 20:,} MiB of memory; the limit is {limit:,} MiB"
                skipped.append(TopologyBuilt(each.name, rows, 0, is_new=False, skipped=text))
            else:
                fitting.append(each)
        return fitting, skipped

    def _current(
        self, snapshot: Snapshot, schema: Schema, wanted: Collection[EdgeType]
    ) -> TopologyRecord | None:
        """An index that has all of this already, or all but a few rows of it."""
        for record in self._store.records():
            parts = [record.edges.get(snapshot.entry(each.table_key).table_path) for each in wanted]
            if all(part is not None and self._is_good(snapshot, schema, record, part) for part in parts):
                return record
        return None

    def _is_good(
        self, snapshot: Snapshot, schema: Schema, record: TopologyRecord, edges: StoredEdges
    ) -> bool:
        by_path = {entry.table_path: entry for entry in snapshot.tables.values()}
        parts: list[StoredEdges | StoredNodes | None] = [
            edges,
            record.nodes.get(edges.near),
            record.nodes.get(edges.far),
        ]
        for part in parts:
            entry = None if part is None else by_path.get(part.path)
            if part is None or entry is None or not self._is_there(part):
                return False
            columns = EDGE_COLUMNS if part is edges else NODE_COLUMNS
            if rows_changed(self._open(entry), columns, part.stretches) * _CHANGED_SHARE > entry.row_count:
                return False
        return True

    def _is_there(self, part: StoredEdges | StoredNodes) -> bool:
        """Is every file of it there, and what was written?"""
        return all(self._store.is_sound(file) for file in part.files)

    def _nodes(
        self, snapshot: Snapshot, schema: Schema, type_name: str, known: dict[str, BuiltNodes]
    ) -> BuiltNodes:
        if type_name not in known:
            table = self._open(snapshot.entry(schema.node(type_name).table_key))
            known[type_name] = build_nodes(self._storage, self._store, table, self._told_rows(type_name))
        return known[type_name]

    def _open(self, entry: SubTableEntry) -> Table:
        return self._tables.open(entry.ref, entry.table_version)

    def _told_rows(self, type_name: str) -> Callable[[int], None]:
        done = 0

        def tell(rows: int) -> None:
            nonlocal done
            done += rows
            self._progress(ProgressEvent(f"topology of {type_name}", done, unit="rows"))

        return tell

    @staticmethod
    def _told(
        snapshot: Snapshot, edge: EdgeType, stored: Mapping[str, StoredEdges], *, is_new: bool
    ) -> TopologyBuilt:
        entry = snapshot.entry(edge.table_key)
        size = sum(file.size for file in stored[entry.table_path].files)
        return TopologyBuilt(edge.name, entry.row_count, size, is_new)
