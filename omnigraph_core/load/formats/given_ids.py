"""Ids that keyed nodes come with, compared with those that their keys give.

Elsewhere the members of a composite key may stand in another order in an id. Such an id is
taken: the node gets the id its key gives, and the given one is remembered for the edges.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice, permutations

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.load.formats.strict_json import NotJson, parse_strict
from omnigraph_core.records import dataclass
from omnigraph_core.schema import NodeType
from omnigraph_core.values.arrays import any_true
from omnigraph_core.values.identity import tuple_texts
from omnigraph_core.values.shown import clipped

# So many orders are tried for all rows at once: those of four members. Rows that none of them
# explains are looked at one by one.
_ORDERS_MAX = 24


@dataclass(frozen=True, slots=True)
class GivenIds:
    """What is to be said about the ids that rows came with; None where there is nothing to say."""

    renamed: pa.Array | None = None
    """The given id where it has the members in another order or spelling; null elsewhere."""
    wrong: pa.Array | None = None
    """Which rows have an id that is not theirs."""


def is_same_key(given: str, members: Sequence[str]) -> bool:
    """Is this a JSON array of exactly the texts of a composite key, in whatever order?"""
    if len(members) < 2 or not given.lstrip().startswith("["):
        return False
    try:
        found = parse_strict(given.encode("utf-8", "surrogatepass"))
    except NotJson:
        return False
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        return False
    return sorted(found) == sorted(members)


def not_its_id(given: str, canonical: str) -> str:
    return f"id '{clipped(given)}' is not the id its key gives, '{clipped(canonical)}'"


def compare_ids(given: pa.Array, canonical: pa.Array, rows: pa.Table, entity: NodeType) -> GivenIds:
    """Compare the given ids of rows, null for none, with those of their keys, null where a member is."""
    other = pc.fill_null(pc.not_equal(given, canonical), False)
    if not any_true(other):
        return GivenIds()
    assert entity.key is not None
    columns = entity.key.columns
    if len(columns) < 2:
        return GivenIds(wrong=other)
    places = pc.indices_nonzero(other)
    same = _same_keys(
        given.take(places), canonical.take(places), rows.take(places).combine_chunks(), columns, entity
    )
    accepted = pc.replace_with_mask(other, other, same)
    wrong = pc.and_not(other, accepted)
    nothing = pa.scalar(None, pa.utf8())
    return GivenIds(
        pc.if_else(accepted, given, nothing) if any_true(accepted) else None,
        wrong if any_true(wrong) else None,
    )


def _same_keys(
    given: pa.Array, canonical: pa.Array, rows: pa.Table, columns: Sequence[str], entity: NodeType
) -> pa.Array:
    """Which of the ids are spellings of the key of their row."""
    same = pa.repeat(pa.scalar(False), len(given))
    for order in islice(permutations(columns), _ORDERS_MAX):
        same = pc.or_(same, pc.equal(given, tuple_texts(rows, order, entity)))
        if same.true_count == len(same):
            return same
    answers: list[bool] = same.to_pylist()
    for row in pc.indices_nonzero(pc.invert(same)).to_pylist():
        answers[row] = is_same_key(given[row].as_py(), json.loads(canonical[row].as_py()))
    return pa.array(answers, pa.bool_())
