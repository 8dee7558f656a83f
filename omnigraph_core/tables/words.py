"""Texts as the words that full-text search knows of them: lower-cased, stemmed, without stop words.

Lance's own tokenizer says what the words of a text are, so that a text which no index covers has the
same words as one that an index covers. It is asked once for each different spelling, never for each text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from omnigraph_core.tables.indexes import FULL_TEXT_OPTIONS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

_OPTIONS = {name: value for name, value in FULL_TEXT_OPTIONS.items() if name != "with_position"}

# What is a letter is asked without anything that drops or changes words.
_RAW_OPTIONS = _OPTIONS | {"stem": False, "remove_stop_words": False, "ascii_folding": False}


class Words:
    """The words of some texts. A text that is null has none."""

    __slots__ = ("_owners", "_parents", "_places", "_tokens", "lengths")

    def __init__(self, texts: pa.Array) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        spellings = pc.ascii_split_whitespace(pc.fill_null(texts.cast(pa.large_utf8()), ""))
        encoded = spellings.flatten().dictionary_encode()
        self._parents = np.repeat(
            np.arange(len(texts), dtype=np.int32), np.diff(spellings.offsets.to_numpy())
        )
        self._places = encoded.indices.to_numpy()
        self._owners, self._tokens = tokens_of(encoded.dictionary.to_pylist())
        counts = np.bincount(self._owners, minlength=len(encoded.dictionary)).astype(np.int32)
        self.lengths: npt.NDArray[np.int64] = np.bincount(
            self._parents, counts[self._places], minlength=len(texts)
        ).astype(np.int64)
        """How many words each text has, every occurrence counted."""

    @property
    def nbytes(self) -> int:
        return int(self._parents.nbytes + self._places.nbytes + self.lengths.nbytes + self._tokens.nbytes)

    def counts(self, word: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The texts that have a word, ascending, and how often they have it."""
        import numpy as np
        import pyarrow.compute as pc

        is_word = pc.equal(self._tokens, word).to_numpy(zero_copy_only=False)
        weights = np.bincount(self._owners[is_word], minlength=int(self._places.max(initial=0)) + 1)
        occurrences = np.flatnonzero(weights[self._places])
        counts = np.bincount(
            self._parents[occurrences], weights[self._places[occurrences]], minlength=len(self.lengths)
        ).astype(np.int64)
        found = np.flatnonzero(counts)
        return found, counts[found]

    def having_any(self, words: Iterable[str]) -> npt.NDArray[np.int64]:
        """The texts that have at least one of some words, ascending."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        is_word = pc.is_in(self._tokens, value_set=pa.array(list(words), pa.utf8()))
        has_word = np.zeros(int(self._places.max(initial=0)) + 1, np.bool_)
        has_word[self._owners[is_word.to_numpy(zero_copy_only=False)]] = True
        found = np.zeros(len(self.lengths), np.bool_)
        found[self._parents[has_word[self._places]]] = True
        return np.flatnonzero(found)


def query_words(text: str) -> dict[str, str]:
    """The different words of a query, and for each a spelling that means this word alone.

    A stem cannot stand for itself in a query: stemmed once more it may become another.
    """
    separators = {letter for letter in set(text) if not letter.isalnum() and _separates(letter)}
    pieces = "".join(" " if letter in separators else letter for letter in text).split(" ")
    pieces = list(dict.fromkeys(piece for piece in pieces if piece))
    owners, tokens = tokens_of(pieces)
    found: dict[str, str] = {}
    for owner, token in zip(owners.tolist(), tokens.to_pylist(), strict=True):
        found.setdefault(token, pieces[owner])
    return found


def tokens_of(spellings: Sequence[str]) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """The words of some spellings, in order, and for each word the position of its spelling."""
    import lance
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not spellings:
        return np.zeros(0, np.int64), pa.array([], pa.utf8())
    number = 0
    while True:  # What separates the spellings must be no word of any of them.
        mark = f"qzx{number}"
        found = lance.tokenize(f" {mark} ".join([*spellings, ""]), **_OPTIONS)
        tokens = pa.array([token.text for token in found], pa.utf8())
        is_mark = pc.equal(tokens, mark).to_numpy(zero_copy_only=False)
        if int(is_mark.sum()) == len(spellings):
            return np.cumsum(is_mark)[~is_mark].astype(np.int64), tokens.filter(pa.array(~is_mark))
        number += 1


def _separates(letter: str) -> bool:
    import lance

    return len(lance.tokenize(f"a{letter}b", **_RAW_OPTIONS)) == 2
