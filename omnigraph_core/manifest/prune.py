"""Rows of `__manifest` that nobody asks for any more: versions of tables that were superseded.

Every publish adds a row for each table it moves, and every snapshot is reduced from all rows. A
snapshot of the past is read from the manifest version it was published in, which has its own
rows. So what the newest version needs of the past is little: a row tells which commit made a
version of a table. For each version that is kept, its row stays and the one before it: a row of
data that changed between the two changed in that commit, and one that changed earlier, earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from omnigraph_core.manifest.rows import TYPE_VERSION, VersionMetadata
from omnigraph_core.manifest.snapshot import ManifestState
from omnigraph_core.tables.dataset import Table

if TYPE_CHECKING:
    import pyarrow as pa

IsKept = Callable[[str, str | None, int], bool]
"""Does this version of the table at a path stay, on this lineage?"""

_COLUMNS = ["table_key", "table_version", "table_branch", "metadata"]


def superseded_rows(table: Table, state: ManifestState, is_kept: IsKept) -> pa.ChunkedArray:
    """Addresses of the rows that can go, as of exactly this version, of which `state` is the reduction.

    Rows of a table that had the key before, and whatever else is not known to be of a live
    table, stay: they are few, and do not become more.
    """
    import pyarrow as pa

    found = table.read(_COLUMNS, f"object_type = '{TYPE_VERSION}'", with_row_address=True)
    by_key: dict[str, list[dict[str, Any]]] = {}
    for row in found.to_pylist():
        by_key.setdefault(row["table_key"], []).append(row)
    addresses = [
        row["_rowaddr"]
        for key, rows in by_key.items()
        if state.is_live(key)
        for row in _going(rows, key, state, is_kept)
    ]
    return pa.chunked_array([pa.array(sorted(addresses), pa.uint64())])


def _going(
    rows: list[dict[str, Any]], key: str, state: ManifestState, is_kept: IsKept
) -> list[dict[str, Any]]:
    path, generation = state.locations[key], state.generation(key)
    mine = [row for row in rows if _generation(row) == generation]
    mine.sort(key=lambda row: row["table_version"])
    newest = state.current_version(key)
    stays = [
        row["table_version"] >= newest or is_kept(path, row["table_branch"], row["table_version"])
        for row in mine
    ]
    before_one = [*stays[1:], False]
    return [row for row, *reasons in zip(mine, stays, before_one, strict=True) if not any(reasons)]


def _generation(row: dict[str, Any]) -> int:
    return VersionMetadata.from_json(row["metadata"]).generation
