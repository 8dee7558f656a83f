"""What a staged write would make of a table, seen before it is committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.staged import StagedWrite


@contextmanager
def previewed(storage: Storage, table: Table, staged: StagedWrite) -> Iterator[Table]:
    """The table as `staged` would make it, for as long as the block runs; HEAD does not move.

    A detached commit does that. Fragment ids are handed out from the base's highest, so
    the real commit, which `commit_exact` puts on the same content, gives the same ones.
    """
    doing = f"previewing changes ({staged.kind.value}) of"
    with detached(storage, table, staged.transaction.operation, doing) as preview:
        yield preview


@contextmanager
def detached(storage: Storage, table: Table, operation: Any, doing: str) -> Iterator[Table]:
    """A version beside the line of versions, with the operation applied; it goes after the block.

    So does the record of its transaction, which has all row ids in it: Lance takes it for a write
    that may still come, and spares it for a week.
    """
    from lance import LanceDataset
    from lance.dataset import Transaction

    transaction = Transaction(table.version, operation)
    with lance_failures(table.ref, doing):
        preview = LanceDataset.commit(table.lance, transaction, max_retries=1, detached=True)
    try:
        yield Table(table.ref, preview)
    finally:
        place = table.ref.directory
        storage.control.delete(f"{place}/_versions/d{preview.version}.manifest")
        storage.control.delete(f"{place}/_transactions/{table.version}-{transaction.uuid}.txn")
