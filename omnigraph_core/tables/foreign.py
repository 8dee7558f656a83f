"""Datasets that the Rust original made, and what has to change before we write to them.

It has Lance clean up by itself: every 20 commits the versions older than 14 days go, whoever reads
them. The setting is in each version, so it also tells which versions are the original's. In those a
null blob is an empty one: the original cannot tell them apart.

A dataset becomes ours by versions that change no answer: the setting removed, and real nulls in the
place of empty blobs. Only then are empty blobs empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from omnigraph_core import faults
from omnigraph_core.storage import Storage
from omnigraph_core.tables.commit import Guard, commit_exact
from omnigraph_core.tables.dataset import ORIGINAL_MARK, Table, Tables, nullable_blobs
from omnigraph_core.tables.durability import sync_manifests, sync_staged
from omnigraph_core.tables.keys import KEY, find_keys, in_filter
from omnigraph_core.tables.replace import replacing_first
from omnigraph_core.tables.sink import RowSink
from omnigraph_core.tables.staged import StagedWrite, StageKind, prepare

if TYPE_CHECKING:
    import pyarrow as pa

# Rows with blobs come in small numbers: one may be as large as memory allows.
_ROWS_AT_ONCE = 64


def make_ours(tables: Tables, table: Table, operation_id: str, guard: Guard) -> Table:
    """Commit what makes HEAD of a dataset ours, synced; the same table if it is."""
    return with_nulls(tables, without_cleanup(tables, table, operation_id, guard), operation_id, guard)


def without_cleanup(tables: Tables, table: Table, operation_id: str, guard: Guard) -> Table:
    """First of all: Lance cleans up in any commit that leaves the setting in place.

    If there are empty blobs, the version is marked as the original's until they are nulls.
    """
    if not table.cleanup_settings:
        return table
    changes: dict[str, str | None] = dict.fromkeys(table.cleanup_settings)
    if len(ids_of_empty_blobs(table)):
        changes[ORIGINAL_MARK] = "true"
    return _configured(tables, table, changes, operation_id, guard)


def with_nulls(tables: Tables, table: Table, operation_id: str, guard: Guard) -> Table:
    """Nulls in the place of empty blobs. Killed in between, it is done again: the mark goes last."""
    if not table.is_foreign:
        return table
    ids = ids_of_empty_blobs(table)
    if len(ids):
        staged = _stage_nulls(tables.storage, table, ids, operation_id)
        sync_staged(tables.storage, [staged])
        table = commit_exact(tables, staged, guard)
        faults.hit("adopt.nulls_written")
    return _configured(tables, table, {ORIGINAL_MARK: None}, operation_id, guard)


def out_of_step(tables: Tables, table: Table, operation_id: str, guard: Guard) -> Table:
    """HEAD on which the next version may bring the setting back: it is none in which Lance cleans up."""
    every = next((value for key, value in table.cleanup_settings.items() if key.endswith("interval")), "20")
    table = _configured(tables, table, dict.fromkeys(table.cleanup_settings), operation_id, guard)
    if every.isdecimal() and int(every) and (table.version + 1) % int(every) == 0:
        table = _configured(tables, table, {ORIGINAL_MARK: None}, operation_id, guard)
    return table


def ids_of_empty_blobs(table: Table) -> pa.ChunkedArray:
    """The rows that have an empty blob where there may be none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = nullable_blobs(table.schema)
    if not names or not table.is_foreign:
        return pa.chunked_array([], pa.string())
    found = table.read([KEY, *names])
    empty = [pc.equal(pc.struct_field(found.column(name), "size"), 0) for name in names]
    is_any = empty[0]
    for each in empty[1:]:
        is_any = pc.or_kleene(is_any, each)
    return found.column(KEY).filter(pc.fill_null(is_any, fill_value=False))


def _stage_nulls(storage: Storage, table: Table, ids: pa.ChunkedArray, operation_id: str) -> StagedWrite:
    """The same rows, under the same row ids, with nulls."""
    import pyarrow as pa

    from omnigraph_core.values.columns import blob_column

    sink, addresses = RowSink(storage, table), []
    for start in range(0, len(ids), _ROWS_AT_ONCE):
        some = ids.slice(start, _ROWS_AT_ONCE)
        rows = table.read(list(table.schema.names), in_filter(some), blobs=True)
        for position, field in enumerate(table.schema):
            if getattr(field.type, "extension_name", None) is not None:
                rows = rows.set_column(
                    position, field.name, blob_column(rows.column(field.name).combine_chunks())
                )
        existing = find_keys(table, some)
        ordered, row_ids = replacing_first(rows, existing)
        sink.write(ordered, row_ids)
        addresses += existing.sort_by("_rowid").column("_rowaddr").chunks
    return sink.stage_upsert(table, pa.chunked_array(addresses, pa.uint64()), operation_id)


def _configured(
    tables: Tables, table: Table, changes: Mapping[str, str | None], operation_id: str, guard: Guard
) -> Table:
    """One version with these settings; None removes one."""
    from lance.dataset import LanceOperation

    operation = LanceOperation.UpdateConfig(config_updates=LanceOperation.UpdateMap(dict(changes)))
    staged = prepare(table.ref, StageKind.METADATA, table.version, operation, operation_id)
    committed = commit_exact(tables, staged, guard)
    sync_manifests(tables, [committed])
    return committed
