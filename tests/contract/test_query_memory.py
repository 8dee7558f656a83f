"""Reads of tables that are larger than the memory they are given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.read.session.budget import TooManyRows
from omnigraph_core.settings import Settings

ROWS = 40_000
TEXT_BYTES = 3_072
LIMIT = 32 << 20

# What a scan of Lance and an allocator that gives nothing back take, whatever the size of the table.
OVERHEAD_MIB = 250

MEASURED = """
import re, sys
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
graph = Graph.open(sys.argv[1], Settings(memory_limit_bytes=int(sys.argv[2])))
result = graph.query(sys.argv[3])
rows = [sum(batch.num_rows for batch in result.to_batches()) for _ in range(2)]
assert rows == [result.row_count] * 2, rows
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
print(result.row_count, int(peak) // 1024)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 MiB of texts that are all different, in no order."""
    place = tmp_path_factory.mktemp("large")
    random = np.random.default_rng(1)
    heads = random.permutation(ROWS)
    tail = "x" * (TEXT_BYTES - 7)
    table = {
        "k": [f"n{number:06d}" for number in random.permutation(ROWS)],
        "s": [f"{number:07d}{tail}" for number in heads],
        "i": pa.array(heads % 10, pa.int64()),
    }
    pq.write_table(pa.table(table), place / "T.parquet", compression="zstd")
    graph = Graph.init(
        str(place / "g"), "node T { k: String @key s: String i: I64 }", Settings(fsync=False, actor="t")
    )
    graph.load([str(place / "T.parquet")], LoadMode.APPEND)
    return place / "g"


def measured(graph: Path, body: str, limit: int = LIMIT) -> tuple[int, int]:
    """Rows of the answer, and the most memory the process ever had, in MiB."""
    command = [sys.executable, "-c", MEASURED, str(graph), str(limit), f"query q() {{ {body} }}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows, peak = map(int, done.stdout.split())
    return rows, peak


def test_a_table_larger_than_memory_is_sorted_and_grouped(large: Path) -> None:
    _, small = measured(large, 'match { $t: T { k: "n000001" } } return { $t.i }')
    for body, rows in (
        ("match { $t: T } return { $t.i, $t.s as s } order { s desc }", ROWS),
        ("match { $t: T } return { $t.s, count($t) as n, max($t.i) as i } order { i }", ROWS),
    ):
        found, peak = measured(large, body)
        assert found == rows
        assert peak - small < OVERHEAD_MIB, body


def test_the_order_of_rows_on_disk_is_that_of_rows_in_memory(large: Path) -> None:
    """The same answers, row by row, with and without room for them."""
    for body in (
        "match { $t: T $t.i < 3 } return { $t.k as k } order { $t.i desc, $t.s }",
        "match { $t: T $t.i < 3 } return { $t.s as s, count($t) as n, sum($t.i) as i } order { i desc }",
        "match { $t: T $t.i < 3 } return { $t.k as k, $t.s }",
    ):
        answers = []
        for limit in (8 << 20, 4 << 30):
            graph = Graph.open(str(large), Settings(memory_limit_bytes=limit))
            result = graph.query(f"query q() {{ {body} }}")
            assert any(step.note == "on disk" for step in result.steps) == (limit < 4 << 30)
            answers.append(result.to_arrow())
        assert answers[0].num_rows == ROWS * 3 // 10
        assert answers[0].equals(answers[1])


def test_what_cannot_be_bounded_is_refused(large: Path) -> None:
    graph = Graph.open(str(large), Settings(memory_limit_bytes=2 << 20))
    with pytest.raises(TooManyRows):
        graph.query("query q() { match { $a: T $b: T $a.i = $b.i } return { $a.k, $b.k } }")
