"""The ids of a node type from an index on disk: found by hash, without reading or copying the list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from omnigraph_core.topology.arrays import in_arrow
from omnigraph_core.topology.format import NotTopology
from omnigraph_core.topology.idtable import WORDS_MAX, IdTable, bytes_of, words_at

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.topology.arrays import BoolArray, IntArray
    from omnigraph_core.topology.format import Arrays
    from omnigraph_core.topology.idtable import Words

# Behind the bytes of the ids, so that the last one can be read in words.
ID_PADDING = 8


@contextmanager
def believed() -> Iterator[None]:
    """Arrays that contradict each other are not what was written: NotTopology."""
    try:
        yield
    except (IndexError, ValueError, OverflowError, pa.ArrowException) as error:
        raise NotTopology(f"an index that contradicts itself: {error}") from error


def arrays_of_ids(table: IdTable) -> Arrays:
    """What is to be stored of a table of ids."""
    starts, data = bytes_of(table.ids)
    width = np.array([table.width], np.uint32)
    return {"offsets": starts.astype(np.int32), "bytes": data, "hashes": table.hash_slots, "width": width}


class StoredIdTable(IdTable):
    """The same as a table in memory. What it is made of is not trusted: nothing is read outside of it."""

    def __init__(self, arrays: Arrays) -> None:
        try:
            self._offsets: npt.NDArray[np.int32] = arrays["offsets"]
            self._data: npt.NDArray[np.uint8] = arrays["bytes"]
            self._slots = arrays["hashes"]
            self.width = int(arrays["width"][0])
        except (KeyError, IndexError) as error:
            raise NotTopology(f"no table of ids: {error}") from error
        self._is_words = 1 <= self.width <= WORDS_MAX
        self._bits = max(1, len(self._slots).bit_length() - 1)
        self._count = len(self._offsets) - 1
        is_table = not self._is_words or len(self._slots) == 1 << self._bits
        if self._count < 0 or len(self._data) < ID_PADDING or not is_table:
            raise NotTopology("no table of ids")

    def __len__(self) -> int:
        return self._count

    @cached_property
    def ids(self) -> pa.Array:
        """All of them; looked at as a whole once, before Arrow may touch them."""
        found = self._array()
        with believed():
            found.validate(full=True)
        return found

    def _array(self) -> pa.Array:
        buffers: list[Any] = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._data)]
        return pa.Array.from_buffers(pa.utf8(), self._count, buffers)

    @property
    def nbytes(self) -> int:
        """Mapped, so that the system can take it back at any time."""
        return 0

    def ids_at(self, positions: IntArray) -> pa.Array:
        with believed():
            begins, ends = self._offsets[positions], self._offsets[positions + 1]
            if len(positions) and (begins.min() < 0 or (begins > ends).any() or ends.max() > len(self._data)):
                raise NotTopology("ids outside of the list")
            found = self._array().take(in_arrow(positions))
            found.validate(full=True)
            return found

    def lists(self, ids: pa.Array) -> bool:
        """Are these the ids, in this order?"""
        starts, data = bytes_of(ids)
        return np.array_equal(starts, self._offsets) and np.array_equal(data, self._data)

    def find(self, texts: pa.Array) -> IntArray:
        with believed():
            found = super().find(texts)
            found[found >= self._count] = -1
            return found

    def _differ(self, positions: IntArray, words: Words) -> BoolArray:
        if not self._count:
            return np.ones(len(positions), np.bool_)
        at = np.where((positions >= 0) & (positions < self._count), positions, 0)
        begins = self._offsets[at].astype(np.int64)
        mine = words_at(begins, self._offsets[at + 1] - begins, self._data, self.width)
        answer: BoolArray = mine[0] != words[0]
        for own, theirs in zip(mine[1:], words[1:], strict=True):
            answer |= own != theirs
        return answer
