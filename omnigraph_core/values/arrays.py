"""Small questions about Arrow arrays that every floor asks."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def whole(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    """One array without chunks."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def any_true(mask: pa.Array | pa.ChunkedArray) -> bool:
    """Is it true anywhere? Null is not."""
    return bool(pc.any(mask).as_py())
