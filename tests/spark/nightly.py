"""The raw files of the example, and what the graph has of them afterwards."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph_core.graph import Graph
from tests.support.processes import REPOSITORY
from tests.support.records import edges, nodes

EXAMPLE = REPOSITORY / "examples" / "pipeline.py"
SCHEMA = EXAMPLE.read_text().split('SCHEMA = """')[1].split('"""')[0]


def make_raw(folder: Path) -> None:
    for name, content in {
        "people": {
            "email": ["Ann@X", " ann@x", "bob@x", "nonsense"],
            "name": ["Ann", "Ann again", " Bob ", "?"],
            "born": pa.array([1990, 1991, None, 1], pa.int64()),
        },
        "follows": {"who": ["ANN@x", "bob@x", "bob@x"], "whom": ["bob@x", "bob@x", "gone@x"]},
    }.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(pa.table(content), folder / name / "0.parquet")


def check_example(graph: Graph) -> None:
    assert sorted(nodes(graph, "Person")) == ["ann@x", "bob@x"]
    assert edges(graph, "Follows") == [("ann@x", "bob@x")]
    assert list(graph.branches()) == ["main"]
