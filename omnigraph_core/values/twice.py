"""Equal texts in columns too large to compare as texts: by hash, in as many passes as memory asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph_core.values.hashes import text_hashes

# Of each row of a pass: its hash, and a copy while hashes are sorted.
_ROW_BYTES = 24

Texts = Callable[[], Iterable[pa.Array]]
"""Reads the column again, a batch at a time; nulls are passed over."""


def passes(rows: int, memory_bytes: int) -> int:
    """How often a column is read so that the hashes of one pass fit."""
    return max(1, -(-rows * _ROW_BYTES // max(1, memory_bytes)))


def twice(texts: Texts, rows: int, memory_bytes: int) -> dict[str, int]:
    """Each text that occurs more than once, with how often it does."""
    count = passes(rows, memory_bytes)
    found: dict[str, int] = {}
    for number in range(count):
        hashes = _hashes(texts, number, count)
        hashes.sort()
        suspects = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        if len(suspects):
            found |= _counted(texts, suspects)
    return {text: times for text, times in found.items() if times > 1}


def absent(texts: Texts, there: Texts, rows: int, memory_bytes: int) -> Iterator[pa.Array]:
    """Those of `texts` that are not among `there`, a column of so many rows.

    By hash alone: two texts out of 2^64 are taken for one.
    """
    count = passes(rows, memory_bytes)
    for number in range(count):
        known = _hashes(there, number, count)
        known.sort()
        for batch in texts():
            valid = batch.drop_null()
            hashes = text_hashes(valid)
            mine = _of_pass(hashes, number, count)
            is_new = mine & ~_among(hashes, known)
            if is_new.any():
                yield valid.filter(pa.array(is_new))


def _hashes(texts: Texts, number: int, count: int) -> np.ndarray[Any, Any]:
    found = [np.empty(0, np.uint64)]
    for batch in texts():
        hashes = text_hashes(batch.drop_null())
        found.append(hashes if count == 1 else hashes[_of_pass(hashes, number, count)])
    return np.concatenate(found)


def _of_pass(hashes: np.ndarray[Any, Any], number: int, count: int) -> np.ndarray[Any, Any]:
    return np.asarray(hashes % np.uint64(count) == np.uint64(number))


def _among(hashes: np.ndarray[Any, Any], known: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which of them the sorted ones contain."""
    if not len(known):
        return np.zeros(len(hashes), np.bool_)
    places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return np.asarray(known[places] == hashes)


def _counted(texts: Texts, suspects: np.ndarray[Any, Any]) -> dict[str, int]:
    """How often each text occurs that has one of these hashes."""
    counts: dict[str, int] = {}
    for batch in texts():
        valid = batch.drop_null()
        is_suspect = _among(text_hashes(valid), suspects)
        for text in valid.filter(pa.array(is_suspect)).to_pylist() if is_suspect.any() else ():
            counts[text] = counts.get(text, 0) + 1
    return counts
