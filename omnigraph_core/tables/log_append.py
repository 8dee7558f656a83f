"""Appending to our own log-like datasets: commits, actors, recoveries.

Nobody looks up or updates these rows while writing, and every row has a key of its
own, so two appends may land in any order: Lance rebases one onto the other. That makes
this the one place where a commit is not exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_core.tables.control_rewrite import stage_control_rewrite, tail_to_rewrite
from omnigraph_core.tables.create import TableExists, create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import sync_new_table, sync_version
from omnigraph_core.tables.failures import LANCE_RAISES, TableNotFound, storage_error
from omnigraph_core.tables.fragments import write_rows
from omnigraph_core.tables.keys import quote_text
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import operation_properties

if TYPE_CHECKING:
    import pyarrow as pa

_RETRIES = 20


def append_rows(tables: Tables, ref: TableRef, rows: pa.Table, operation_id: str) -> None:
    """Append, synced; creates the dataset when it is the first row ever."""
    try:
        base = tables.open(ref)
    except TableNotFound:
        base = _create(tables, ref, rows.schema, operation_id)
    _append(tables, base, rows, operation_id)


def append_if_absent(tables: Tables, ref: TableRef, key: str, rows: pa.Table, operation_id: str) -> bool:
    """Append one row unless a row with its `key` is there; True if it was appended.

    Exactly once only under a lock that keeps other appenders of the same key away.
    """
    value = rows.column(key)[0].as_py()
    try:
        if tables.open(ref).count_rows(f"{key} = {quote_text(value)}"):
            return False
    except TableNotFound:
        pass
    append_rows(tables, ref, rows, operation_id)
    return True


def compact_log(tables: Tables, ref: TableRef, operation_id: str) -> None:
    """Rewrite the tail of one-row fragments when there are too many; losing a race is fine."""
    table = tables.open(ref)
    tail = tail_to_rewrite(table.fragment_rows())
    if tail:
        staged = stage_control_rewrite(tables.storage, table, tail, operation_id)
        sync_version(tables, _commit(table, staged.transaction), table)


def _create(tables: Tables, ref: TableRef, schema: pa.Schema, operation_id: str) -> Table:
    try:
        created = create_table(tables, ref, schema, operation_id)
    except TableExists:
        return tables.open(ref)
    sync_new_table(tables.storage, ref)
    return created


def _append(tables: Tables, base: Table, rows: pa.Table, operation_id: str) -> None:
    transaction = write_rows(base, rows)
    transaction.transaction_properties = operation_properties(operation_id)
    sync_version(tables, _commit(base, transaction), base)


def _commit(base: Table, transaction: object) -> Table:
    from lance import LanceDataset

    try:
        return Table(base.ref, LanceDataset.commit(base.lance, transaction, max_retries=_RETRIES))
    except LANCE_RAISES as error:
        raise storage_error(base.ref, "appending to", error) from error
