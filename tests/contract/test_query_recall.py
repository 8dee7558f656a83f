"""`nearest` by its index, which is not exact: how many of the true nearest it finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings

ROWS = 120_000
DIMENSION = 32
QUERIES = 40


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_recall_of_nearest_by_index(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    centres = random.normal(size=(200, DIMENSION)) * 3
    vectors = (centres[random.integers(0, 200, ROWS)] + random.normal(size=(ROWS, DIMENSION))).astype(
        np.float32
    )
    groups = random.integers(0, 20, ROWS)
    table = pa.table(
        {
            "k": [f"d{number:06d}" for number in range(ROWS)],
            "i": pa.array(groups, pa.int32()),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIMENSION),
        }
    )
    pq.write_table(table, tmp_path / "Doc.parquet")
    schema = f"node Doc {{ k: String @key i: I32 v: Vector({DIMENSION}) @index }}"
    graph = Graph.init(str(tmp_path / "g"), schema, Settings(fsync=False, actor="tester"))
    graph.load([str(tmp_path / "Doc.parquet")], LoadMode.APPEND)
    for where, chosen in (("", np.arange(ROWS)), ("$d.i >= 2", np.flatnonzero(groups >= 2))):
        query = (
            f"query q($v: Vector({DIMENSION})) {{ match {{ $d: Doc {where} }} "
            "return { $d.k as k } order { nearest($d.v, $v) } limit 10 }"
        )
        hits = 0
        for wanted in vectors[random.integers(0, ROWS, QUERIES)] + 0.1:
            found = graph.query(query, params={"v": wanted.tolist()}).to_pylist()
            distances = np.linalg.norm(vectors[chosen] - wanted, axis=1)
            nearest = {f"d{chosen[place]:06d}" for place in np.argsort(distances)[:10]}
            assert len(found) == 10
            hits += len(nearest & {row["k"] for row in found})
        assert hits / (10 * QUERIES) > 0.9, where
