"""The rows of a match in progress: one column of codes per variable."""

from __future__ import annotations

from collections.abc import Mapping
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


START = Rows(1, {})
