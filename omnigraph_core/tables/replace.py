"""Replacing rows by address: old rows marked deleted in their fragments, new ones beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_core.records import dataclass
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.keys import KEY

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Marked:
    """Fragments with some rows marked deleted, and ids of those with no row left."""

    updated: list[Any]
    removed_ids: list[int]


def mark_deleted(table: Table, addresses: pa.ChunkedArray) -> Marked:
    """Write deletion files for rows given by address: fragment id << 32 | offset."""
    import numpy as np

    ordered = np.sort(addresses.to_numpy())
    fragment_ids, starts = np.unique(ordered >> np.uint64(32), return_index=True)
    groups = np.split((ordered & np.uint64(0xFFFFFFFF)).astype(np.uint32), starts[1:])
    updated: list[Any] = []
    removed: list[int] = []
    for fragment_id, offsets in zip(fragment_ids.tolist(), groups, strict=False):
        with lance_failures(table.ref, "marking deleted rows of"):
            metadata = table.lance.get_fragment(fragment_id).delete_rows(offsets)
        if metadata is None:
            removed.append(fragment_id)
        else:
            updated.append(metadata)
    return Marked(updated, removed)


def replacing_operation(table: Table, marked: Marked, fragments: Sequence[Any]) -> Any:
    """The Lance operation in which new fragments take the place of marked rows."""
    from lance.dataset import LanceOperation

    return LanceOperation.Update(
        removed_fragment_ids=marked.removed_ids,
        updated_fragments=marked.updated,
        new_fragments=list(fragments),
        fields_modified=[],
        fields_for_preserving_frag_bitmap=table.field_ids,
        update_mode="rewrite_rows",
    )


def replacing_first(rows: pa.Table, existing: pa.Table) -> tuple[pa.Table, pa.ChunkedArray]:
    """`rows` with those that replace a row of `existing` in front, and the row ids these keep.

    A fragment takes given row ids for its first rows only. In row-id order, a run of
    neighbours is stored as a range, not id by id.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    existing = existing.sort_by("_rowid")
    keys, known = rows.column(KEY).combine_chunks(), existing.column(KEY).combine_chunks()
    rewritten = rows.take(pc.index_in(known, value_set=keys))
    new = rows.filter(pc.invert(pc.is_in(keys, value_set=known)))
    return pa.concat_tables([rewritten, new]), existing.column("_rowid")
