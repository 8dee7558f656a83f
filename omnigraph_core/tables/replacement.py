"""Staging what `replace_fenced` commits: rows in the place of others of a small dataset of ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph_core.errors import InternalError
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.fence import Replacement, RowPlace
from omnigraph_core.tables.fragments import data_path, keep_row_ids, write_rows
from omnigraph_core.tables.keys import in_filter
from omnigraph_core.tables.replace import Marked, mark_deleted, replacing_operation
from omnigraph_core.tables.staged import operation_properties

if TYPE_CHECKING:
    import pyarrow as pa


def stage_replacement(
    table: Table, rows: pa.Table, places: Sequence[RowPlace], operation_id: str
) -> Replacement:
    """Replace the rows at `places` of exactly this version by the first ones of `rows`; add the others."""
    from lance.dataset import Transaction

    fragments = list(write_rows(table, rows).operation.fragments)
    marked = _marked(table, places)
    keep_row_ids(fragments, _array([place.row_id for place in places]))
    operation = replacing_operation(table, marked, fragments)
    transaction = Transaction(
        table.version, operation, transaction_properties=operation_properties(operation_id)
    )
    written = (data_path(table.ref, file) for fragment in fragments for file in fragment.files)
    deletions = (f"{table.ref.directory}/{each.deletion_file.path(each.id)}" for each in marked.updated)
    return Replacement(table, transaction, (*written, *deletions))


def find_places(table: Table, key: str, values: pa.ChunkedArray) -> dict[str, RowPlace]:
    """Where the rows with these keys are; those that are nowhere are left out."""
    found = table.read([key], in_filter(values, key), with_row_id=True, with_row_address=True)
    return {row[key]: RowPlace(row["_rowaddr"], row["_rowid"]) for row in found.to_pylist()}


def _marked(table: Table, places: Sequence[RowPlace]) -> Marked:
    """The rows at these places as deleted: all of them, and none that is deleted already."""
    marked = mark_deleted(table, _array([place.address for place in places]))
    touched = {place.address >> 32 for place in places}
    before = sum(table.lance.get_fragment(each).metadata.num_rows for each in touched)
    after = sum(each.num_rows for each in marked.updated)
    if before - after != len(places):
        raise InternalError(f"'{table.ref.key}': rows to be replaced are not where they were read")
    return marked


def _array(values: list[int]) -> pa.ChunkedArray:
    import pyarrow as pa

    return pa.chunked_array([pa.array(values, pa.uint64())])
