"""How many of the true nearest `nearest` finds: all, and most where it asks only a part of an index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.read.search import narrowing
from omnigraph_core.settings import Settings

Numbers = npt.NDArray[Any]

ROWS = 120_000
DIMENSION = 32
QUERIES = 40


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_recall_of_nearest_by_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    filters = {"": np.arange(ROWS), "$d.i >= 2": np.flatnonzero(groups >= 2)}
    for where, chosen in filters.items():
        wanted = vectors[random.integers(0, ROWS, QUERIES)] + np.float32(0.1)
        exact = _recall(graph, where, vectors, chosen, wanted)
        with monkeypatch.context() as patched:
            patched.setattr(narrowing, "VECTOR_BYTES_MAX", 0)
            near = _recall(graph, where, vectors, chosen, wanted)
        assert exact == 1, where
        assert near > 0.9, where


def _recall(graph: Graph, where: str, vectors: Numbers, chosen: Numbers, wanted: Numbers) -> float:
    query = (
        f"query q($v: Vector({DIMENSION})) {{ match {{ $d: Doc {where} }} "
        "return { $d.k as k } order { nearest($d.v, $v) } limit 10 }"
    )
    hits = 0
    for each in wanted:
        found = graph.query(query, params={"v": each.tolist()}).to_pylist()
        distances = np.linalg.norm(vectors[chosen] - each, axis=1)
        nearest = {f"d{chosen[place]:06d}" for place in np.argsort(distances)[:10]}
        assert len(found) == 10
        hits += len(nearest & {row["k"] for row in found})
    return hits / (10 * len(wanted))
