"""Full-text clauses: which entities of a type have words of a query in a property.

With an index, without one and with one that has fallen behind the answer is the same:
what the index covers is asked of it, the rest is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.errors import BadDataError
from omnigraph_core.query.checked import TextSearch
from omnigraph_core.query.syntax import TextFunction
from omnigraph_core.query.values import evaluate
from omnigraph_core.read.search.fuzzy import FuzzyQuery
from omnigraph_core.read.session.entities import Entities
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.search import search_indexed, search_texts, text_coverage
from omnigraph_core.values.arrays import whole

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.read.session.session import Session
    from omnigraph_core.topology.arrays import IntArray

DEFAULT_EDITS = 2
_EDITS_MAX = 8
_TEXTS_PER_BATCH = 100_000

# The texts of so few candidates are read and searched; for more, the whole type is searched by its index.
_READ_DIRECTLY_MAX = 2_000


def matching_ids(
    session: Session, entities: Entities, searches: tuple[TextSearch, ...], where: str | None
) -> pa.Array:
    """The ids of entities that pass the filter and are found by every search."""
    found: pa.Array | None = None
    for search in searches:
        ids = _found_by(session, entities, search, where)
        found = ids if found is None else found.filter(pc.is_in(found, value_set=ids))
    assert found is not None
    return found


def text_scores(
    session: Session, entities: Entities, search: TextSearch, codes: IntArray
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Which of the (distinct) codes a search finds, and how relevant each is.

    Relevance is BM25 among the entities that are candidates and found, so that it does
    not depend on what an index happens to know.
    """
    text = query_text(session, search)
    none = np.zeros(0, np.int64), np.zeros(0, np.float64)
    if text is None or not len(codes):
        return none
    is_fuzzy = search.function is TextFunction.FUZZY
    is_found = len(codes) > _READ_DIRECTLY_MAX or is_fuzzy
    if is_found:
        ids = matching_ids(session, entities, (search,), None)
        codes = codes[entities.among(codes, ids)]
        if not len(codes):
            return none
    texts = entities.column(search.property, codes)
    if is_fuzzy:
        scores = FuzzyQuery(text, max_edits(session, search), entities.table.ref).scores(texts)
        stems, _ = search_texts(texts, text, entities.table.ref)
        scores[stems] = np.maximum(scores[stems], 1.0)
        return codes, scores
    if not is_found:
        found, _ = search_texts(texts, text, entities.table.ref)
        codes, texts = codes[found], texts.take(found)
    places, scores = search_texts(texts, text, entities.table.ref)
    return codes[places], scores


def query_text(session: Session, search: TextSearch) -> str | None:
    value = evaluate(search.query, session.run.params, session.run.now)
    assert value is None or isinstance(value, str)
    return value


def max_edits(session: Session, search: TextSearch) -> int:
    if search.max_edits is None:
        return DEFAULT_EDITS
    value = evaluate(search.max_edits, session.run.params, session.run.now)
    if value is None:
        return DEFAULT_EDITS
    assert isinstance(value, int)
    if not 0 <= value <= _EDITS_MAX:
        raise BadDataError(f"fuzzy() allows 0 to {_EDITS_MAX} edits, not {value}")
    return value


def _found_by(session: Session, entities: Entities, search: TextSearch, where: str | None) -> pa.Array:
    text = query_text(session, search)
    if text is None:
        return pa.array([], pa.utf8())
    if search.function is not TextFunction.FUZZY:
        return _with_words(session, entities, search.property, text, where)
    fuzzy = FuzzyQuery(text, max_edits(session, search), entities.table.ref)
    found = [_with_words(session, entities, search.property, text, where)]
    for ids, texts in _batches(session, entities, search.property, where, None):
        found.append(ids.filter(pa.array(fuzzy.scores(texts) > 0)))
    return pc.unique(pa.concat_arrays(found))


def _with_words(session: Session, entities: Entities, column: str, text: str, where: str | None) -> pa.Array:
    table = entities.table
    is_indexed, uncovered = text_coverage(table, column)
    found = [pa.array([], pa.utf8())]
    if is_indexed:
        found.append(search_indexed(table, column, text, where))
    if uncovered:
        for ids, texts in _batches(session, entities, column, where, uncovered):
            found.append(ids.take(search_texts(texts, text, table.ref)[0]))
    return pa.concat_arrays(found)


def _batches(
    session: Session, entities: Entities, column: str, where: str | None, fragments: list[int] | None
) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Ids and texts of rows that pass, in pieces of bounded size."""

    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in entities.table.scan([ID_COLUMN, column], where, fragment_ids=fragments):
        session.budget.check_time()
        session.statistics.count_read(batch.num_rows, batch.nbytes)
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _TEXTS_PER_BATCH:
            yield _ids_and_texts(waiting, column)
            waiting, rows = [], 0
    if rows:
        yield _ids_and_texts(waiting, column)


def _ids_and_texts(batches: list[pa.RecordBatch], column: str) -> tuple[pa.Array, pa.Array]:
    table = pa.Table.from_batches(batches)
    return whole(table.column(ID_COLUMN)), whole(table.column(column))
