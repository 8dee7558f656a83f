"""Searching texts and vectors of one table with Lance.

An index must never change an answer. So fragments that a full-text index does not
cover are not left to Lance, whose search without an index neither stems nor folds;
`tables/words.py` knows the words of their texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.indexes import (
    PARTITIONS_MAX,
    IndexKind,
    IndexSpec,
    find_index,
    uncovered_fragments,
)

if TYPE_CHECKING:
    import pyarrow as pa

# A partition of about the square root of the rows each; so many of them are looked into.
_PROBED_PARTITIONS = 64


def text_coverage(table: Table, column: str) -> tuple[bool, list[int]]:
    """Does the full-text index of a column cover anything, and which fragments does it not cover?"""
    built = find_index(table, IndexSpec(column, IndexKind.FULL_TEXT))
    uncovered = uncovered_fragments(table, built)
    return len(uncovered) < len(table.fragment_rows()), uncovered


def has_vector_index(table: Table, column: str) -> bool:
    return find_index(table, IndexSpec(column, IndexKind.VECTOR)) is not None


def search_indexed(table: Table, column: str, text: str, where: str | None) -> pa.Array:
    """The ids of rows in covered fragments that have any of the words, among those that pass a filter."""
    from lance.query import MatchQuery

    with lance_failures(table.ref, "searching"):
        found = table.lance.scanner(
            columns=["id", "_score"],
            full_text_query=MatchQuery(text, column),
            filter=where,
            prefilter=True,
            fast_search=True,
        ).to_table()
    return found.column("id").combine_chunks()


def nearest_ids(
    table: Table, column: str, vector: Sequence[float], count: int, where: str | None
) -> pa.Array:
    """The ids of about the nearest vectors among the rows that pass a filter, by its index."""
    found = _nearest(table, column, vector, count, where, _PROBED_PARTITIONS, ["id"])
    return found.column("id").combine_chunks()


def nearest_rows(
    table: Table, column: str, vector: Sequence[float], count: int, where: str | None
) -> pa.Table:
    """The nearest vectors among the rows that pass a filter, with ids and squares of distances.

    All partitions of the index are looked into, and the rows it does not cover.
    """
    return _nearest(table, column, vector, count, where, PARTITIONS_MAX, ["id", column])


def _nearest(
    table: Table,
    column: str,
    vector: Sequence[float],
    count: int,
    where: str | None,
    partitions: int,
    columns: list[str],
) -> pa.Table:
    import numpy as np

    query: dict[str, Any] = {
        "column": column,
        "q": np.asarray(vector, np.float32),
        "k": count,
        "metric": "l2",
        "nprobes": partitions,
    }
    with lance_failures(table.ref, "searching"):
        return table.lance.scanner(
            columns=[*columns, "_distance"], nearest=query, filter=where, prefilter=True
        ).to_table()
