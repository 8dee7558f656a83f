"""What a staged write would make of a table, seen before it is committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
    from lance import LanceDataset
    from lance.dataset import Transaction

    transaction = Transaction(table.version, staged.transaction.operation)
    with lance_failures(table.ref, f"previewing a {staged.kind.value} of"):
        preview = LanceDataset.commit(table.lance, transaction, max_retries=1, detached=True)
    try:
        yield Table(table.ref, preview)
    finally:
        storage.control.delete(f"{table.ref.directory}/_versions/d{preview.version}.manifest")
