"""The rows of a match in progress: one column of codes per variable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from omnigraph_core.records import dataclass

if TYPE_CHECKING:
    from omnigraph_core.topology.arrays import BoolArray, IntArray


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in no particular order. Without variables there can still be a row: the match begins with one."""

    count: int
    codes: Mapping[str, IntArray]

    def taken(self, positions: IntArray, more: Mapping[str, IntArray] | None = None) -> Rows:
        """The rows at these positions, which may repeat, with further variables beside them."""
        codes = {name: column[positions] for name, column in self.codes.items()}
        return Rows(len(positions), {**codes, **(more or {})})

    def kept(self, mask: BoolArray) -> Rows:
        return self.taken(np.flatnonzero(mask))

    def pieces(
        self, sizes: Iterable[IntArray | int], bytes_max: int, count_max: int | None = None
    ) -> Iterator[Rows]:
        """The rows in order, so many at a time that values of them take no more than so many bytes.

        `sizes` are the bytes that a value takes in each row, or in every one. A row alone may take more.
        """
        each, varying = 1, np.zeros(0, np.int64)
        for size in sizes:
            if isinstance(size, int):
                each += size
            else:
                varying = varying + size if len(varying) else size
        most = max(1, min(self.count if count_max is None else count_max, bytes_max // each))
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(varying + each)]) if len(varying) else None
        start = 0
        while start < self.count:
            stop = min(start + most, self.count)
            if before is not None:
                fits = int(np.searchsorted(before, before[start] + bytes_max, side="right")) - 1
                stop = min(stop, max(start + 1, fits))
            yield self if stop - start == self.count else self.taken(np.arange(start, stop))
            start = stop


START = Rows(1, {})
