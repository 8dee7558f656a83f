"""Rows on their way into a table: data files written as the rows come, long before any commit.

What is written is known file by file, so that it can be recorded, synced, committed, or
deleted again. Which version the rows will follow is decided when they are staged: new
fragments belong to no version yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.fragments import (
    conform,
    data_files,
    deletion_files,
    keep_row_ids,
    write_rows,
)
from omnigraph_core.tables.preview import detached
from omnigraph_core.tables.replace import mark_deleted, replacing_operation
from omnigraph_core.tables.staged import StagedFile, StagedWrite, StageKind, prepare

if TYPE_CHECKING:
    import pyarrow as pa


def _nobody(files: Sequence[StagedFile]) -> None:
    """Told of files by a writer that keeps no record of them."""


class RowSink:
    """Fragments of one table that no version refers to. `table` says where they are written."""

    def __init__(
        self, storage: Storage, table: Table, on_written: Callable[[Sequence[StagedFile]], None] = _nobody
    ) -> None:
        self._storage = storage
        self._on_written = on_written
        self.table = table
        self.fragments: list[Any] = []
        self.files: list[StagedFile] = []
        self.rows = 0

    def adopt(self, fragments: Sequence[Any], files: Sequence[StagedFile]) -> None:
        """Take fragments that another process wrote for this table."""
        self.fragments += fragments
        self.files += files
        self.rows += sum(fragment.physical_rows for fragment in fragments)

    def write(self, rows: pa.Table, row_ids: pa.ChunkedArray | None = None) -> None:
        """Write rows; the first ones take `row_ids`, those of the rows they will replace."""
        rows = conform(rows, self.table.schema, self.table.ref)
        fragments = list(write_rows(self.table, rows).operation.fragments)
        if row_ids is not None:
            keep_row_ids(fragments, row_ids)
        files = data_files(self._storage, self.table.ref, fragments, rows.schema)
        self.fragments += fragments
        self.files += files
        self.rows += rows.num_rows
        self._on_written(files)

    def read_back(self) -> Iterator[pa.Table]:
        """The rows in the order they were written, a fragment at a time; blobs as bytes."""
        from lance.dataset import LanceOperation

        table = self.table
        operation = LanceOperation.Overwrite(table.lance.lance_schema, self.fragments)
        with detached(self._storage, table, operation, "reading staged rows of") as shown:
            for fragment_id in shown.fragment_rows():
                yield shown.read(blobs=True, fragment_ids=[fragment_id]).replace_schema_metadata(None)

    def discard(self) -> None:
        """Delete what was written; it will never be part of the table."""
        for file in self.files:
            self._storage.control.delete(file.path)
        self.fragments, self.files, self.rows = [], [], 0

    def stage_append(self, read_version: int, operation_id: str) -> StagedWrite:
        from lance.dataset import LanceOperation

        operation = LanceOperation.Append(self.fragments)
        return prepare(
            self.table.ref,
            StageKind.APPEND,
            read_version,
            operation,
            operation_id,
            self.files,
            inserted=self.rows,
        )

    def stage_overwrite(self, table: Table, operation_id: str) -> StagedWrite:
        """All rows of `table` give way; its columns stay as they are."""
        from lance.dataset import LanceOperation

        operation = LanceOperation.Overwrite(table.lance.lance_schema, self.fragments)
        return prepare(
            table.ref,
            StageKind.OVERWRITE,
            table.version,
            operation,
            operation_id,
            self.files,
            inserted=self.rows,
            deleted=table.count_rows(),
        )

    def stage_upsert(
        self,
        table: Table,
        replaced: pa.ChunkedArray,
        operation_id: str,
        removed: pa.ChunkedArray | None = None,
    ) -> StagedWrite:
        """The rows of `table` at the addresses `replaced` give way; their row ids were kept.

        Those at the addresses `removed` go without a successor.
        """
        import pyarrow as pa

        going = [] if removed is None else removed.chunks
        marked = mark_deleted(table, pa.chunked_array([*replaced.chunks, *going], pa.uint64()))
        files = [*self.files, *deletion_files(self._storage, table.ref, marked.updated)]
        return prepare(
            table.ref,
            StageKind.UPSERT,
            table.version,
            replacing_operation(table, marked, self.fragments),
            operation_id,
            files,
            inserted=self.rows - len(replaced),
            updated=len(replaced),
            deleted=sum(map(len, going)),
        )
