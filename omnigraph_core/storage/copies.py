"""Copies of objects that never change, in a directory of this machine, so that they are fetched once.

A copy is as good as none: it may be gone, short or damaged at any time, and whoever asks looks at what
comes back. The least recently used go when all of them together are too large. Nothing here is an error:
where nothing can be written, nothing is kept.
"""

from __future__ import annotations

import hashlib
import mmap
import os
from contextlib import suppress
from pathlib import Path

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.ids import new_ulid
from omnigraph_core.storage.mapped import mapped_file


class LocalCopies:
    """The copies of one graph, beside those of others, whose names may be the same."""

    def __init__(self, directory: Path, bytes_max: int, graph: str) -> None:
        self._directory = directory
        self._bytes_max = bytes_max
        self._folder = hashlib.sha256(graph.encode()).hexdigest()[:32]

    def get(self, name: str, size: int) -> mmap.mmap | None:
        """The copy of an object of this size, if there is one."""
        path = f"{self._folder}/{name}"
        with suppress(OmnigraphError, OSError):
            found = mapped_file(self._directory, path, size)
            if found is not None:
                os.utime(self._directory / path)
            return found
        return None

    def keep(self, name: str, data: bytes) -> None:
        """Have a copy, if there is room for it. It gets its name when it is whole and on disk."""
        if len(data) > self._bytes_max:
            return
        folder = self._directory / self._folder
        unfinished = folder / f"{new_ulid()}.part"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with unfinished.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(folder / name)
            self._make_room()
        except OSError:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)

    def drop(self, name: str) -> None:
        with suppress(OSError):
            (self._directory / self._folder / name).unlink(missing_ok=True)

    def _make_room(self) -> None:
        """Of all graphs: what is mapped lives on until it is let go."""
        found = []
        for path in self._directory.glob("*/*"):
            with suppress(FileNotFoundError):
                state = path.lstat()
                found.append((state.st_mtime_ns, state.st_size, path))
        held = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if held <= self._bytes_max:
                return
            path.unlink(missing_ok=True)
            held -= size
