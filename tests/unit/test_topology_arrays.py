"""Arithmetic on codes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from omnigraph_core.topology.arrays import in_arrow


@pytest.mark.parametrize(
    "numbers",
    [
        np.array([3, -1, 7], np.int64),
        np.arange(20, dtype=np.int64)[::-3],
        np.array([1, 2], np.int32),
        np.array([1, 2**64 - 1], np.uint64),
        np.zeros(0, np.int64),
        np.arange(19) % 3 == 0,
        np.zeros(0, np.bool_),
    ],
    ids=lambda numbers: f"{numbers.dtype}-{len(numbers)}",
)
def test_in_arrow_is_what_arrow_makes_itself(numbers: np.ndarray) -> None:
    found = in_arrow(numbers)
    found.validate(full=True)
    assert found.equals(pa.array(numbers))
