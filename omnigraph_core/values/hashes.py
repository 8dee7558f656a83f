"""Texts as numbers: the same for equal texts, on every machine and in every process."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# The hash is a polynomial in this odd number, modulo 2**64; the second one mixes its bits.
_BASE = 0x9E3779B97F4A7C15
_MIX = 0xD6E8FEB86659FD93
_WORD = 1 << 64

# Texts are hashed so many bytes at a time, to stay in the processor's caches; of a text
# that is longer than an id has any reason to be, the beginning has to do.
_BYTES_AT_ONCE = 1 << 19
_HASHED_BYTES_MAX = 1 << 12


def text_hashes(texts: pa.Array) -> np.ndarray[Any, Any]:
    """A 64-bit hash for each text: the same for equal texts, and rarely for different ones."""
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > _HASHED_BYTES_MAX:
        texts = pc.binary_slice(texts.cast(pa.binary()), 0, _HASHED_BYTES_MAX)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    characters = np.frombuffer(data or b"", np.uint8)
    hashes = np.empty(len(texts), np.uint64)
    start = 0
    while start < len(texts):
        stop = int(np.searchsorted(ends, ends[start] + _BYTES_AT_ONCE, "right")) - 1
        hashes[start:stop] = _polynomials(characters, ends[start : stop + 1])
        start = stop
    return hashes


def _polynomials(characters: np.ndarray[Any, Any], ends: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The number of each text that goes from one of the ends to the next.

    With S(k) the sum of byte·Bᵗ over the first k bytes of all texts in a row, the
    polynomial of the text from s to e is (S(e) − S(s))·B⁻ˢ: no loop over texts is needed.
    """
    powers, inverses = _powers()
    mine = characters[ends[0] : ends[-1]]
    sums = np.zeros(len(mine) + 1, np.uint64)
    # One more than the byte, so that a text of zero bytes differs from a shorter one.
    np.cumsum((mine.astype(np.uint64) + np.uint64(1)) * powers[: len(mine)], out=sums[1:])
    places = ends - ends[0]
    hashes: np.ndarray[Any, Any] = (sums[places[1:]] - sums[places[:-1]]) * inverses[places[:-1]]
    hashes ^= hashes >> np.uint64(32)
    hashes *= np.uint64(_MIX)
    return hashes


@cache
def _powers() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Bᵗ and B⁻ᵗ for all t that are needed."""

    def powers(base: int) -> np.ndarray[Any, Any]:
        factors = np.full(_BYTES_AT_ONCE + 1, base, np.uint64)
        factors[0] = 1
        return np.cumprod(factors, dtype=np.uint64)

    return powers(_BASE), powers(pow(_BASE, -1, _WORD))
