"""Keeping our own small datasets small: rewrite the tail of one-publish fragments into one.

The cost of reading and merging follows the number of fragments, and every publish adds
one. Only for datasets without indexes: row ids are kept, index coverage and the
row-version columns of the rewritten rows are not.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.fragments import data_files, keep_row_ids, write_rows
from omnigraph_core.tables.limits import FRAGMENTS_MAX
from omnigraph_core.tables.staged import StagedWrite, StageKind, prepare

# A fragment joins the rewrite while it is at most this many times larger than all newer
# ones together: rewritten rows double each time, so each row is rewritten O(log n) times.
_GROWTH = 2


def tail_to_rewrite(fragment_rows: Mapping[int, int], most: int | None = None) -> list[int]:
    """Ids of the newest fragments worth rewriting into one; empty when there are few enough.

    `most` may be fewer than a write leaves.
    """
    most = FRAGMENTS_MAX if most is None else most
    if len(fragment_rows) <= most:
        return []
    tail: list[int] = []
    rows_newer = 0
    for fragment_id, rows in sorted(fragment_rows.items(), reverse=True):
        if len(tail) >= most // 2 and rows > _GROWTH * rows_newer:
            break
        tail.append(fragment_id)
        rows_newer += rows
    return sorted(tail)


def stage_control_rewrite(
    storage: Storage, table: Table, fragment_ids: list[int], operation_id: str
) -> StagedWrite:
    """Stage one version in which `fragment_ids` are one fragment; readers see the same rows."""
    from lance.dataset import LanceOperation

    rows = table.read(with_row_id=True, fragment_ids=fragment_ids)
    new = list(write_rows(table, rows.drop_columns(["_rowid"])).operation.fragments)
    keep_row_ids(new, rows.column("_rowid"))
    old = [table.lance.get_fragment(fragment_id).metadata for fragment_id in fragment_ids]
    operation = LanceOperation.Rewrite([LanceOperation.RewriteGroup(old, new)], [])
    files = data_files(storage, table.ref, new, rows.schema)
    return prepare(table.ref, StageKind.COMPACTION, table.version, operation, operation_id, files)
