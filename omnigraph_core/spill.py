"""Rows on disk when they do not fit in memory: in unnamed files, which no process leaves behind."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import pyarrow as pa

from omnigraph_core.errors import StorageError

_BUFFER = 1 << 16


class SpilledRows:
    """Tables of one schema in the order they were added; can be read again once all are in."""

    def __init__(self, schema: pa.Schema) -> None:
        self.rows = 0
        self._schema = schema
        self._file = nameless_file()
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with disk_failures():
            self._writer: Any = pa.ipc.new_stream(self._file, schema, options=options)

    def add(self, rows: pa.Table, batch_rows: int | None = None) -> None:
        self.rows += rows.num_rows
        with disk_failures():
            self._writer.write_table(rows, max_chunksize=batch_rows)

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows, or some columns of them, in pieces."""
        names = self._schema.names if columns is None else list(columns)
        wanted = sorted(self._schema.get_field_index(name) for name in names)
        options = pa.ipc.IpcReadOptions(included_fields=wanted)
        with disk_failures():
            if self._writer is not None:
                self._writer.close()
                self._writer = None
                self._file.flush()
            source = io.BufferedReader(_FromStart(self._file), _BUFFER)
            for batch in pa.ipc.open_stream(source, options=options):
                yield pa.Table.from_batches([batch]).select(names)

    def close(self) -> None:
        """Free the space."""
        self._file.close()


def give_back_memory() -> None:
    """Arrow keeps freed memory, and a process that spills to disk is short of it."""
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


def nameless_file() -> IO[bytes]:
    """A file without a name, gone with the process that made it."""
    with disk_failures():
        return tempfile.TemporaryFile(prefix="omnigraph-")


@contextmanager
def disk_failures() -> Iterator[None]:
    """The temporary directory may be full or missing."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot keep rows in {tempfile.gettempdir()}: {error.strerror or error}",
            hint="set TMPDIR to a directory with room for them, or raise OMNIGRAPH_MEMORY_LIMIT",
        ) from error
