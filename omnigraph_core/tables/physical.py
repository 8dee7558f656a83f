"""A table as it is on disk: its data files one after the other, and which of their rows are deleted.

Names of data and deletion files are unique within a dataset with all its forks, and neither is ever
written again. So rows are known by data file and offset on every branch and in every version, where row
ids are not: two branches hand out the same ones to different rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_core.errors import StorageError
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.deletions import deleted_offsets
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.fragments import file_name

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Stretch:
    """One fragment: the files that hold the columns in question, and its rows, deleted ones included."""

    fragment_id: int
    file: str
    rows: int
    deletion: str | None
    """The name of the file that lists deleted rows."""

    @property
    def known_by(self) -> tuple[str, int]:
        return self.file, self.rows


def stretches(table: Table, columns: Sequence[str]) -> tuple[Stretch, ...]:
    """The fragments of a version, in the order of a scan; read from its manifest alone, and once."""
    key = tuple(columns)
    if key not in table.known_stretches:
        table.known_stretches[key] = _stretches(table, columns)
    return table.known_stretches[key]


def _stretches(table: Table, columns: Sequence[str]) -> tuple[Stretch, ...]:
    with lance_failures(table.ref, "listing the files of"):
        fragments = [fragment.metadata for fragment in table.lance.get_fragments()]
        ids = {field.id() for field in table.lance.lance_schema.fields() if field.name() in columns}
    return tuple(_stretch(fragment, ids) for fragment in fragments)


def _stretch(fragment: Any, fields: set[int]) -> Stretch:
    names = sorted(file_name(file) for file in fragment.files if fields & set(file.fields))
    if fragment.overlays:  # Values that lie over those of the files.
        names.append(str(fragment.overlays))
    deletion = fragment.deletion_file
    return Stretch(
        fragment.id,
        "+".join(names),
        fragment.physical_rows,
        None if deletion is None else deletion.path(fragment.id).rpartition("/")[2],
    )


def deleted_rows(table: Table, storage: Storage, stretch: Stretch) -> npt.NDArray[np.int64]:
    """The offsets of the deleted rows of a fragment, ascending."""
    import numpy as np

    metadata = table.lance.get_fragment(stretch.fragment_id).metadata
    found = deleted_offsets(storage, table, metadata.id, metadata.num_rows, metadata.deletion_file)
    return found.astype(np.int64)


def take_rows(table: Table, columns: Sequence[str], row_ids: Sequence[int]) -> pa.Table:
    """The rows with these row ids, in this order. Of a row that is not there, nothing comes."""
    with lance_failures(table.ref, "reading"):
        found = table.lance._take_rows(list(row_ids), columns=list(columns))
    if found.column_names != list(columns):
        raise StorageError(f"table '{table.ref.key}': reading rows gave columns {found.column_names}")
    return found
