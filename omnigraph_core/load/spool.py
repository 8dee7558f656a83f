"""Rows that wait until everything is read and checked: in memory while they are few, else on disk.

The file has no name, so nothing of it survives the process, however that ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.spill import disk_failures, nameless_file

if TYPE_CHECKING:
    import pyarrow as pa


class Spool:
    """Rows of one type in the order they came; written out once the budget is used up."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._waiting: list[pa.Table] = []
        self._file: IO[bytes] | None = None
        self._writer: Any = None
        self._schema: Any = None
        self.rows = 0

    def add(self, rows: pa.Table) -> None:
        self.rows += rows.num_rows
        if self._file is None and rows.nbytes <= self._budget.rows_left:
            self._budget.rows_left -= rows.nbytes
            self._waiting.append(rows)
            return
        with disk_failures():
            if self._file is None:
                self._begin_file(rows.schema)
            self._writer.write_table(rows)

    def batches(self, batch_rows: int, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """All rows (or columns of them), `batch_rows` at a time, fewer at the end; may be asked for again."""
        import pyarrow as pa

        held: list[pa.Table] = []
        count = 0
        for piece in self._pieces(columns):
            while count + piece.num_rows >= batch_rows:
                taken = batch_rows - count
                held.append(piece.slice(0, taken))
                piece = piece.slice(taken)
                yield pa.concat_tables(held)
                held, count = [], 0
            if piece.num_rows:
                held.append(piece)
                count += piece.num_rows
        if held:
            yield pa.concat_tables(held)

    def _pieces(self, columns: list[str] | None) -> Iterator[pa.Table]:
        import pyarrow as pa

        if self._file is None:
            yield from self._waiting if columns is None else (rows.select(columns) for rows in self._waiting)
            return
        if self._writer is not None:
            with disk_failures():
                self._writer.close()
            self._writer = None
        with disk_failures():
            self._file.seek(0)
            wanted = (
                None if columns is None else sorted(self._schema.get_field_index(name) for name in columns)
            )
            options = pa.ipc.IpcReadOptions(included_fields=wanted)
            for batch in pa.ipc.open_stream(self._file, options=options):
                rows = pa.Table.from_batches([batch])
                yield rows if columns is None else rows.select(columns)

    def _begin_file(self, schema: pa.Schema) -> None:
        """What was waiting in memory goes first."""
        import pyarrow as pa

        self._file = nameless_file()
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        self._schema = schema
        self._budget.is_short = True
        self._writer = pa.ipc.new_stream(self._file, schema, options=options)
        for rows in self._waiting:
            self._writer.write_table(rows)
            self._budget.rows_left += rows.nbytes
        self._waiting = []

    def close(self) -> None:
        """Give the space back."""
        self._waiting = []
        if self._file is not None:
            self._file.close()
