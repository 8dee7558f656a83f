"""Full-text clauses: which entities of a type have words of a query in a property.

With an index, without one and with one that has fallen behind the answer is the same:
what the index covers is asked of it, the rest is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.errors import BadDataError
from omnigraph_core.query.checked import TextSearch
from omnigraph_core.query.syntax import TextFunction
from omnigraph_core.query.values import evaluate
from omnigraph_core.read.search.bm25 import bm25
from omnigraph_core.read.search.fuzzy import FuzzyQuery
from omnigraph_core.read.search.pieces import pieces
from omnigraph_core.read.session.entities import Entities
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.search import search_indexed, text_coverage
from omnigraph_core.tables.words import Words, query_words

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.read.session.session import Session
    from omnigraph_core.topology.arrays import IntArray

DEFAULT_EDITS = 2
_EDITS_MAX = 8


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
    """Which of the (distinct) codes a search finds, and how relevant each is."""
    text = query_text(session, search)
    none = np.zeros(0, np.int64), np.zeros(0, np.float64)
    if text is None or not len(codes):
        return none
    if search.function is TextFunction.FUZZY:
        texts = entities.column(search.property, codes)
        scores = FuzzyQuery(text, max_edits(session, search)).scores(texts, session.budget.check_time)
        stems = Words(texts).having_any(query_words(text))
        scores[stems] = np.maximum(scores[stems], 1.0)
    else:
        scores = bm25(session, entities, search.property, text, codes)
    is_found = scores > 0
    return codes[is_found], scores[is_found]


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
    fuzzy = FuzzyQuery(text, max_edits(session, search))
    found = [_with_words(session, entities, search.property, text, where)]
    for ids, texts in pieces(session, entities, ID_COLUMN, search.property, where):
        found.append(ids.filter(pa.array(fuzzy.scores(texts, session.budget.check_time) > 0)))
    return pc.unique(pa.concat_arrays(found))


def _with_words(session: Session, entities: Entities, column: str, text: str, where: str | None) -> pa.Array:
    table = entities.table
    is_indexed, uncovered = text_coverage(table, column)
    found = [pa.array([], pa.utf8())]
    if is_indexed:
        found.append(search_indexed(table, column, text, where))
    if uncovered:
        words = list(query_words(text))
        for ids, texts in pieces(session, entities, ID_COLUMN, column, where, uncovered):
            found.append(ids.take(pa.array(Words(texts).having_any(words))))
    return pa.concat_arrays(found)
