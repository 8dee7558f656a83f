"""How long a read may take, and how much it may hold in memory at once."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from omnigraph_core.errors import LimitError

if TYPE_CHECKING:
    from omnigraph_core.topology.arrays import IntArray


# Texts of one Arrow array, and lists, are told apart by offsets of 31 bits.
ARRAY_BYTES_MAX = (1 << 31) - 1


# Values of rows are made for so many rows at a time as take this part of the memory.
_PIECES = 32
_PIECE_BYTES_MIN = 1 << 16
_PIECE_BYTES_MAX = 16 << 20


def piece_bytes(memory_bytes: int) -> int:
    """How much values of rows may take that are made at a time."""
    return min(_PIECE_BYTES_MAX, max(_PIECE_BYTES_MIN, memory_bytes // _PIECES))


class QueryTimeout(LimitError):
    """The read took longer than its time limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the query took longer than {seconds:g} s", hint="narrow it, or raise the timeout")
        self.seconds = seconds

    def details(self) -> Mapping[str, object]:
        return {"timeout": self.seconds}


class TooManyRows(LimitError):
    """An intermediate result would not fit into the memory a read may use."""

    def __init__(self, rows: int, needed: int, limit: int) -> None:
        super().__init__(
            f"the match needs {needed >> 20:,} MiB for {rows:,} rows; the limit is {limit >> 20:,} MiB",
            hint="narrow the match, or raise OMNIGRAPH_MEMORY_LIMIT",
        )
        self.rows, self.needed, self.limit = rows, needed, limit

    def details(self) -> Mapping[str, object]:
        return {"rows": self.rows, "bytes": self.needed, "limit": self.limit}


class Budget:
    """Checked before every expensive step; raises when it is used up."""

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

    def left_s(self) -> float | None:
        """How many seconds are left; None for any number."""
        return None if self._deadline is None else self._deadline - time.monotonic()

    def check_rows(self, rows: int, columns: int) -> None:
        """Raise if a result of this size does not fit: 8 bytes per row and column, briefly twice."""
        self.check_bytes(rows, rows * max(columns, 1) * 16)

    def check_bytes(self, rows: int, needed: int) -> None:
        """Raise if this many bytes for this many rows do not fit."""
        self.check_time()
        if needed > self.memory_bytes:
            raise TooManyRows(rows, needed, self.memory_bytes)

    def check_array(self, rows: int, needed: int) -> None:
        """The same for values that are to be one array."""
        self.check_bytes(rows, needed)
        if needed > ARRAY_BYTES_MAX:
            raise TooManyRows(rows, needed, ARRAY_BYTES_MAX)

    def check_values(self, rows: int, sizes: IntArray | int) -> None:
        """The same by the size of each, or of every value."""
        self.check_array(rows, sizes * rows if isinstance(sizes, int) else int(sizes.sum()))

    def hold(self, rows: int, size: int) -> None:
        """Reserve bytes until the read ends; raises if they do not fit beside those already reserved."""
        self._held += size
        self.check_bytes(rows, self._held)

    def part(self, share: int) -> Budget:
        """For a part of the read: nothing held yet, a share of the memory, and the same time limit."""
        part = Budget(None, max(1, self.memory_bytes // share))
        part._timeout, part._deadline = self._timeout, self._deadline
        return part

    def leave_s(self, seconds: float) -> None:
        """From now on so many seconds are left."""
        self._deadline = time.monotonic() + seconds

    def begin_again(self) -> None:
        """Nothing is held any more; the time that has passed has."""
        self._held = 0

    def release(self, size: int) -> None:
        self._held -= size
