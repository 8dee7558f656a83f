"""How relevant texts are to a query, by BM25 over all texts of a property.

Each different word of the query adds to the score of a text that has it

    ln(1 + (texts - having + 0.5) / (having + 0.5)) * 2.2 * n / (n + 1.2 * (0.25 + 0.75 * words / mean))

where `texts` counts those with at least one word, `having` those with this word, `n` is how often this
text has it (255 at most), `words` how many it has, and `mean` how many a text has on average. All are
whole numbers of this version of the type (but for the mean), whether an index or the texts themselves
tell them. So scores are the same to the last bit with and without an index.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from omnigraph_core.read.search.pieces import pieces
from omnigraph_core.read.session.entities import Entities
from omnigraph_core.records import dataclass
from omnigraph_core.tables.keys import ROW_ID
from omnigraph_core.tables.postings import (
    OCCURRENCES_MAX,
    SATURATION,
    IndexedTexts,
    Occurrences,
    indexed_texts,
    occurrences,
    places_among,
    saturations,
)
from omnigraph_core.tables.words import Words, query_words
from omnigraph_core.topology.cache import CacheKey

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.read.session.session import Session
    from omnigraph_core.topology.arrays import IntArray


@dataclass(frozen=True, slots=True)
class _Texts:
    """Some texts whose words are known, by row id, ascending."""

    row_ids: IntArray
    lengths: IntArray
    occurrences: dict[str, Occurrences]


def bm25(
    session: Session, entities: Entities, column: str, query: str, codes: IntArray
) -> npt.NDArray[np.float64]:
    """The relevance of each of the codes; 0 for a text without any of the words."""
    words = query_words(query)
    session.budget.check_time()
    if not words or not len(codes):
        return np.zeros(len(codes))
    parts = _parts(session, entities, column, words)
    texts = sum(int(np.count_nonzero(part.lengths)) for part in parts)
    if not texts:
        return np.zeros(len(codes))
    total = sum(int(part.lengths.sum()) for part in parts)
    having = {word: sum(len(part.occurrences[word].places) for part in parts) for word in words}
    row_ids = entities.row_ids(codes)
    scores = np.zeros(len(codes))
    for part in parts:
        of_texts = np.zeros(len(part.row_ids) + 1)
        for word in sorted(words):
            session.budget.check_time()
            found = part.occurrences[word]
            n = np.minimum(found.counts, OCCURRENCES_MAX)
            rarity = math.log(1 + (texts - having[word] + 0.5) / (having[word] + 0.5))
            lengths = part.lengths[found.places]
            of_texts[found.places] += (
                rarity * (SATURATION + 1) * n / (n + saturations(lengths, total / texts))
            )
        scores += of_texts[places_among(part.row_ids, row_ids)]
    return scores


def _parts(session: Session, entities: Entities, column: str, words: dict[str, str]) -> list[_Texts]:
    """Every text of the type, once: those an index covers, and the others."""
    known = _indexed(session, entities, column)
    found = (
        None
        if known is None
        else occurrences(entities.table, column, known, words, session.budget.check_time)
    )
    parts = []
    fragments = None
    if known is not None and found is not None:
        parts.append(_Texts(known.row_ids, known.lengths, found))
        fragments = [each for each in entities.table.fragment_rows() if each not in known.fragments]
    for row_ids, texts in _read(session, entities, column, fragments):
        occurring = {}
        for word in words:
            session.budget.check_time()
            occurring[word] = Occurrences(*texts.counts(word))
        parts.append(_Texts(row_ids, texts.lengths, occurring))
    return parts


def _indexed(session: Session, entities: Entities, column: str) -> IndexedTexts | None:
    key: CacheKey[IndexedTexts] = CacheKey(("indexed texts", entities.entry, column))
    known = session.cache.get(key)
    if known is None:
        known = indexed_texts(session.storage, entities.table, column)
        if known is not None:
            session.cache.put(key, known, known.nbytes)
    return known


def _read(
    session: Session, entities: Entities, column: str, fragments: list[int] | None
) -> Iterator[tuple[IntArray, Words]]:
    """Texts with their row ids, in pieces of bounded size, from these fragments or from all."""
    if fragments is not None and not fragments:
        return
    chosen = None if fragments is None else tuple(fragments)
    key: CacheKey[list[tuple[IntArray, Words]]] = CacheKey(("words", entities.entry, column, chosen))
    known = session.cache.get(key)
    if known is not None:
        yield from known
        return
    kept: list[tuple[IntArray, Words]] = []
    size = 0
    for row_ids, texts in pieces(session, entities, ROW_ID, column, fragments=fragments):
        numbers = row_ids.to_numpy().astype(np.int64)
        order = np.argsort(numbers)
        piece = numbers[order], Words(texts.take(pa.array(order)))
        size += piece[0].nbytes + piece[1].nbytes
        kept = [*kept, piece] if size <= session.budget.memory_bytes // 8 else []
        yield piece
    if kept:
        session.cache.put(key, kept, size)
