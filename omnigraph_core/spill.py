"""Rows on disk while they do not fit in memory: in files without a name, which no process leaves behind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from omnigraph_core.errors import StorageError


def nameless_file() -> IO[bytes]:
    """A file that nobody else can see, gone with the process that made it."""
    with disk_failures():
        return tempfile.TemporaryFile(prefix="omnigraph-")


@contextmanager
def disk_failures() -> Iterator[None]:
    """The temporary directory may be full, or not be there."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"rows cannot be kept in {tempfile.gettempdir()}: {error.strerror or error}",
            hint="set TMPDIR to a directory with room for them, or raise OMNIGRAPH_MEMORY_LIMIT",
        ) from error
