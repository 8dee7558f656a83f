"""Making a topology index: every id gets a number, every edge a place in two ordered lists.

Memory is bounded by what is made: about 40 bytes for an edge and 100 for a node while it is sorted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph_core.errors import LimitError
from omnigraph_core.records import dataclass
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.storage import Storage
from omnigraph_core.tables.physical import Stretch, deleted_rows, stretches
from omnigraph_core.topology.delta import Slots
from omnigraph_core.topology.idtable import IdTable
from omnigraph_core.topology.record import StoredEdges, StoredNodes, stored_stretches
from omnigraph_core.topology.store import TopologyStore
from omnigraph_core.topology.stored import EDGE_COLUMNS, NODE_COLUMNS
from omnigraph_core.topology.stored_edges import NO_NODE
from omnigraph_core.topology.stored_ids import arrays_of_ids

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.tables.dataset import Table
    from omnigraph_core.topology.arrays import IntArray
    from omnigraph_core.topology.format import Arrays

_BATCH_ROWS = 1 << 18

# Numbers of nodes and slots of edges are 32 bits; texts of an Arrow array are 2 GiB at most.
ROWS_MAX = (1 << 31) - 2
_ID_BYTES_MAX = (1 << 31) - 64

NODE_BYTES = 100
EDGE_BYTES = 40


class TooLarge(LimitError):
    """A table that this kind of index has no room for."""


@dataclass(frozen=True, slots=True)
class BuiltNodes:
    """The nodes of one type, stored, and their ids for those who store edges."""

    stored: StoredNodes
    ids: IdTable


def build_nodes(
    storage: Storage, store: TopologyStore, table: Table, on_rows: Callable[[int], None]
) -> BuiltNodes:
    """Number the nodes of a type in the order of a scan."""
    found = stretches(table, NODE_COLUMNS)
    ids, row_ids, addresses, size = [], [], [], 0
    for batch in table.scan([ID_COLUMN], with_row_id=True, with_row_address=True, batch_rows=_BATCH_ROWS):
        size += batch.column(ID_COLUMN).nbytes
        if size > _ID_BYTES_MAX:
            raise TooLarge(f"the ids of {table.ref.key} take more than 2 GiB")
        ids.append(batch.column(ID_COLUMN))
        row_ids.append(batch.column("_rowid").to_numpy())
        addresses.append(batch.column("_rowaddr").to_numpy().astype(np.int64))
        on_rows(batch.num_rows)
    numbered = IdTable(pa.concat_arrays([pa.array([], pa.utf8()), *ids]))
    dead = _dead_slots(storage, table, found)
    arrays = {
        **arrays_of_ids(numbered),
        "row_ids": _narrow(np.concatenate([np.zeros(0, np.uint64), *row_ids])),
        # Without deleted rows, a number is a slot.
        "slots": _joined(map(_slots_of(found).of, addresses)) if len(dead) else np.zeros(0, np.uint32),
        "dead": dead,
    }
    file = store.write("nodes", arrays)
    return BuiltNodes(StoredNodes(table.ref.path, stored_stretches(found), len(numbered), file), numbered)


def build_edges(
    storage: Storage,
    store: TopologyStore,
    table: Table,
    near: BuiltNodes,
    far: BuiltNodes,
    on_rows: Callable[[int], None],
) -> StoredEdges:
    """Read the ends of all edges of a type, and order them from either end."""
    found = stretches(table, EDGE_COLUMNS)
    total = sum(each.rows for each in found)
    if total > ROWS_MAX:
        raise TooLarge(f"{table.ref.key} has more than {ROWS_MAX:,} rows")
    src, dst = np.full(total, NO_NODE, np.uint32), np.full(total, NO_NODE, np.uint32)
    places = _slots_of(found)
    dangling = 0
    for batch in table.scan(list(EDGE_COLUMNS), with_row_address=True, batch_rows=_BATCH_ROWS):
        slots = places.of(batch.column("_rowaddr").to_numpy().astype(np.int64))
        sources, targets = near.ids.find(batch.column(SRC_COLUMN)), far.ids.find(batch.column(DST_COLUMN))
        known = (sources >= 0) & (targets >= 0)
        if not known.all():
            dangling += int((~known).sum())
            slots, sources, targets = slots[known], sources[known], targets[known]
        src[slots], dst[slots] = sources, targets
        on_rows(batch.num_rows)
    live = src != NO_NODE
    chosen = None if live.all() else np.flatnonzero(live).astype(np.int64)
    out = store.write("from", _lists(src, dst, chosen, len(near.ids)))
    into = store.write("into", _lists(dst, src, chosen, len(far.ids)))
    ends = store.write("ends", {"src": src, "dst": dst, "dead": _dead_slots(storage, table, found)})
    return StoredEdges(
        table.ref.path,
        near.stored.path,
        far.stored.path,
        stored_stretches(found),
        dangling,
        out,
        into,
        ends,
    )


def _lists(
    near: npt.NDArray[np.uint32], far: npt.NDArray[np.uint32], slots: IntArray | None, nodes: int
) -> Arrays:
    """Targets and slots ordered by node, then by target."""
    if slots is not None:
        near, far = near[slots], far[slots]
    # One word that sorts like both numbers. The order of parallel edges means nothing.
    keys = (near.astype(np.uint64) << np.uint64(32)) | far
    order = np.argsort(keys)
    ordered = keys[order]
    begins = np.searchsorted(ordered, np.arange(nodes + 1, dtype=np.uint64) << np.uint64(32))
    targets = ordered.astype(np.uint32)
    del keys, ordered
    placed = order if slots is None else slots[order]
    return {"starts": begins.astype(np.uint32), "targets": targets, "slots": placed.astype(np.uint32)}


def _slots_of(found: Sequence[Stretch]) -> Slots:
    """Where the rows of these fragments are: one fragment after the other."""
    firsts = np.zeros(len(found) + 1, np.int64)
    np.cumsum(np.array([each.rows for each in found], np.int64), out=firsts[1:])
    return Slots(firsts[:-1], np.array([each.fragment_id for each in found], np.int64))


def _dead_slots(storage: Storage, table: Table, found: Sequence[Stretch]) -> npt.NDArray[np.uint32]:
    """The slots of deleted rows."""
    firsts = _slots_of(found).firsts
    parts = [
        deleted_rows(table, storage, each) + first
        for each, first in zip(found, firsts, strict=True)
        if each.deletion is not None
    ]
    return _joined(parts)


def _joined(parts: Iterable[IntArray]) -> npt.NDArray[np.uint32]:
    return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.uint32)


def _narrow(values: npt.NDArray[np.uint64]) -> npt.NDArray[Any]:
    return values.astype(np.uint32) if not len(values) or values.max() < 1 << 32 else values
