"""Rows on disk while they do not fit in memory.

The files have no name, so nothing of them survives the process, however that ends.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from omnigraph_core.spill import disk_failures, nameless_file

if TYPE_CHECKING:
    import pyarrow as pa


_BUFFER = 1 << 16


class SpilledRows:
    """Tables of one schema in the order they were added; can be read again once all are in."""

    def __init__(self, schema: pa.Schema) -> None:
        import pyarrow as pa

        self.rows = 0
        with disk_failures():
            self._file = nameless_file()
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._writer: Any = pa.ipc.new_stream(self._file, schema, options=options)

    def add(self, rows: pa.Table, batch_rows: int | None = None) -> None:
        self.rows += rows.num_rows
        with disk_failures():
            self._writer.write_table(rows, max_chunksize=batch_rows)

    def tables(self) -> Iterator[pa.Table]:
        import pyarrow as pa

        with disk_failures():
            if self._writer is not None:
                self._writer.close()
                self._writer = None
                self._file.flush()
            for batch in pa.ipc.open_stream(io.BufferedReader(_FromStart(self._file), _BUFFER)):
                yield pa.Table.from_batches([batch])


def give_back_memory() -> None:
    """Arrow keeps what is freed; whoever writes to disk is short of memory."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


class _FromStart(io.RawIOBase):
    """A file read at a place of its own, so that several readers can be at different ones."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._place = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = os.preadv(self._file.fileno(), [buffer], self._place)
        self._place += found
        return found
