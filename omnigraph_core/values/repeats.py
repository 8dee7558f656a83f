"""Texts that occur more than once in a column, and which of them count."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.values.hashes import text_hashes

# From here on hashes are worth their preparation.
_TEXTS_TO_HASH = 50_000


def repeats(texts: pa.Array) -> pa.Array:
    """Indexes of all rows but the first that hold a text; nulls are exempt."""
    if _all_differ(texts):
        return pa.array([], pa.int64())
    codes = pc.dictionary_encode(texts).indices
    valid = np.flatnonzero(pc.is_valid(codes).to_numpy(zero_copy_only=False))
    _, first = np.unique(codes.drop_null().to_numpy(), return_index=True)
    return pa.array(np.delete(valid, first), pa.int64())


def _all_differ(texts: pa.Array) -> bool:
    """Are all texts certainly different? Large numbers are compared by hash, which is faster."""
    valid = texts.drop_null()
    if len(valid) < _TEXTS_TO_HASH:
        return bool(pc.count_distinct(valid).as_py() == len(valid))
    hashes = np.sort(text_hashes(valid))
    return not bool((hashes[1:] == hashes[:-1]).any())


def last_of_each(ids: pa.Array, among: pa.Array | None = None) -> pa.Array | None:
    """Which rows (`among` these) stay if the last of equal ids wins; None means all."""
    chosen = ids if among is None else ids.filter(among)
    if not len(repeats(chosen)):
        return among
    codes = pc.dictionary_encode(chosen).indices.to_numpy()
    _, from_end = np.unique(codes[::-1], return_index=True)
    last = len(codes) - 1 - from_end
    places = np.arange(len(ids)) if among is None else np.flatnonzero(among.to_numpy(zero_copy_only=False))
    stays = np.zeros(len(ids), np.bool_)
    stays[places[last]] = True
    return pa.array(stays)
