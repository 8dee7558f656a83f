"""New columns for a log that an older OmniGraph made: one version that says so, and no data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from omnigraph_core import faults
from omnigraph_core.errors import StorageError
from omnigraph_core.tables.commit import transaction_properties
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.staged import PUBLISHED_PROPERTY, operation_properties

if TYPE_CHECKING:
    import pyarrow as pa


def with_columns(table: Table, schema: pa.Schema, operation_id: str) -> Table:
    """The table, with the last columns of `schema` added if it does not have them; they are null.

    Nothing has to make the version safe: the next append stands on it or adds them again.
    What the version before says was published is passed on (`history/recorded.py`).
    """
    with lance_failures(table.ref, "reading the columns of"):
        lacks = schema.names[len(table.schema.names) :]
    if not lacks:
        return table
    table.check_columns(schema.names)
    if not all(schema.field(name).nullable for name in lacks):
        raise StorageError(f"table '{table.ref.key}' lacks required columns: {', '.join(lacks)}")
    with lance_failures(table.ref, "adding columns to"):
        columns = _widened(table, [schema.field(name) for name in lacks])
        added = _commit_merge(table, columns, operation_id)
    faults.hit("tables.columns_added")
    return added


def _widened(table: Table, fields: list[pa.Field]) -> Any:
    """The columns of the table with their ids, and the new ones with the next; an empty twin numbers them."""
    import pyarrow as pa
    from lance import LanceDataset
    from lance.dataset import LanceOperation

    nothing = LanceOperation.Overwrite(table.lance.lance_schema, [])
    twin = LanceDataset.commit("memory://columns", nothing)
    twin.add_columns(pa.schema(fields))
    return twin.lance_schema


def _commit_merge(table: Table, schema: Any, operation_id: str) -> Table:
    from lance import LanceDataset
    from lance.dataset import LanceOperation, Transaction

    fragments = [each.metadata for each in table.lance.get_fragments()]
    published = transaction_properties(table, table.version).get(PUBLISHED_PROPERTY)
    marks = {} if published is None else {PUBLISHED_PROPERTY: published}
    transaction = Transaction(
        table.version,
        LanceOperation.Merge(fragments, schema),
        transaction_properties=operation_properties(operation_id, **marks),
    )
    return Table(table.ref, LanceDataset.commit(table.lance, transaction, max_retries=0))
