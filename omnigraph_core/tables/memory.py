"""Filtering rows that are not in any table yet, by the evaluator that filters tables.

A predicate must mean the same for a pending row as for a committed one, down to NaN
and null; so pending rows become a dataset in memory and Lance is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.fragments import has_blobs
from omnigraph_core.tables.refs import TableRef

if TYPE_CHECKING:
    import pyarrow as pa


def empty_table(ref: TableRef, schema: pa.Schema) -> Table:
    """A table that nobody has made yet, for those who ask what is in it."""
    import lance

    with lance_failures(ref, "imagining"):
        return Table(ref, lance.write_dataset(schema.empty_table(), "memory://", data_storage_version="2.2"))


def matching_rows(rows: pa.Table, where: str, ref: TableRef) -> pa.Array:
    """The indexes of the rows for which the predicate is true."""
    import lance
    import pyarrow as pa

    if not rows.num_rows:
        return pa.array([], pa.uint64())
    # No predicate can be about a blob.
    plain = [field.name for field in rows.schema if not has_blobs(pa.schema([field]))]
    with lance_failures(ref, "filtering pending rows of"):
        pending = lance.write_dataset(
            rows.select(plain), "memory://", data_storage_version="2.2", max_rows_per_file=rows.num_rows
        )
        found = pending.scanner(columns=[], filter=where, with_row_address=True).to_table()
    # All rows are in fragment 0, so a row's address is its index.
    return found.column("_rowaddr").combine_chunks()
