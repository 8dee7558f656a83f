"""Reading the bytes of one blob without reading them all at once."""

from __future__ import annotations

from typing import Any

from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures


class BlobFile:
    """A blob opened for reading."""

    def __init__(self, table: Table, lance_file: Any) -> None:
        self._table = table
        self._file = lance_file

    @property
    def size(self) -> int:
        return int(self._file.size())

    def seek(self, offset: int) -> None:
        """Go on reading at this byte."""
        with lance_failures(self._table.ref, "reading a blob of"):
            self._file.seek(offset)

    def read(self, length: int) -> bytes:
        """The next bytes, at most `length`; none at the end."""
        with lance_failures(self._table.ref, "reading a blob of"):
            return bytes(self._file.read(length))


def open_blob(table: Table, column: str, row_id: int) -> BlobFile:
    """The value of a blob column in one row, which has one."""
    with lance_failures(table.ref, "opening a blob of"):
        (found,) = table.lance.take_blobs(column, ids=[row_id])
        return BlobFile(table, found)
