"""Looking up ids: a hash table in arrays, queried with millions of texts at once.

Arrow's `index_in` builds its table anew for every call and follows a pointer for every text.
Here a text is its bytes as a few 64-bit words, so that hashing, probing and comparing are
arithmetic on whole columns. Nothing rests on hashes being different: the words are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.topology.arrays import in_arrow

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.topology.arrays import BoolArray, IntArray

    Words: TypeAlias = list[npt.NDArray[np.uint64]]

# Ids longer than so many words of 8 bytes are left to Arrow. A ULID has four.
WORDS_MAX = 6

# So many texts at a time keep what is made of them in the processor's cache.
_CHUNK = 1 << 16
_ROWS_FOR_THREADS = 1 << 18

# A third of the slots are taken, so that a look-up passes by a few. One that goes on and on is in a
# table that somebody has damaged.
_PROBES_MAX = 10_000

_FACTORS = (
    0x9E3779B97F4A7C15,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0xD6E8FEB86659FD93,
    0xA0761D6478BD642F,
    0xE7037ED1A0B428DB,
)
_END = 0xFF
"""Marks where a text ends, so that texts of different lengths differ; no byte of UTF-8."""


class IdTable:
    """Positions of distinct texts. Immutable, so threads may share it."""

    def __init__(self, ids: pa.Array) -> None:
        self.ids = ids
        self.width = _longest(ids) // 8 + 1
        self._is_words = self.width <= WORDS_MAX
        if not self._is_words:
            return
        self._bits = max(4, (len(ids) * 3).bit_length())
        self._slots = np.full(1 << self._bits, -1, np.int32)
        parts = [words_of(part, self.width) for part in parts_of(ids)]
        empty = np.zeros(0, np.uint64)
        self._words = [
            np.concatenate([part[place] for part in parts]) if parts else empty for place in range(self.width)
        ]
        self._fill()

    def __len__(self) -> int:
        return len(self.ids)

    def ids_at(self, positions: IntArray) -> pa.Array:
        return self.ids.take(in_arrow(positions))

    @property
    def hash_slots(self) -> npt.NDArray[np.int32]:
        """Where ids are by their hashes, to be kept; none if ids are too long to be words."""
        return self._slots if self._is_words else np.zeros(0, np.int32)

    @property
    def nbytes(self) -> int:
        words = sum(each.nbytes for each in self._words) + self._slots.nbytes if self._is_words else 0
        return int(self.ids.nbytes) + int(words)

    def find(self, texts: pa.Array) -> IntArray:
        """For each text its position among the ids, or -1."""
        if not self._is_words:
            return self._compared(texts)
        parts = list(parts_of(texts))
        if len(texts) < _ROWS_FOR_THREADS:
            pieces = [self._find(part) for part in parts]
        else:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(2) as pool:
                pieces = list(pool.map(self._find, parts))
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)

    def _fill(self) -> None:
        """Linear probing: each id takes the first free slot from its own on; one of several rivals wins."""
        slots, mask = self._slots, (1 << self._bits) - 1
        waiting = np.arange(len(self.ids), dtype=np.int32)
        wanted = hashed(self._words, self._bits)
        while len(waiting):
            free = slots[wanted] < 0
            slots[wanted[free]] = waiting[free]
            left = slots[wanted] != waiting
            waiting, wanted = waiting[left], (wanted[left] + 1) & mask

    def _find(self, texts: pa.Array) -> IntArray:
        words, mask = words_of(texts, self.width), (1 << self._bits) - 1
        wanted = hashed(words, self._bits)
        found = self._slots.take(wanted).astype(np.int64)
        left = np.flatnonzero(self._differ(found, words) & (found >= 0))
        for _ in range(_PROBES_MAX):
            if not len(left):
                return found
            wanted[left] = (wanted[left] + 1) & mask
            there = self._slots[wanted[left]].astype(np.int64)
            found[left] = there
            left = left[self._differ(there, [each[left] for each in words]) & (there >= 0)]
        return self._compared(texts)

    def _compared(self, texts: pa.Array) -> IntArray:
        """Without hashes; for ids that are too long for them."""
        found = pc.index_in(texts, value_set=self.ids).fill_null(-1)
        return found.to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]

    def _differ(self, positions: IntArray, words: Words) -> BoolArray:
        """Where the id at a position (of -1: any) is not these words."""
        if not len(self.ids):
            return np.ones(len(positions), np.bool_)
        answer: BoolArray = self._words[0].take(positions, mode="wrap") != words[0]
        for mine, theirs in zip(self._words[1:], words[1:], strict=True):
            answer |= mine.take(positions, mode="wrap") != theirs
        return answer


def hashed(words: Words, bits: int) -> IntArray:
    """A number below 2 ** bits for each text."""
    mixed = words[0] * np.uint64(_FACTORS[0])
    for place in range(1, len(words)):
        mixed ^= mixed >> np.uint64(29)
        mixed ^= words[place] * np.uint64(_FACTORS[place])
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(_FACTORS[1])
    mixed >>= np.uint64(64 - bits)
    return mixed.astype(np.int64)


def words_of(texts: pa.Array, width: int) -> Words:
    """The bytes of each text and an end, in so many words filled up with zeros.

    A text that does not fit is cut before its end, and so equals none that does.
    """
    starts, data = bytes_of(texts)
    return words_at(starts[:-1], np.diff(starts), data, width)


def words_at(begins: IntArray, lengths: IntArray, data: npt.NDArray[np.uint8], width: int) -> Words:
    """The same of texts that begin somewhere in the data, behind which eight more bytes can be read."""
    at: Any = np.ndarray((len(data) - 7,), np.dtype("<u8"), buffer=data.data, strides=(1,))
    begins = begins.copy()
    masks, ends = _marks()
    is_even = len(lengths) > 0 and bool((lengths == lengths[0]).all())
    words = []
    for place in range(width):
        column = at[np.minimum(begins, len(data) - 8)] if place else at[begins]
        used = np.clip((lengths[0] if is_even else lengths) - place * 8, -1, 8)
        if not is_even or used < 8:
            column &= masks[used]
            column |= ends[used]
        words.append(column)
        begins += 8
    return words


def _marks() -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """For 0 to 8 bytes used of a word what to keep of it and the end to add; -1, the last, is behind it."""
    masks = [(1 << (8 * used)) - 1 for used in range(9)] + [0]
    ends = [_END << (8 * used) for used in range(8)] + [0, 0]
    return np.array(masks, np.uint64), np.array(ends, np.uint64)


def parts_of(texts: pa.Array) -> Iterator[pa.Array]:
    for start in range(0, len(texts), _CHUNK):
        yield texts.slice(start, _CHUNK)


def _longest(texts: pa.Array) -> int:
    return int(pc.max(pc.binary_length(texts)).as_py() or 0)


def bytes_of(texts: pa.Array) -> tuple[IntArray, npt.NDArray[np.uint8]]:
    """Where each text begins, and the bytes, with eight more behind them that can be read."""
    if not len(texts):
        return np.zeros(1, np.int64), np.zeros(8, np.uint8)
    _, offsets, values = texts.buffers()
    starts = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4).astype(np.int64)
    first, end = int(starts[0]), int(starts[-1])
    data = np.zeros(end - first + 8, np.uint8)
    if end > first:
        data[:-8] = np.frombuffer(values, np.uint8, end - first, first)
    return starts - first, data
