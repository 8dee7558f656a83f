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
from omnigraph_core.read.answer.result import QueryResult
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


# ---- matches of several steps ----

RAYS = 25_000
LONG = 40_000

NODES = 600
EDGES_EACH = 3

MATCHES = [
    "match { $a: N $a e $b $b e $c } return { $a.k, $b.i as i, $c.k as k } order { i desc, k }",
    "match { $a: N $a e $b $b e $c } return { $c.s as s, count($a) as n, sum($b.i) as i } order { n desc }",
    "match { $a: N $a $w:e $b $c $v:e $b $w.w < $v.w } return { $a.k, $w.w, $c.k }",
    "match { $a: N $a e $b $b e $c $b.i < $c.i } return { $a.k as a, $c.s as s } order { s, a } limit 700",
    "match { $a: N $a e{1,3} $b } return { $a.k, $b.k }",
    "match { $a: N $a e $b $b e $c } return { $a.k as a, $c.k as c } order { c, a } limit 1200",
    "match { $a: N $b: N $a.i = $b.i $a.s = $b.s } return { $a.k, $b.k }",
    "match { $a: N $a.i < 9 $a e $b not { $b e $c $c <e> $d $d.i = $a.i } } return { $a.k, $b.k }",
    "match { $a: N $a.i < 9 $a e $_ $c: N $c.i = $a.i not { $c e $a } } return { count($a) as n, avg($c.i) }",
]


@pytest.fixture(scope="module", params=["without an index", "with an index"])
def web(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Some thousand edges, so that two steps lead to more rows than a small memory has room for."""
    place = tmp_path_factory.mktemp("web")
    return made_web(place, NODES, is_indexed=request.param == "with an index")


def made_web(place: Path, nodes: int, *, is_indexed: bool) -> Path:
    random = np.random.default_rng(2)
    names = pa.array([f"n{number:06d}" for number in range(nodes)])
    table = {
        "k": names,
        "i": random.integers(0, 24, nodes),
        "s": [f"s{number % 25}" for number in range(nodes)],
    }
    pq.write_table(pa.table(table), place / "N.parquet")
    ends = random.integers(0, nodes, (2, nodes * EDGES_EACH))
    weights = random.integers(0, 9, nodes * EDGES_EACH)
    edges = {"from": names.take(pa.array(ends[0])), "to": names.take(pa.array(ends[1])), "w": weights}
    pq.write_table(pa.table(edges), place / "E.parquet")
    schema = "node N { k: String @key s: String i: I64 } edge E: N -> N { w: I64 }"
    graph = Graph.init(str(place / "g"), schema, Settings(fsync=False, actor="t"))
    graph.load([str(place / "N.parquet"), str(place / "E.parquet")], LoadMode.APPEND)
    if is_indexed:
        graph.build_topology()
    return place / "g"


def is_in_parts(result: QueryResult) -> bool:
    return any(step.step == "match in parts" for step in result.steps)


def agree_in_parts(web: Path, bodies: list[str]) -> None:
    """Row by row, whatever they are ordered, grouped or cut by."""
    for body in bodies:
        answers = []
        for limit in (128 << 10, 4 << 30):
            result = Graph.open(str(web), Settings(memory_limit_bytes=limit)).query(f"query q() {{ {body} }}")
            assert is_in_parts(result) == (limit < 4 << 30), body
            answers.append(result.to_arrow())
        assert answers[0].num_rows
        assert answers[0].equals(answers[1]), body


def test_a_match_larger_than_memory_gives_the_same_answer_in_parts(web: Path) -> None:
    """Half of the matches without an index, and half with one."""
    is_indexed = (web / "__topology").exists()
    agree_in_parts(web, MATCHES[is_indexed::2])


@pytest.mark.soak
def test_every_match_larger_than_memory_gives_the_same_answer_in_parts(web: Path) -> None:
    agree_in_parts(web, MATCHES)


def test_the_neighbours_of_one_node_must_fit(web: Path) -> None:
    """What comes of a single row cannot be divided."""
    graph = Graph.open(str(web), Settings(memory_limit_bytes=80))
    with pytest.raises(TooManyRows):
        graph.query("query q() { match { $a: N $a e $b } return { $a.k, $b.k } }")


def test_a_product_must_fit(web: Path) -> None:
    """Two bindings that nothing connects are a mistake more often than not, and would take for ever."""
    graph = Graph.open(str(web), Settings(memory_limit_bytes=1 << 20))
    with pytest.raises(TooManyRows):
        graph.query("query q() { match { $a: N $b: N } return { count($a) as n } }")


@pytest.fixture(scope="module")
def star(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One node with a long text, and many neighbours."""
    place = tmp_path_factory.mktemp("star")
    schema = "node N { k: String @key s: String? l: [String]? } edge E: N -> N"
    graph = Graph.init(str(place / "g"), schema, Settings(fsync=False, actor="t"))
    names = [f"n{number:05}" for number in range(RAYS)]
    nodes = {
        "k": ["hub", *names],
        "s": ["x" * LONG, *["y"] * RAYS],
        "l": [["x" * (LONG // 8)] * 8, *[["y"]] * RAYS],
    }
    edges = {"from": ["hub"] * RAYS, "to": names}
    graph.load({"N": pa.table(nodes), "E": pa.table(edges)}, LoadMode.APPEND)
    return place / "g"


def test_a_long_text_in_many_rows_takes_little_memory(star: Path) -> None:
    """It is in memory once, and is written out for some rows at a time; all of them would be a gigabyte."""
    hub = 'match { $a: N { k: "hub" } $a e $b'
    _, small = measured(star, f"{hub} }} return {{ $b.k }} limit 1")
    for body, rows in (
        (f"{hub} }} return {{ $a.s, $b.k }}", RAYS),
        (f"{hub} }} return {{ $a.l, $b.k as k }} order {{ k desc }}", RAYS),
        (f"{hub} }} return {{ max($a.s) as m, min($b.s) as n, count($a.s) as c }}", 1),
        (f"{hub} $a.s != $b.s }} return {{ $b.k }}", RAYS),
        (f"{hub} $c: N $c.s = $a.s }} return {{ $c.k, count($b) as n }}", 1),
    ):
        found, peak = measured(star, body)
        assert found == rows, body
        assert peak - small < OVERHEAD_MIB, body


def test_a_long_text_of_the_query_in_many_rows_takes_little_memory(star: Path) -> None:
    text = "z" * LONG
    _, small = measured(star, "match { $a: N } return { $a.k } limit 1")
    for body, rows in (
        (f'match {{ $a: N }} return {{ $a.k, "{text}" as t }}', RAYS + 1),
        (f'match {{ $a: N }} return {{ max("{text}") as t, count($a) as n }}', 1),
        (f'match {{ $a: N $a e $b }} return {{ $b.k, "{text}" as t }}', RAYS),
        (f'match {{ $a: N $a e $b }} return {{ max("{text}") as t, count("{text}") as n }}', 1),
    ):
        found, peak = measured(star, body)
        assert found == rows, body[:80]
        assert peak - small < OVERHEAD_MIB, body[:80]


@pytest.mark.soak
def test_memory_does_not_grow_with_the_rows_of_a_match(tmp_path: Path) -> None:
    place = made_web(tmp_path, 60_000, is_indexed=True)
    body = "match { $a: N $a e $b $b e $c $c e $d } return { $a.k, $b.i, $c.s, $d.k as k } order { k }"
    few, small = measured(place, 'match { $a: N { k: "n000001" } $a e $b } return { $b.k }')
    rows, tight = measured(place, body)
    assert rows == measured(place, body, 8 << 30)[0] > few
    assert tight - small < OVERHEAD_MIB
