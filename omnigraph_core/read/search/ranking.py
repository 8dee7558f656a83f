"""Ranking the entities of a match by a search: nearest, bm25, and the two fused.

What is ranked are the entities that the whole match has left, so filters, traversals
and negations have all had their say before. Entities a search does not find are not
ranked: those without the words, or without a vector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from omnigraph_core.errors import BadDataError, RefusedError
from omnigraph_core.query.checked import FusedSearch, NearestSearch, RankedSearch, TextSearch
from omnigraph_core.query.values import evaluate
from omnigraph_core.read.columns.order import id_ranks
from omnigraph_core.read.search.text import text_scores
from omnigraph_core.read.session.entities import Entities
from omnigraph_core.read.session.selectivity import ScanWay, way_for_many
from omnigraph_core.records import dataclass
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.search import has_vector_index, nearest_ids
from omnigraph_core.tables.vectors import comparable_max

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from omnigraph_core.read.search.embedding import Embedder
    from omnigraph_core.read.session.session import Session
    from omnigraph_core.topology.arrays import IntArray

# Up to here the nearest are found by comparing with every vector, index or not.
EXACT_ROWS_MAX = 100_000

# An index compares vectors by a few bits of them; of so many it finds, the nearest are found exactly.
_CANDIDATES_PER_ROW = 10
_CANDIDATES_MIN = 200

DEFAULT_FUSION_K = 60
_VECTORS_PER_BATCH = 50_000


@dataclass(frozen=True, slots=True)
class Ranking:
    """Entities, best first, and what the search says of each: a distance, or a relevance."""

    codes: IntArray
    scores: npt.NDArray[np.float64]

    def top(self, count: int | None) -> Ranking:
        return self if count is None else Ranking(self.codes[:count], self.scores[:count])

    def places(self, size: int) -> IntArray:
        """For each code below `size` its rank from 0, -1 if it has none."""
        found = np.full(size, -1, np.int64)
        found[self.codes] = np.arange(len(self.codes))
        return found


@dataclass(frozen=True, slots=True)
class Candidates:
    """Distinct codes of the variable that is ranked.

    `where` is set if these are exactly what passes a filter, which lets an index do the
    work when they are many.
    """

    codes: IntArray
    is_whole_scan: bool = False
    where: str | None = None


def ranked(
    session: Session, entities: Entities, search: RankedSearch, candidates: Candidates, limit: int | None
) -> Ranking:
    if isinstance(search, FusedSearch):
        return _fused(session, entities, search, candidates, limit)
    if isinstance(search, TextSearch):
        codes, scores = text_scores(session, entities, search, candidates.codes)
        return _best_first(entities, codes, scores, -scores, limit)
    codes, distances = _distances(session, entities, search, candidates, limit)
    return _best_first(entities, codes, distances, distances, limit)


def ranked_variable(search: RankedSearch) -> str:
    return search.first.variable if isinstance(search, FusedSearch) else search.variable


def _best_first(
    entities: Entities,
    codes: IntArray,
    scores: npt.NDArray[np.float64],
    keys: npt.NDArray[np.float64],
    limit: int | None,
) -> Ranking:
    """Ordered by keys, then by ids, which are looked at for those alone that can be within the limit."""
    if limit is not None and 0 < limit < len(codes):
        among = np.flatnonzero(keys <= np.partition(keys, limit - 1)[limit - 1])
        codes, scores, keys = codes[among], scores[among], keys[among]
    order = np.lexsort((id_ranks(entities.ids, codes), keys))[:limit]
    return Ranking(codes[order], scores[order])


def _fused(
    session: Session, entities: Entities, search: FusedSearch, candidates: Candidates, limit: int | None
) -> Ranking:
    """Reciprocal ranks summed; equal sums stay in the order of the first arm, then of the second."""
    k = _fusion_k(session, search)
    arms = [
        ranked(session, entities, arm, candidates, limit).top(limit) for arm in (search.first, search.second)
    ]
    codes = np.unique(np.concatenate([arm.codes for arm in arms]))
    size = int(codes.max(initial=-1)) + 1
    places = [arm.places(size)[codes] for arm in arms]
    scores = sum(np.where(place >= 0, 1.0 / (k + place + 1.0), 0.0) for place in places)
    behind = [np.where(place >= 0, place, size) for place in places]
    order = np.lexsort((behind[1], behind[0], -np.asarray(scores)))
    return Ranking(codes[order], np.asarray(scores)[order])


def _fusion_k(session: Session, search: FusedSearch) -> int:
    if search.k is None:
        return DEFAULT_FUSION_K
    value = evaluate(search.k, session.run.params, session.run.now)
    if value is None:
        return DEFAULT_FUSION_K
    assert isinstance(value, int)
    if value <= 0:
        raise BadDataError(f"k of rrf() must be greater than zero, not {value}")
    return value


def _distances(
    session: Session, entities: Entities, search: NearestSearch, candidates: Candidates, limit: int | None
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Euclidean distances of the candidates that have a vector."""
    vector = query_vector(session, search)
    if vector is None or not len(candidates.codes):
        return np.zeros(0, np.int64), np.zeros(0, np.float64)
    codes = candidates.codes
    if (
        len(codes) > EXACT_ROWS_MAX
        and candidates.is_whole_scan
        and limit is not None
        and float(np.abs(vector).max()) <= comparable_max(search.dimension)
        and has_vector_index(entities.table, search.property)
    ):
        count = min(max(limit * _CANDIDATES_PER_ROW, _CANDIDATES_MIN), len(codes))
        found = nearest_ids(entities.table, search.property, vector.tolist(), count, candidates.where)
        codes = entities.codes_of(found)
    elif candidates.is_whole_scan:
        way = way_for_many(entities, len(codes))
        return _scanned(entities, search.property, candidates.where, vector, way)
    pieces = [
        _exact(entities, search.property, codes[start : start + _VECTORS_PER_BATCH], vector)
        for start in range(0, len(codes), _VECTORS_PER_BATCH)
    ]
    return np.concatenate([piece[0] for piece in pieces]), np.concatenate([piece[1] for piece in pieces])


def _scanned(
    entities: Entities, column: str, where: str | None, vector: npt.NDArray[np.float64], way: ScanWay
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Distances of everything that passes a filter, in one pass that keeps no vector."""
    ids, distances = [], []
    for batch in entities.batches([ID_COLUMN, column], where, way):
        ids.append(batch.column(0))
        distances.append(distances_of(batch.column(1), vector))
    codes, found = entities.met(ids), np.concatenate(distances)
    valid = ~np.isnan(found)
    return codes[valid], found[valid]


def _exact(
    entities: Entities, column: str, codes: IntArray, vector: npt.NDArray[np.float64]
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    found = distances_of(entities.fetched(column, codes), vector)
    valid = ~np.isnan(found)
    return codes[valid], found[valid]


def distances_of(values: pa.Array, vector: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Of each vector; NaN where there is none, since no vector that can be stored has such a distance."""
    found = np.full(len(values), np.nan)
    present = values.drop_null()
    numbers = present.flatten().to_numpy(zero_copy_only=False).reshape(len(present), len(vector))
    difference = numbers.astype(np.float64) - vector
    valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
    found[valid] = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    return found


def _embedder(session: Session) -> Embedder:
    """Created, and the HTTP client imported, only when a text has to become a vector."""
    from omnigraph_core.read.search.embedding import embedder_of

    return embedder_of(session.settings.embed, session.budget.left_s)


def query_vector(session: Session, search: NearestSearch) -> npt.NDArray[np.float64] | None:
    """What a search is about; a text is embedded once in a read."""
    if search not in session.vectors:
        session.vectors[search] = _query_vector(session, search)
    return session.vectors[search]


def _query_vector(session: Session, search: NearestSearch) -> npt.NDArray[np.float64] | None:
    value = evaluate(search.query, session.run.params, session.run.now)
    if value is None:
        return None
    if isinstance(value, str):
        embedder = _embedder(session)
        if search.model is not None and search.model != embedder.model:
            raise RefusedError(
                f"'{search.property}' was embedded with {search.model}, not with {embedder.model}",
                hint="set OMNIGRAPH_EMBED_MODEL to the model of the property",
            )
        try:
            found = embedder.embed(value, search.dimension)
        finally:
            session.budget.check_time()
        return np.asarray(found, np.float32).astype(np.float64)
    assert isinstance(value, tuple)
    return np.asarray(value, np.float32).astype(np.float64)
