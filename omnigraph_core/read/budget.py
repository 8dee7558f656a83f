"""How long a read may take, and how much it may hold in memory at once."""

from __future__ import annotations

import time
from collections.abc import Mapping

from omnigraph_core.errors import LimitError


class QueryTimeout(LimitError):
    """The read took longer than it was given."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the query took longer than {seconds:g} s", hint="narrow it, or raise the timeout")
        self.seconds = seconds

    def details(self) -> Mapping[str, object]:
        return {"timeout": self.seconds}


class TooManyRows(LimitError):
    """An intermediate result would not fit into the memory a read may use."""

    def __init__(self, rows: int, needed: int, limit: int) -> None:
        super().__init__(
            f"the match has {rows:,} rows at once, needing {needed >> 20:,} MiB, allowed are {limit >> 20:,}",
            hint="narrow the match, or raise OMNIGRAPH_MEMORY_LIMIT",
        )
        self.rows, self.needed, self.limit = rows, needed, limit

    def details(self) -> Mapping[str, object]:
        return {"rows": self.rows, "bytes": self.needed, "limit": self.limit}


class Budget:
    """Asked before every step that takes long or much; raises when it is used up."""

    __slots__ = ("_deadline", "_held", "_timeout", "memory_bytes")

    def __init__(self, timeout_s: float | None, memory_bytes: int) -> None:
        self._timeout = timeout_s
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self.memory_bytes = memory_bytes
        self._held = 0

    def check_time(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            assert self._timeout is not None
            raise QueryTimeout(self._timeout)

    def check_rows(self, rows: int, columns: int) -> None:
        """May a result of this size be made? Every column of it is 8 bytes a row, twice for a moment."""
        self.check_bytes(rows, rows * max(columns, 1) * 16)

    def check_bytes(self, rows: int, needed: int) -> None:
        """May so many bytes be held for so many rows?"""
        self.check_time()
        if needed > self.memory_bytes:
            raise TooManyRows(rows, needed, self.memory_bytes)

    def hold(self, rows: int, size: int) -> None:
        """May so many bytes be held until the read ends, with all that are held already?"""
        self._held += size
        self.check_bytes(rows, self._held)

    def release(self, size: int) -> None:
        self._held -= size
