"""The four ways to stage a change of rows. None of them moves HEAD.

Upserts and deletes work by row address: the rows to replace are found by an indexed
look-up, marked deleted fragment by fragment, and their new versions appended under
their old row ids. On a table of a million rows this is an order of magnitude cheaper
than Lance's merge_insert, and the set of rows is exactly the one that was read. Rows that
go are marked in the same pass, so one transaction can insert, update and delete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_core.errors import InternalError
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.fragments import conform, data_files, deletion_files, refuse_nulls, write_rows
from omnigraph_core.tables.keys import KEY, find_keys, in_filter, refuse_duplicates
from omnigraph_core.tables.replace import mark_deleted, replacing_first
from omnigraph_core.tables.sink import RowSink
from omnigraph_core.tables.staged import StagedWrite, StageKind, prepare

if TYPE_CHECKING:
    import pyarrow as pa


def stage_append(storage: Storage, table: Table, rows: pa.Table, operation_id: str) -> StagedWrite:
    """Add rows whose keys the caller has proven to be new, and each to occur once."""
    return _written(storage, table, rows).stage_append(table.version, operation_id)


def stage_overwrite(
    storage: Storage, table: Table, rows: pa.Table, operation_id: str, *, proven: bool = False
) -> StagedWrite:
    """Replace all rows (by none, too); the new rows get new row ids.

    The columns are those of `rows`: this is also how a schema change rewrites a table.
    With `proven`, the caller knows that no key occurs twice.
    """
    if KEY not in rows.column_names:
        raise InternalError(f"table '{table.ref.key}' must keep its column '{KEY}'")
    position = rows.schema.get_field_index(KEY)
    schema = rows.schema.set(position, rows.schema.field(KEY).with_nullable(False))
    refuse_nulls(rows, [field.name for field in schema if not field.nullable], table.ref)
    rows = rows.cast(schema)
    if not proven:
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


def stage_upsert(
    storage: Storage,
    table: Table,
    rows: pa.Table,
    operation_id: str,
    *,
    removed: pa.ChunkedArray | None = None,
    proven: bool = False,
) -> StagedWrite:
    """Replace the rows whose key is already there, whole and under their row ids; add the rest.

    Rows whose key is in `removed` go in the same transaction; a key that is not there is
    ignored. With `proven`, the caller knows that no key of `rows` occurs twice or in `removed`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if removed is not None and len(removed) and not rows.num_rows:
        return stage_delete(storage, table, operation_id, ids=removed)
    rows = conform(rows, table.schema, table.ref)
    going = pa.array([], pa.string()) if removed is None else pc.unique(removed)
    keys = pa.chunked_array([*rows.column(KEY).chunks, going], pa.string())
    if not proven:
        refuse_duplicates(keys, table.ref)
    existing = find_keys(table, keys)
    goes = pc.is_in(existing.column(KEY), value_set=going)
    replaced = existing.filter(pc.invert(goes))
    ordered, row_ids = replacing_first(rows, replaced)
    sink = _written(storage, table, ordered, row_ids)
    addresses = existing.filter(goes).column("_rowaddr")
    return sink.stage_upsert(table, replaced.column("_rowaddr"), operation_id, removed=addresses)


def _written(
    storage: Storage, table: Table, rows: pa.Table, row_ids: pa.ChunkedArray | None = None
) -> RowSink:
    sink = RowSink(storage, table)
    sink.write(rows, row_ids)
    return sink


def stage_delete(
    storage: Storage,
    table: Table,
    operation_id: str,
    *,
    where: str | None = None,
    ids: pa.ChunkedArray | None = None,
) -> StagedWrite:
    """Delete the rows that match `where`, or those with the given ids; exactly these, as of now."""
    if (where is None) == (ids is None):
        raise TypeError("stage_delete takes either a predicate or ids")
    if ids is not None:
        addresses = find_keys(table, ids).column("_rowaddr")
        where = in_filter(ids) if len(ids) <= 20 else f"{KEY} IN ({len(ids)} ids)"
    else:
        addresses = table.read([], where, with_row_address=True).column("_rowaddr")
    return stage_delete_at(storage, table, addresses, str(where), operation_id)


def stage_delete_at(
    storage: Storage, table: Table, addresses: pa.ChunkedArray, which: str, operation_id: str
) -> StagedWrite:
    """Delete the rows at these addresses; `which` describes them in the transaction."""
    from lance.dataset import LanceOperation

    marked = mark_deleted(table, addresses)
    operation = LanceOperation.Delete(marked.updated, marked.removed_ids, which)
    files = deletion_files(storage, table.ref, marked.updated)
    return prepare(
        table.ref, StageKind.DELETE, table.version, operation, operation_id, files, deleted=len(addresses)
    )
