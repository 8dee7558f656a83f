"""`@default`: what a load or an insert leaves out is filled, and a null that it gives stays a null."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from omnigraph_core.errors import ErrorKind, OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings
from tests.support.records import edge, exported, node, nodes, write_jsonl

SCHEMA = """
node Task {
  name: String @key
  level: I32 @default(-1)
  mood: enum(good, bad)? @default(good)
  due: Date? @default("2024-01-31")
  note: String?
}
edge After: Task -> Task { weight: F32 @default(0.5) }
"""
FILLED = {"level": -1, "mood": "good", "due": 19753, "note": None}


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph.init(str(tmp_path / "g.omni"), SCHEMA, Settings(fsync=False, actor="ann"))


def tasks(graph: Graph) -> dict[str, dict[str, Any]]:
    return {name: {key: data.get(key) for key in FILLED} for name, data in nodes(graph, "Task").items()}


def weights(graph: Graph) -> list[float]:
    return [record["data"]["weight"] for record in exported(graph) if "edge" in record]


def test_json_lines(graph: Graph, tmp_path: Path) -> None:
    records = [
        node("Task", name="bare"),
        node("Task", name="null", mood=None, due=None),
        node("Task", name="full", level=3, mood="bad", due="2024-02-01", note="x"),
        {"edge": "After", "from": "bare", "to": "full"},
        edge("After", "null", "full", weight=2),
    ]
    graph.load([write_jsonl(tmp_path / "in.jsonl", records)], LoadMode.APPEND)
    assert tasks(graph) == {
        "bare": FILLED,
        "null": FILLED | {"mood": None, "due": None},
        "full": {"level": 3, "mood": "bad", "due": 19754, "note": "x"},
    }
    assert sorted(weights(graph)) == [0.5, 2.0]


def test_an_export_with_nulls_comes_back_as_it_was(graph: Graph, tmp_path: Path) -> None:
    records = [node("Task", name="bare"), node("Task", name="null", mood=None, due=None)]
    graph.load([write_jsonl(tmp_path / "in.jsonl", records)], LoadMode.APPEND)
    before = exported(graph)
    assert [record["data"]["mood"] for record in before] == ["good", None]
    graph.load([write_jsonl(tmp_path / "out.jsonl", before)], LoadMode.OVERWRITE)
    assert exported(graph) == before


def test_a_merge_replaces_records_whole(graph: Graph, tmp_path: Path) -> None:
    full = node("Task", name="t", level=3, mood="bad", due=None, note="x")
    for record in (full, node("Task", name="t")):
        graph.load([write_jsonl(tmp_path / "in.jsonl", [record])], LoadMode.MERGE)
    assert tasks(graph) == {"t": FILLED}


def test_csv_fills_columns_it_does_not_have(graph: Graph, tmp_path: Path) -> None:
    """An empty field is a null; also where a quoted line break makes the exact reader look."""
    (tmp_path / "Task.csv").write_text('name,mood\nbare,\n"line\nbreak",bad\n')
    graph.load([str(tmp_path / "Task.csv")], LoadMode.APPEND)
    assert tasks(graph) == {
        "bare": FILLED | {"mood": None},
        "line\nbreak": FILLED | {"mood": "bad"},
    }


def test_csv_refuses_only_what_it_gives(graph: Graph, tmp_path: Path) -> None:
    """A bad line sends its neighbours to the exact reader, which fills the same."""
    (tmp_path / "Task.csv").write_text("name,due\ngood,2024-02-01\nbad,tomorrow\n")
    graph.load([str(tmp_path / "Task.csv")], LoadMode.APPEND, rejects=str(tmp_path / "rejects"))
    assert tasks(graph) == {"good": FILLED | {"due": 19754}}


def test_parquet_fills_columns_it_does_not_have(graph: Graph, tmp_path: Path) -> None:
    days = pa.array([None, date(2024, 2, 1)], pa.date32())
    pq.write_table(pa.table({"name": ["null", "given"], "due": days}), tmp_path / "Task.parquet")
    graph.load([str(tmp_path / "Task.parquet")], LoadMode.APPEND)
    assert tasks(graph) == {"null": FILLED | {"due": None}, "given": FILLED | {"due": 19754}}


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_a_null_for_a_required_property_is_an_error_in_spite_of_its_default(
    form: str, graph: Graph, tmp_path: Path
) -> None:
    path = tmp_path / f"Task.{form}"
    if form == "jsonl":
        write_jsonl(path, [node("Task", name="t", level=None)])
    elif form == "csv":
        path.write_text("name,level\nt,\n")
    else:
        pq.write_table(pa.table({"name": ["t"], "level": pa.nulls(1, pa.int32())}), path)
    with pytest.raises(
        OmnigraphError, match=r"Task\.level: property is required, but has no value"
    ) as failed:
        graph.load([str(path)], LoadMode.APPEND)
    assert failed.value.kind is ErrorKind.BAD_DATA


def test_an_insert_fills_what_it_does_not_set(graph: Graph) -> None:
    graph.change(
        'query q() { insert Task { name: "bare" } insert Task { name: "full", level: 3, mood: "bad" } }'
    )
    graph.change('query q($m: String?) { insert Task { name: "null", mood: $m } }', params={"m": None})
    graph.change('query q() { insert After { from: "bare", to: "full" } }')
    assert tasks(graph) == {
        "bare": FILLED,
        "full": FILLED | {"level": 3, "mood": "bad"},
        "null": FILLED | {"mood": None},
    }
    assert weights(graph) == [0.5]
    with pytest.raises(OmnigraphError, match="level"):
        graph.change('query q($l: I32?) { insert Task { name: "no", level: $l } }', params={"l": None})


def test_a_key_may_have_a_default(tmp_path: Path) -> None:
    schema = 'node Day { day: Date @default("2024-01-31")\n n: I32\n @key(day, n) }'
    graph = Graph.init(str(tmp_path / "g.omni"), schema, Settings(fsync=False, actor="ann"))
    graph.load([write_jsonl(tmp_path / "in.jsonl", [node("Day", n=1)])], LoadMode.APPEND)
    graph.change("query q() { insert Day { n: 2 } }")
    assert sorted(nodes(graph, "Day")) == ['["19753","1"]', '["19753","2"]']
