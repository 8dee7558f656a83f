"""The five ways to stage a change of rows. None of them moves HEAD.

Upserts and deletes work by row address: the rows to replace are found by an indexed
look-up, marked deleted fragment by fragment, and their new versions appended under
their old row ids. On a table of a million rows this is an order of magnitude cheaper
than Lance's merge_insert, and the set of rows is exactly the one that was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph_core.errors import InternalError
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.fragments import (
    conform,
    data_files,
    deletion_files,
    keep_row_ids,
    refuse_nulls,
    write_rows,
)
from omnigraph_core.tables.keys import KEY, KeyConflict, find_keys, in_filter, refuse_duplicates
from omnigraph_core.tables.staged import StagedWrite, StageKind, prepare

if TYPE_CHECKING:
    import pyarrow as pa


def stage_append(storage: Storage, table: Table, rows: pa.Table, operation_id: str) -> StagedWrite:
    """Add rows whose keys the caller has proven to be new."""
    rows = conform(rows, table.schema, table.ref)
    refuse_duplicates(rows.column(KEY), table.ref)
    return _appended(storage, table, rows, StageKind.APPEND, operation_id)


def stage_insert(storage: Storage, table: Table, rows: pa.Table, operation_id: str) -> StagedWrite:
    """Add rows; a key that is already there is a KeyConflict."""
    rows = conform(rows, table.schema, table.ref)
    existing = find_keys(table, rows.column(KEY))
    if existing.num_rows:
        raise KeyConflict(table.ref.key, existing.column(KEY)[0].as_py())
    refuse_duplicates(rows.column(KEY), table.ref)
    return _appended(storage, table, rows, StageKind.INSERT, operation_id)


def stage_overwrite(storage: Storage, table: Table, rows: pa.Table, operation_id: str) -> StagedWrite:
    """Replace all rows (by none, too); the new rows get new row ids.

    The columns are those of `rows`: this is also how a schema change rewrites a table.
    """
    if KEY not in rows.column_names:
        raise InternalError(f"table '{table.ref.key}' must keep its column '{KEY}'")
    position = rows.schema.get_field_index(KEY)
    schema = rows.schema.set(position, rows.schema.field(KEY).with_nullable(False))
    refuse_nulls(rows, [field.name for field in schema if not field.nullable], table.ref)
    rows = rows.cast(schema)
    refuse_duplicates(rows.column(KEY), table.ref)
    operation = write_rows(table, rows, mode="overwrite").operation
    return prepare(
        table.ref,
        StageKind.OVERWRITE,
        table.version,
        operation,
        operation_id,
        data_files(storage, table.ref, operation.fragments, rows.schema),
        inserted=rows.num_rows,
        deleted=table.count_rows(),
    )


def stage_upsert(storage: Storage, table: Table, rows: pa.Table, operation_id: str) -> StagedWrite:
    """Replace the rows whose key is already there, whole and under their row ids; add the rest."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = conform(rows, table.schema, table.ref)
    refuse_duplicates(rows.column(KEY), table.ref)
    # In row-id order, a run of neighbours is stored as a range, not id by id.
    existing = find_keys(table, rows.column(KEY)).sort_by("_rowid")
    rewritten = rows.take(pc.index_in(existing.column(KEY), value_set=rows.column(KEY).combine_chunks()))
    is_new = pc.invert(pc.is_in(rows.column(KEY), value_set=existing.column(KEY).combine_chunks()))
    new = rows.filter(is_new)
    marked = _mark_deleted(table, existing.column("_rowaddr"))
    fragments = list(write_rows(table, pa.concat_tables([rewritten, new])).operation.fragments)
    keep_row_ids(fragments, existing.column("_rowid"))
    operation = _update_operation(table, marked, fragments)
    files = data_files(storage, table.ref, fragments, rows.schema)
    files += deletion_files(storage, table.ref, marked.updated)
    return prepare(
        table.ref,
        StageKind.UPSERT,
        table.version,
        operation,
        operation_id,
        files,
        inserted=new.num_rows,
        updated=rewritten.num_rows,
    )


def stage_delete(
    storage: Storage,
    table: Table,
    operation_id: str,
    *,
    where: str | None = None,
    ids: pa.ChunkedArray | None = None,
) -> StagedWrite:
    """Delete the rows that match `where`, or those with the given ids; exactly these, as of now."""
    from lance.dataset import LanceOperation

    if (where is None) == (ids is None):
        raise TypeError("stage_delete takes either a predicate or ids")
    if ids is not None:
        addresses = find_keys(table, ids).column("_rowaddr")
        where = in_filter(ids) if len(ids) <= 20 else f"{KEY} IN ({len(ids)} ids)"
    else:
        addresses = table.read([], where, with_row_address=True).column("_rowaddr")
    marked = _mark_deleted(table, addresses)
    operation = LanceOperation.Delete(marked.updated, marked.removed_ids, str(where))
    files = deletion_files(storage, table.ref, marked.updated)
    return prepare(
        table.ref, StageKind.DELETE, table.version, operation, operation_id, files, deleted=len(addresses)
    )


def _appended(
    storage: Storage, table: Table, rows: pa.Table, kind: StageKind, operation_id: str
) -> StagedWrite:
    operation = write_rows(table, rows).operation
    files = data_files(storage, table.ref, operation.fragments, rows.schema)
    return prepare(table.ref, kind, table.version, operation, operation_id, files, inserted=rows.num_rows)


@dataclass(frozen=True, slots=True)
class _Marked:
    """Fragments with some rows marked deleted, and ids of those with no row left."""

    updated: list[Any]
    removed_ids: list[int]


def _mark_deleted(table: Table, addresses: pa.ChunkedArray) -> _Marked:
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
    return _Marked(updated, removed)


def _update_operation(table: Table, marked: _Marked, fragments: Sequence[Any]) -> Any:
    from lance.dataset import LanceOperation

    return LanceOperation.Update(
        removed_fragment_ids=marked.removed_ids,
        updated_fragments=marked.updated,
        new_fragments=list(fragments),
        fields_modified=[],
        fields_for_preserving_frag_bitmap=table.field_ids,
        update_mode="rewrite_rows",
    )
