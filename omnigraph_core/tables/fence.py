"""The fence: of several writers who saw the same version of a dataset, exactly one gets through.

`replace_fenced` replaces rows by address (`tables/replacement.py`). Every writer replaces one and the
same row, and so marks it deleted in the same fragment; Lance refuses the second of two transactions
that mark rows of one fragment, whatever lies between them, a compaction included. But it looks through
the versions since, and stops at the first one that is missing. If cleanup removed that while a writer
slept, both would replace the row; so HEAD is looked at right before.

`merge_fenced` is for a dataset that has no such row yet. It is a merge-insert and holds only under
all of these together: the key column is annotated as unenforced primary key, Lance retries
nothing, no index is used for the join, and the write is executed (a staged one loses the key
filter). It takes three times as long, and the key filter is 33 KB in each version and as much in
its transaction.

Both hold only if the precondition was read through a handle at the very version they start from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph_core.errors import StorageError
from omnigraph_core.records import dataclass
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import (
    LANCE_RAISES,
    CommitLost,
    CommitUnknown,
    is_contention,
    lance_failures,
    storage_error,
)

if TYPE_CHECKING:
    import pyarrow as pa

PRIMARY_KEY_METADATA = b"lance-schema:unenforced-primary-key"


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where a row of one version is: fragment id << 32 | offset, and the id it keeps when it is replaced."""

    address: int
    row_id: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """Rows in a file of their own, and others marked as deleted; no version refers to either yet."""

    table: Table
    transaction: Any
    files: tuple[str, ...]
    """Relative to the graph root."""


def replace_fenced(tables: Tables, staged: Replacement) -> Table:
    """Make the replacement true; CommitLost if HEAD has moved, or a fragment that has a row of it.

    For other failures, see `merge_fenced`.
    """
    from lance.dataset import LanceDataset

    table = staged.table
    if not tables.is_head(table):
        raise CommitLost(f"another publish to '{table.ref.key}' came first")
    try:
        return Table(table.ref, LanceDataset.commit(table.lance, staged.transaction, max_retries=0))
    except LANCE_RAISES as error:
        raise _failure(tables, table, error) from error


def merge_fenced(tables: Tables, table: Table, key: str, rows: pa.Table) -> Table:
    """Upsert `rows` by `key` on top of exactly this version; CommitLost if anybody touched a key.

    Other failures are storage errors whose outcome the caller must find out by reading. On
    object storage they are CommitUnknown: what has not landed when it reads may land later.
    """
    # `execute` moves the handle it runs on; a Table never changes, so it gets its own.
    with lance_failures(table.ref, "opening"):
        handle = Table(table.ref, table.lance.checkout_version(table.version))
    try:
        (
            handle.lance.merge_insert(key)
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .conflict_retries(0)
            .use_index(False)
            .execute(rows)
        )
    except LANCE_RAISES as error:
        raise _failure(tables, table, error) from error
    return handle


def _failure(tables: Tables, table: Table, error: Any) -> StorageError | CommitLost:
    if is_contention(error):
        return CommitLost(f"another publish to '{table.ref.key}' came first")
    failure = storage_error(table.ref, "publishing to", error)
    if not tables.storage.location.is_local:
        return CommitUnknown(f"{failure}; it may still land")
    return failure
