"""The fence: a merge-insert that two concurrent writers of one key can never both win.

It holds only under all of these together: the key column is annotated as unenforced
primary key, Lance retries nothing, no index is used for the join, the write is
executed (a staged one loses the key filter), and the precondition was read through
a handle at the very version the merge starts from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
        if is_contention(error):
            raise CommitLost(f"another publish to '{table.ref.key}' came first") from error
        failure = storage_error(table.ref, "publishing to", error)
        if not tables.storage.location.is_local:
            raise CommitUnknown(f"{failure}; it may still land") from error
        raise failure from error
    return handle
