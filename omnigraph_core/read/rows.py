"""The rows of a match while it is being made: a code for every variable, a column a variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from omnigraph_core.records import dataclass

if TYPE_CHECKING:
    from omnigraph_core.read.arrays import BoolArray, IntArray


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
        import numpy as np

        return self.taken(np.flatnonzero(mask))


START = Rows(1, {})


def no_rows(variables: Mapping[str, object]) -> Rows:
    import numpy as np

    return Rows(0, {name: np.zeros(0, np.int64) for name in variables})
