"""Appending to our own log-like datasets: commits, actors, recoveries.

Nobody looks up or updates these rows while writing, and every row has a key of its
own, so two appends may land in any order: Lance rebases one onto the other. That makes
this the one place where a commit is not exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_core.errors import StorageError
from omnigraph_core.tables.commit import unguarded
from omnigraph_core.tables.control_rewrite import stage_control_rewrite, tail_to_rewrite
from omnigraph_core.tables.create import TableExists, create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import Barrier, sync_new_table
from omnigraph_core.tables.failures import LANCE_RAISES, TableNotFound, storage_error
from omnigraph_core.tables.fragments import write_rows
from omnigraph_core.tables.keys import quote_text
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import operation_properties
from omnigraph_core.tables.torn import is_torn, open_newest_whole, set_aside_torn, versions_on_disk

if TYPE_CHECKING:
    import pyarrow as pa

_RETRIES = 20


def append_rows(tables: Tables, ref: TableRef, rows: pa.Table, operation_id: str, barrier: Barrier) -> None:
    """Append; creates the dataset when it is the first row ever. Safe once `barrier` is synced."""
    try:
        base = _open_whole(tables, ref)
    except TableNotFound:
        base = _create(tables, ref, rows.schema, operation_id)
    transaction = write_rows(base, rows)
    transaction.transaction_properties = operation_properties(operation_id)
    barrier.add_version(_commit(base, transaction), base)


def append_if_absent(
    tables: Tables, ref: TableRef, key: str, rows: pa.Table, operation_id: str, barrier: Barrier
) -> bool:
    """Append one row unless a row with its `key` is there; True if it was appended.

    Exactly once only under a lock that keeps other appenders of the same key away.
    """
    value = rows.column(key)[0].as_py()
    try:
        present = _open_whole(tables, ref)
        if present.count_rows(f"{key} = {quote_text(value)}"):
            # Whoever wrote it may have died before syncing it.
            barrier.add_version(present, None)
            return False
    except TableNotFound:
        pass
    append_rows(tables, ref, rows, operation_id, barrier)
    return True


def read_log_rows(tables: Tables, ref: TableRef) -> pa.Table:
    """All rows; those of the version before, when a power cut tore the newest. Writes nothing."""
    try:
        return tables.open(ref).read()
    except StorageError:
        if not tables.storage.location.is_local:
            raise
        return open_newest_whole(tables, ref).read()


def compact_log(tables: Tables, ref: TableRef, operation_id: str, barrier: Barrier) -> None:
    """Rewrite the tail of one-row fragments when there are too many; losing a race is fine."""
    table = tables.open(ref)
    tail = tail_to_rewrite(table.fragment_rows())
    if tail:
        staged = stage_control_rewrite(tables.storage, table, tail, operation_id)
        barrier.add_version(_commit(table, staged.transaction), table)


def _open_whole(tables: Tables, ref: TableRef) -> Table:
    """HEAD for appending to; one that a power cut tore is set aside first.

    Needs no lock: a live appender's version is whole before it has a name, so a torn one
    is a dead one's. What it held is written again by the recovery of that writer. Asked
    once in the life of a process, which no power cut happens in.
    """
    if tables.storage.location.is_local and ref not in tables.proven_whole:
        versions = versions_on_disk(tables, ref)
        if versions and is_torn(tables, ref, versions[0]):
            set_aside_torn(tables, ref, open_newest_whole(tables, ref).version, unguarded)
        tables.proven_whole.add(ref)
    return tables.open(ref)


def _create(tables: Tables, ref: TableRef, schema: pa.Schema, operation_id: str) -> Table:
    try:
        created = create_table(tables, ref, schema, operation_id)
    except TableExists:
        return tables.open(ref)
    sync_new_table(tables.storage, ref)
    return created


def _commit(base: Table, transaction: object) -> Table:
    from lance import LanceDataset

    try:
        return Table(base.ref, LanceDataset.commit(base.lance, transaction, max_retries=_RETRIES))
    except LANCE_RAISES as error:
        raise storage_error(base.ref, "appending to", error) from error
