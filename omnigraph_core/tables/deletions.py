"""Which rows of a fragment are marked deleted."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from omnigraph_core.errors import StorageError
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.places import place_inside

if TYPE_CHECKING:
    import numpy as np


def deleted_offsets(
    storage: Storage, table: Table, fragment_id: int, live_rows: int, deletion: Any
) -> np.ndarray[Any, Any]:
    """The deleted rows of a fragment by their places in it, ascending.

    `deletion` is its deletion file, or None.
    """
    import numpy as np
    import pyarrow as pa

    if deletion is None:
        return np.empty(0, np.uint32)
    if deletion.file_type != "array":
        return _missing_offsets(table, fragment_id, live_rows + deletion.num_deleted_rows)
    directory = table.ref.directory
    if deletion.base_id is not None:
        recorded = table.lance.base_paths()[deletion.base_id].path
        directory = place_inside(storage, recorded) or recorded
    path = f"{directory}/{deletion.path(fragment_id)}"
    found = storage.control.get(path)
    if found is None:
        raise StorageError(f"table '{table.ref.key}': {path} is missing")
    try:
        marked = pa.ipc.open_file(io.BytesIO(found.data)).read_all()
    except pa.ArrowInvalid as error:
        raise StorageError(f"table '{table.ref.key}': {path} is damaged: {error}") from error
    if marked.num_rows != deletion.num_deleted_rows:
        raise StorageError(f"table '{table.ref.key}': {path} is damaged: it marks {marked.num_rows} rows")
    offsets: np.ndarray[Any, Any] = np.sort(marked.column(0).to_numpy())
    return offsets


def _missing_offsets(table: Table, fragment_id: int, rows: int) -> np.ndarray[Any, Any]:
    """The same by looking which rows are left; for deletion files that only Lance can read."""
    import numpy as np

    left = table.read([], with_row_address=True, fragment_ids=[fragment_id])
    is_deleted = np.ones(rows, np.bool_)
    is_deleted[left.column("_rowaddr").to_numpy() & np.uint64(0xFFFFFFFF)] = False
    return np.flatnonzero(is_deleted).astype(np.uint32)
