"""Fuzzy search: words that are close to the words of a query.

Lance's own fuzzy search is not used: on rows its index does not cover it ignores the
edits, and it compares the query's words with stems. Here the words of the texts
themselves are compared, each distinct one once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.tables.words import tokens_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.topology.arrays import IntArray

_NO_WORD = r"[^\p{L}\p{N}]+"
_MARK = r"\p{Mn}"


class FuzzyQuery:
    """The words of a query, without those that no full-text search looks for."""

    def __init__(self, text: str, edits: int) -> None:
        words = _words(pa.array([text])).values.unique().to_pylist()
        words = [word for word in words if word]
        self._words = [words[number] for number in dict.fromkeys(tokens_of(words)[0].tolist())]
        self._edits = edits

    def scores(self, texts: pa.Array, check: Callable[[], None]) -> npt.NDArray[np.float64]:
        """For each text the sum, over the words of the query, of 1 / (1 + the fewest edits to a
        word of the text); 0 if it has no word near any of them. `check` may raise, before each word."""
        lists = _words(texts)
        encoded = lists.values.dictionary_encode()
        parents = np.repeat(np.arange(len(texts)), np.diff(lists.offsets.to_numpy()))
        parents = parents[: len(encoded.indices)]
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        total = np.zeros(len(texts))
        for word in self._words:
            check()
            weights = _weights(edit_distances(word, encoded.dictionary, self._edits), self._edits)
            best = np.zeros(len(texts))
            if len(codes):
                np.maximum.at(best, parents, weights[codes])
            total += best
        return total


def _weights(distances: IntArray, edits: int) -> npt.NDArray[np.float64]:
    return np.where(distances <= edits, 1.0 / (1 + distances), 0.0)


def _words(texts: pa.Array) -> pa.ListArray:
    """The words of each text: lower-cased, without accents; none of a null."""
    folded = pc.fill_null(texts.cast(pa.utf8()), "")
    if not pc.all(pc.string_is_ascii(folded), min_count=0).as_py():
        folded = pc.replace_substring_regex(pc.utf8_normalize(folded, "NFKD"), _MARK, "")
    return pc.split_pattern_regex(pc.utf8_lower(folded), _NO_WORD)


def edit_distances(word: str, vocabulary: pa.Array, limit: int) -> IntArray:
    """Insertions, deletions and replacements from a word to each of the vocabulary; more than
    `limit` of them are only known to be more."""
    distances = np.full(len(vocabulary), limit + 1, np.int64)
    lengths = pc.utf8_length(vocabulary).to_numpy(zero_copy_only=False)
    for length in range(max(1, len(word) - limit), len(word) + limit + 1):
        places = np.flatnonzero(lengths == length)
        if len(places):
            letters = "".join(vocabulary.take(places).to_pylist())
            points = np.frombuffer(letters.encode("utf-32-le"), np.uint32).reshape(len(places), length)
            distances[places] = _distances(word, points)
    return distances


def _distances(word: str, points: npt.NDArray[np.uint32]) -> IntArray:
    """The table of edits, one row of it at a time, for all words of one length together."""
    count, length = points.shape
    previous = np.tile(np.arange(length + 1, dtype=np.int64), (count, 1))
    for row, letter in enumerate(word, 1):
        current = np.empty_like(previous)
        current[:, 0] = row
        replaced = previous[:, :-1] + (points != ord(letter))
        deleted = previous[:, 1:] + 1
        for column in range(1, length + 1):
            inserted = current[:, column - 1] + 1
            step = np.minimum(replaced[:, column - 1], deleted[:, column - 1])
            current[:, column] = np.minimum(step, inserted)
        previous = current
    return previous[:, -1]
