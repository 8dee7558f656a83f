"""How a load shares out the memory it may use: OMNIGRAPH_MEMORY_LIMIT.

What is not given out here is for blocks in flight, and for what Arrow and Lance need
while they work.
"""

from __future__ import annotations

from contextlib import suppress

from omnigraph_core.load.formats.limits import BLOCK_BYTES, LINE_BYTES_MAX, PARQUET_BATCH_BYTES
from omnigraph_core.rules.parts import Part, parts
from omnigraph_core.spill import give_back_memory

# Parts of the limit: for rows that wait; for keys that a rule looks at as a whole; for those
# of one part; for the different ends of edges; for the rows of one fragment, which are held
# several times over while they are written; for one line of an input, and one block of lines.
_ROWS_SHARE = 8
_KEYS_SHARE = 8
_PART_SHARE = 24
_DISTINCT_SHARE = 32

_FRAGMENT_SHARE = 8
_LINE_SHARE = 8
_BLOCK_SHARE = 64
_BATCH_SHARE = 32

_BLOCK_BYTES_MIN = 2**18
_LINE_BYTES_MIN = 2**20
_FRAGMENT_BYTES_MIN = 2**22
_PART_BYTES_MIN = 2**20
_PARTS_MAX = 256
# What writing one table takes.
_TABLE_BYTES = 2**28


class MemoryBudget:
    """The memory of one load."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.rows_left = limit_bytes // _ROWS_SHARE
        """How many bytes of rows may still wait in memory; the spools of all types draw on it."""
        self.is_short = False
        """Have rows gone to disk?"""

    def parts(self, key_bytes: int) -> tuple[Part, ...]:
        """How many parts to check rows in, given the total size of their keys."""
        if key_bytes <= self.limit_bytes // _KEYS_SHARE:
            return parts(1)
        part_bytes = max(self.limit_bytes // _PART_SHARE, _PART_BYTES_MIN)
        return parts(min(-(-key_bytes // part_bytes), _PARTS_MAX))

    @property
    def distinct_bytes(self) -> int:
        """How much memory the distinct texts of a column may take."""
        return self.limit_bytes // _DISTINCT_SHARE

    @property
    def fragment_bytes(self) -> int:
        """How many bytes of rows become one fragment, if they are not too many rows before that."""
        return max(self.limit_bytes // _FRAGMENT_SHARE, _FRAGMENT_BYTES_MIN)

    @property
    def block_bytes(self) -> int:
        """How much of an input is read at a time."""
        return min(max(self.limit_bytes // _BLOCK_SHARE, _BLOCK_BYTES_MIN), BLOCK_BYTES)

    @property
    def batch_bytes(self) -> int:
        """How many bytes the rows have that are read from a Parquet file at a time."""
        return min(max(self.limit_bytes // _BATCH_SHARE, _BLOCK_BYTES_MIN), PARQUET_BATCH_BYTES)

    @property
    def line_bytes_max(self) -> int:
        """How long a line may be: it is held several times over while it is read."""
        return min(max(self.limit_bytes // _LINE_SHARE, _LINE_BYTES_MIN), LINE_BYTES_MAX)

    def tables_at_once(self, asked: int) -> int:
        """How many tables are written in parallel: each buffers one fragment of rows."""
        return max(1, min(asked, self.limit_bytes // _TABLE_BYTES))

    @property
    def index_bytes(self) -> int:
        """How much memory building one index may take: all of it, since everything else is done."""
        return self.limit_bytes

    def give_back(self) -> None:
        """Return unused memory to the system; the allocators would keep it."""
        give_back_memory()
        if self.is_short:
            _trim()


def _trim() -> None:
    """Lance allocates with the C library, and of those only glibc has to be asked."""
    import ctypes

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
