"""Several reads of one process: what is kept between them never shows in an answer."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings, TraversalMode
from tests.support.records import edge, node, write_jsonl

SCHEMA = "node P { k: String @key i: I32? } edge Knows: P -> P"
REACH = 'query q() { match { $a: P { k: "n0" } $a knows{1,2} $b } return { $b.k as k } }'
ALONE = "query q() { match { $a: P not { $a knows $_ } } return { $a.k as k } }"


def made(place: Path, records: list[dict[str, Any]], mode: TraversalMode | None = None) -> Graph:
    settings = Settings(fsync=False, actor="tester", traversal_mode=mode)
    graph = Graph.init(str(place / "g"), SCHEMA, settings)
    graph.load([write_jsonl(place / "data.jsonl", records)], LoadMode.APPEND)
    return graph


def texts(graph: Graph, query: str, **more: Any) -> list[str]:
    return [row["k"] for row in graph.query(query, **more).to_pylist()]


@pytest.mark.parametrize("mode", [None, TraversalMode.CSR])
def test_a_read_after_a_write_sees_it(tmp_path: Path, mode: TraversalMode | None) -> None:
    graph = made(tmp_path, [node("P", k=f"n{n}") for n in range(4)], mode)
    assert texts(graph, REACH) == []
    for number in range(3):
        graph.change(f'query q() {{ insert Knows {{ from: "n{number}", to: "n{number + 1}" }} }}')
        assert texts(graph, ALONE) == [f"n{n}" for n in range(number + 1, 4)]
    assert texts(graph, REACH) == ["n1", "n2"]
    graph.change('query q() { delete P where k = "n1" }')
    assert texts(graph, REACH) == []
    assert texts(graph, ALONE) == ["n0", "n3"]


def test_a_branch_of_a_used_name_is_another_one(tmp_path: Path) -> None:
    """Its tables have the same names and versions as those of the branch that is gone."""
    graph = made(tmp_path, [node("P", k=f"n{n}") for n in range(3)], TraversalMode.CSR)
    for target in ("n1", "n2"):
        graph.create_branch("b")
        graph.change(f'query q() {{ insert Knows {{ from: "n0", to: "{target}" }} }}', branch="b")
        assert texts(graph, REACH, branch="b") == [target]
        assert texts(graph, REACH) == []
        graph.delete_branch("b")


def test_many_look_ups_become_one_reading_of_all(tmp_path: Path) -> None:
    chance = random.Random(1)
    records = [node("P", k=f"n{n}") for n in range(40)]
    records += [edge("Knows", f"n{chance.randrange(40)}", f"n{chance.randrange(40)}") for _ in range(60)]
    graph = made(tmp_path, records)
    found = [graph.query(REACH) for _ in range(40)]
    notes = [[step.note for step in each.steps if step.step.startswith("expand")] for each in found]
    assert notes[0] == ["indexed"]
    assert notes[-1] == ["csr"]
    assert len({json.dumps(each.to_pylist()) for each in found}) == 1


def test_an_answer_a_batch_at_a_time(tmp_path: Path) -> None:
    graph = made(tmp_path, [node("P", k=f"n{n}", i=n % 3) for n in range(50)])
    for query, rows in (
        ("query q() { match { $a: P } return { $a.k as k, $a.i as i } }", 50),
        ("query q() { match { $a: P } return { $a.k as k } order { $a.i } limit 4 }", 4),
        ("query q() { match { $a: P } return { $a.i as i, count($a) as n } }", 3),
        ("query q() { match { $a: P $a.i = 9 } return { $a.k as k, $a.i as i } }", 0),
        (
            "query q() { match { $a: P $b: P $a.i = $b.i } return { $a.k as a, $b.k as b } }",
            17**2 * 2 + 16**2,
        ),
        ('query q() { match { $a: P { k: "n7" } } return { $a.i as i } }', 1),
    ):
        result = graph.query(query)
        assert result.row_count == rows
        batches = list(result.to_batches())
        assert pa.Table.from_batches(batches, result.schema) == result.to_arrow()
        assert pa.Table.from_batches(result.to_batches(), result.schema) == result.to_arrow()
