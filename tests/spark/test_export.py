"""`export --spark`: what executors write is what an export would; all of it, or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from omnigraph_core.errors import RefusedError, StorageError, UsageError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.schema.files import Format
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.spark import worker
from omnigraph_core.spark.export import MANIFEST, SUCCESS, export_with_spark
from omnigraph_core.spark.options import SparkOptions
from omnigraph_core.storage import open_storage, parse_location
from tests.support.records import edge, exported, node, write_jsonl
from tests.support.s3server import S3Server

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("in_process")]

SCHEMA = """
node P { k: String @key n: I32? at: DateTime? pic: Blob? tags: [String]? }
node Empty { name: String }
edge P: P -> P { w: F64? }
"""
HERE = SparkOptions()


@pytest.fixture
def graph(new_graph: Callable[[str, str], Graph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """Of P three fragments, which are three parts."""
    monkeypatch.setattr(worker, "ROWS_PER_FRAGMENT", 3)
    made = new_graph("graph", SCHEMA)
    for number in range(3):
        people = [
            node("P", k=f"p{each}", n=each, pic="base64:aGk=", at="2024-01-01T00:00:00.5Z", tags=["a\nb", ""])
            for each in range(number * 4, number * 4 + 4)
        ]
        start = write_jsonl(tmp_path / f"{number}.jsonl", [*people, edge("P", "p0", f"p{number * 4}", w=0.1)])
        made.load([start], LoadMode.APPEND)
    return made


def files(place: Path) -> list[str]:
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())


@pytest.mark.parametrize("format_", list(Format))
def test_loading_it_gives_the_same_graph(
    format_: Format, graph: Graph, new_graph: Callable[[str, str], Graph], tmp_path: Path
) -> None:
    """A first attempt that dies after writing leaves no file of its own."""
    graph.settings = replace(graph.settings, failpoints="spark.exported.1.0=error")
    out = tmp_path / "out"
    done = export_with_spark(graph, graph.at(), str(out), format_, HERE)
    assert done.counts == {"edge:P": 3, "node:Empty": 0, "node:P": 12}
    manifest = json.loads((out / MANIFEST).read_text())
    assert {each["table_key"]: each["rows"] for each in manifest["types"]} == done.counts
    assert manifest["commit"] == graph.commit("main").commit_id
    assert files(out) == sorted([MANIFEST, SUCCESS, *(each["path"] for each in manifest["files"])])
    assert [path.name for path in tmp_path.glob(".out*")] == []
    copy = new_graph("copy", SCHEMA)
    for key in ("node:P", "node:Empty", "edge:P"):
        mine = [str(out / each["path"]) for each in manifest["files"] if each["table_key"] == key]
        assert len(mine) == {"node:P": 3, "node:Empty": int(format_ is not Format.JSONL), "edge:P": 1}[key]
        if mine:
            name = None if format_ is Format.JSONL else key
            copy.load(mine, LoadMode.APPEND, type=name)
    assert exported(copy) == exported(graph)


def test_a_state_of_the_past_and_some_types(graph: Graph, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    out.mkdir(parents=True)
    done = export_with_spark(graph, graph.at("main~1"), str(out), Format.CSV, HERE, types=["Empty"])
    assert done.counts == {"node:Empty": 0}
    assert {path.split("/")[0] for path in files(out)} == {MANIFEST, SUCCESS, "Empty"}


def test_one_that_fails_leaves_nothing(graph: Graph, tmp_path: Path) -> None:
    points = ",".join(f"spark.exported.2.{attempt}=error" for attempt in range(3))
    graph.settings = replace(graph.settings, failpoints=points)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(StorageError, match=r"injected fault at spark\.exported\.2"):
        export_with_spark(graph, graph.at(), str(tmp_path / "out"), Format.PARQUET, HERE)
    assert sorted(tmp_path.iterdir()) == before


def test_places_that_are_refused(graph: Graph, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("x")
    for out, message in (
        (full, "is not empty"),
        (full / "mine", "is a file"),
        (graph.location.path / "x", "inside"),
    ):
        with pytest.raises(UsageError, match=message):
            export_with_spark(graph, graph.at(), str(out), Format.CSV, HERE)
    with pytest.raises(RefusedError, match="on this machine's disk"):
        export_with_spark(graph, graph.at(), str(full), Format.CSV, SparkOptions("spark://far:7077"))
    assert (full / "mine").read_text() == "x"


def test_a_graph_and_an_output_on_s3(s3_server: S3Server, settings: Settings, tmp_path: Path) -> None:
    settings = replace(settings, s3=load_settings(s3_server.environment, tmp_path).s3)
    place = s3_server.new_location()
    graph = Graph.init(place, SCHEMA, settings)
    graph.load([write_jsonl(tmp_path / "in.jsonl", [node("P", k="a"), node("P", k="b")])], LoadMode.APPEND)
    out = f"{place.rpartition('/')[0]}/out"
    storage = open_storage(parse_location(out, tmp_path), settings)
    graph.settings = replace(
        settings, failpoints=",".join(f"spark.exported.0.{each}=error" for each in range(3))
    )
    with pytest.raises(StorageError):
        export_with_spark(graph, graph.at(), out, Format.JSONL, HERE, types=["P"])
    assert storage.control.is_empty()
    graph.settings = settings
    assert export_with_spark(graph, graph.at(), out, Format.JSONL, HERE, types=["P"]).counts == {
        "edge:P": 0,
        "node:P": 2,
    }
    assert set(storage.control.entries()) == {MANIFEST, SUCCESS, "node-P"}
    with pytest.raises(UsageError, match="is not empty"):
        export_with_spark(graph, graph.at(), out, Format.JSONL, HERE)
