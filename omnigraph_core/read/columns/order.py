"""The order of rows: keys as numbers, then one sort.

Ascending, null comes first; descending, last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.topology.arrays import distinct, in_arrow
from omnigraph_core.values.arrays import whole

if TYPE_CHECKING:
    import numpy.typing as npt

    from omnigraph_core.topology.arrays import IntArray


def sort_keys(values: pa.Array, *, descending: bool) -> list[npt.NDArray[Any]]:
    """Arrays to sort ascending by, the first one first, that order rows as the values do."""
    kind = values.type
    if pa.types.is_temporal(kind):
        values = values.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        ranks = text_ranks(values)
        return [-ranks if descending else ranks]
    numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    if numbers.dtype.kind == "f":
        numbers = -numbers if descending else numbers
    elif descending:
        numbers = ~numbers
    if not values.null_count:
        return [numbers]
    known = pc.is_valid(values).to_numpy(zero_copy_only=False).astype(np.int8)
    return [-known if descending else known, numbers]


def text_ranks(values: pa.Array) -> IntArray:
    """A number for each value, ordered like them: 0 for null, texts by code point, false before true."""
    encoded = values.cast(pa.utf8()).dictionary_encode()
    words = whole(encoded.dictionary)
    places = np.zeros(len(words) + 1, np.int64)
    order = pc.sort_indices(words)
    places[1:][order.to_numpy(zero_copy_only=False)] = np.arange(1, len(words) + 1)
    indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    ranks: IntArray = places[indices + 1]
    return ranks


def sorted_positions(keys: Sequence[npt.NDArray[Any]], count: int, limit: int | None) -> IntArray:
    """The rows in order, cut to the limit. Without any key they stay as they are."""
    if limit is not None and limit < count:
        if not limit:
            return np.zeros(0, np.int64)
        if keys and limit * 4 < count:
            worst = np.partition(keys[0], limit - 1)[limit - 1]
            candidates = np.flatnonzero(keys[0] <= worst)
            if len(candidates) < count:
                among = sorted_positions([key[candidates] for key in keys], len(candidates), limit)
                return candidates[among].astype(np.int64)
    if not keys:
        positions = np.arange(count, dtype=np.int64)
    else:
        positions = np.lexsort(list(reversed(keys))).astype(np.int64)
    return positions if limit is None else positions[:limit]


def is_ascending(texts: pa.Array) -> bool:
    """Is every text greater than the one before it?"""
    return len(texts) < 2 or bool(pc.all(pc.less(texts.slice(0, len(texts) - 1), texts.slice(1))).as_py())


def unique_text_ranks(texts: pa.Array) -> IntArray:
    """A number for each text, ordered like them, which are all different."""
    if is_ascending(texts):
        return np.arange(len(texts), dtype=np.int64)
    ranks = np.empty(len(texts), np.int64)
    ranks[pc.sort_indices(texts).to_numpy()] = np.arange(len(texts))
    return ranks


def id_ranks(ids: pa.Array, codes: IntArray) -> IntArray:
    """A number for each of the codes, ordered like their ids, which are all different."""
    if len(codes) * 4 > len(ids) and is_ascending(ids):
        return codes
    present, places = distinct(codes, len(ids))
    return unique_text_ranks(ids.take(in_arrow(present)))[places]
