"""Creating a dataset: stable row ids and a pinned file format, once and for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_core.errors import ConflictError
from omnigraph_core.tables.dataset import FILE_FORMAT, Table, Tables
from omnigraph_core.tables.failures import LANCE_RAISES, is_missing, storage_error
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import operation_properties

if TYPE_CHECKING:
    import pyarrow as pa


class TableExists(ConflictError):
    """A dataset is already there."""


def create_table(
    tables: Tables,
    ref: TableRef,
    schema: pa.Schema,
    operation_id: str,
    rows: pa.Table | None = None,
) -> Table:
    """Make version 1 of a new dataset, empty or with `rows`.

    A new dataset is nobody's until a publish registers it, so there is nothing to
    stage: a crash leaves an orphan that the next creator may remove.
    """
    import lance
    from lance.fragment import write_fragments

    tables.refuse_foreign(ref.directory)
    if tables.exists(ref):
        raise TableExists(f"table '{ref.key}' already exists at {tables.uri(ref)}")
    uri, options = tables.uri(ref), tables.storage.lance_options
    data = schema.empty_table() if rows is None else rows
    try:
        transaction = write_fragments(
            data,
            uri,
            schema=schema,
            mode="create",
            return_transaction=True,
            data_storage_version=FILE_FORMAT,
            storage_options=options,
        )
        transaction.transaction_properties = operation_properties(operation_id)
        dataset = lance.LanceDataset.commit(
            uri, transaction, max_retries=0, enable_stable_row_ids=True, storage_options=options
        )
    except LANCE_RAISES as error:
        # Losing a race of two creators shows as a missing version 0.
        if is_missing(error) and tables.exists(ref):
            raise TableExists(f"table '{ref.key}' was created by another process") from error
        raise storage_error(ref, "creating", error) from error
    return Table(ref, dataset)
