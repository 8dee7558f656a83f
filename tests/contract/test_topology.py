"""The topology index: built by commands, used by readers, and never believed when it is not whole."""

from __future__ import annotations

import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from omnigraph_core import faults
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings, TraversalMode
from omnigraph_core.topology.format import NotTopology, decoded, encoded, is_sound
from omnigraph_core.topology.node_numbers import NodeNumbers

SCHEMA = "node P { k: String @key i: I32? } edge K: P -> P { w: I32? }"
HOPS = 'query q() { match { $a: P { k: "n0" } $a k{1,3} $b } return { $b.k as b, $b.i as i } order { b } }'
EDGES = "query q() { match { $a: P $a $w:k $b $w.w > 1 } return { $a.k as a, $b.k as b, $w.w as w } }"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with an index, and a few changes since it was built."""
    place = tmp_path_factory.mktemp("topology")
    graph = Graph.init(str(place / "g"), SCHEMA, Settings(fsync=False, actor="t", working_directory=place))
    records: list[dict[str, Any]] = [{"type": "P", "data": {"k": f"n{n}", "i": n}} for n in range(40)]
    records += [
        {"edge": "K", "from": f"n{n}", "to": f"n{(n * 7 + 1) % 40}", "data": {"id": f"e{n}", "w": n % 4}}
        for n in range(40)
    ]
    _load(graph, records)
    assert [each.is_new for each in graph.build_topology()] == [True]
    _load(graph, [{"edge": "K", "from": "n0", "to": "n9", "data": {"id": "more", "w": 3}}])
    return place


def _load(graph: Graph, records: list[dict[str, Any]]) -> None:
    file = graph.settings.working_directory / "data.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
    graph.load([str(file)], LoadMode.APPEND)


@pytest.fixture
def graph(prepared: Path, tmp_path: Path) -> Graph:
    shutil.copytree(prepared / "g", tmp_path / "g")
    return Graph.open(str(tmp_path / "g"), Settings(fsync=False, actor="t", working_directory=tmp_path))


def answers(graph: Graph, mode: TraversalMode | None = None) -> tuple[list[list[dict[str, Any]]], bool]:
    """What the queries say in a process that knows nothing yet, and whether the index was used."""
    opened = Graph.open(graph.location.uri, replace(graph.settings, traversal_mode=mode))
    results = [opened.query(source) for source in (HOPS, EDGES)]
    used = any(step.note == "topology" for result in results for step in result.steps)
    return [result.to_pylist() for result in results], used


def parts(graph: Graph, kind: str) -> list[Path]:
    return sorted((graph.location.path / "__topology").glob(f"*.{kind}"))


def test_it_is_used_and_says_what_the_edges_say(graph: Graph) -> None:
    expected, _ = answers(graph, TraversalMode.INDEXED)
    assert answers(graph) == (expected, True)
    assert expected[0]


def test_edges_that_came_and_went_are_told_apart(graph: Graph) -> None:
    graph.change("query q() { delete K where w = 1 }")
    _load(graph, [{"edge": "K", "from": "n1", "to": "n30", "data": {"id": "to 30", "w": 3}}])
    expected, _ = answers(graph, TraversalMode.INDEXED)
    assert answers(graph) == (expected, True)
    assert {"b": "n30", "i": 30} in expected[0]
    assert {"b": "n8", "i": 8} not in expected[0]


def test_nodes_that_came_and_went_are_told_apart(graph: Graph) -> None:
    graph.change('query q() { delete P where k = "n8" }')
    _load(graph, [{"type": "P", "data": {"k": "new", "i": 99}}])
    _load(graph, [{"edge": "K", "from": "n0", "to": "new", "data": {"id": "to new", "w": 3}}])
    expected, _ = answers(graph, TraversalMode.INDEXED)
    assert answers(graph) == (expected, True)
    assert {"b": "new", "i": 99} in expected[0]


LOOK_UP = "query q($k: String) { match { $a: P { k: $k } } return { $a.k as k, $a.i as i } }"
ONE_HOP = "query q($k: String) { match { $a: P { k: $k } $a k $b } return { $a.i as i, $b.k as b } }"
ALL = "query q() { match { $a: P } return { $a.k as k, $a.i as i } }"
ALL_HOPS = "query q() { match { $a: P $a k $b } return { $a.k as k, $a.i as i, $b.k as b } }"


def test_nodes_are_looked_up_where_an_index_says_they_are(graph: Graph) -> None:
    """Rows that moved, went, came back and came since, on each branch and at an older commit."""
    before = graph.snapshot().head
    assert before is not None
    graph.create_branch("side")
    graph.change('query q() { update P set { i: 100 } where k = "n3" }')
    graph.change('query q() { update P set { i: 101 } where k = "n3" }', branch="side")
    graph.change('query q() { delete P where k = "n8" }')
    _load(graph, [{"type": "P", "data": {"k": key, "i": 7}} for key in ("n8", "new")])
    graph.change('query q() { delete P where k = "n9" }', branch="side")
    plain = Graph.open(graph.location.uri, replace(graph.settings, traversal_mode=TraversalMode.INDEXED))
    places: list[dict[str, Any]] = [{}, {"branch": "side"}, {"ref": before.commit_id}]
    for at in places:
        rows = plain.query(ALL, **at).to_pylist()
        hops = plain.query(ALL_HOPS, **at).to_pylist()
        for key in [*(f"n{number}" for number in range(12)), "new", "none"]:
            expected = [
                [{name: row[name] for name in names} for row in of if row["k"] == key]
                for of, names in ((rows, "ki"), (hops, "ib"))
            ]
            found = [
                graph.query(source, params={"k": key}, **at).to_pylist() for source in (LOOK_UP, ONE_HOP)
            ]
            assert found == expected, (key, at)
    assert graph.query(LOOK_UP, params={"k": "n3"}).to_pylist() == [{"k": "n3", "i": 100}]
    assert graph.query(LOOK_UP, params={"k": "n3"}, branch="side").to_pylist() == [{"k": "n3", "i": 101}]


def test_a_look_up_believes_no_index_that_names_another_row(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def next_row(self: NodeNumbers, numbers: Any) -> Any:
        asked.append(len(numbers))
        return row_ids(self, numbers) + 1

    row_ids = NodeNumbers.row_ids
    monkeypatch.setattr(NodeNumbers, "row_ids", next_row)
    graph.query(HOPS.replace(", $b.i as i", ""))
    for number in (2, 5, 39):
        found = graph.query(LOOK_UP, params={"k": f"n{number}"}).to_pylist()
        assert found == [{"k": f"n{number}", "i": number}]
    assert len(asked) >= 3


def test_an_edge_between_nodes_that_are_known_is_found_in_any_order_of_meeting_them(graph: Graph) -> None:
    """n0 leads to n1 and to n9; n9 is met first, so targets come in another order than their numbers."""
    closed = 'query q() { match { $b: P { k: "n9" } $a <k> $b $a k $b } return { $a.k as a } order { a } }'
    opened = Graph.open(graph.location.uri, graph.settings)
    found = opened.query(closed)
    assert any(step.note == "topology" for step in found.steps)
    assert found.to_pylist() == [{"a": "n0"}, {"a": "n24"}]


def test_a_reader_writes_nothing(graph: Graph) -> None:
    before = {path: path.stat().st_mtime_ns for path in graph.location.path.rglob("*")}
    answers(graph)
    assert {path: path.stat().st_mtime_ns for path in graph.location.path.rglob("*")} == before


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 64)


def lengthened(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(64))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def zeroed(path: Path) -> None:
    """Of the right size, with nothing in it: what a power cut may leave of a file that was not synced."""
    path.write_bytes(bytes(path.stat().st_size))


def noise(path: Path) -> None:
    """A whole header, and arrays that contradict each other."""
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack_from("<I", data, 8)
    data[16 + length :] = np.random.default_rng(7).bytes(len(data) - 16 - length)
    path.write_bytes(data)


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("kind", ["nodes", "from", "ends", "json"])
@pytest.mark.parametrize("damage", [cut, lengthened, empty, linked, zeroed, gone])
def test_a_file_that_is_not_whole_is_not_believed(
    damage: Callable[[Path], None], kind: str, graph: Graph
) -> None:
    expected, _ = answers(graph, TraversalMode.INDEXED)
    for path in parts(graph, kind):
        damage(path)
    assert answers(graph)[0] == expected


@pytest.mark.parametrize("kind", ["nodes", "from", "ends"])
def test_a_file_that_is_cut_while_it_is_in_use_ends_no_process(kind: str, graph: Graph) -> None:
    """A backup that is copied over a graph cuts its files and fills them again; a map of them is fatal."""
    expected = [graph.query(source).to_pylist() for source in (HOPS, EDGES)]
    for path in parts(graph, kind):
        os.truncate(path, 0)
    assert [graph.query(source).to_pylist() for source in (HOPS, EDGES)] == expected
    assert answers(graph)[0] == expected


def test_a_file_in_the_place_of_another_is_not_believed(graph: Graph) -> None:
    expected, _ = answers(graph, TraversalMode.INDEXED)
    (out,), (into,) = parts(graph, "from"), parts(graph, "into")
    assert out.stat().st_size == into.stat().st_size
    kept = out.read_bytes()
    out.write_bytes(into.read_bytes())
    into.write_bytes(kept)
    assert answers(graph) == (expected, False)


@pytest.mark.parametrize("kind", ["nodes", "from", "ends"])
def test_noise_never_ends_a_process(kind: str, graph: Graph) -> None:
    for path in parts(graph, kind):
        noise(path)
    answers(graph)
    assert any(each.code == "topology-damaged" for each in graph.doctor(deep=True))
    assert [each.is_new for each in graph.build_topology()] == [True]
    assert answers(graph) == (answers(graph, TraversalMode.INDEXED)[0], True)
    assert not any(each.code == "topology-damaged" for each in graph.doctor(deep=True))


def test_an_index_that_hardly_fell_behind_stays(prepared: Path, tmp_path: Path) -> None:
    place = tmp_path / "again"
    shutil.copytree(prepared / "g", place)
    graph = Graph.open(str(place), Settings(fsync=False, actor="t", working_directory=tmp_path))
    assert [each.is_new for each in graph.build_topology()] == [True]
    assert [each.is_new for each in graph.build_topology()] == [False]


def test_cleanup_keeps_the_newest_and_removes_the_rest(graph: Graph) -> None:
    for number in range(4):
        _load(graph, [{"edge": "K", "from": "n1", "to": "n2", "data": {"id": f"x{number}"}}])
        assert [each.is_new for each in graph.build_topology()] == [True]
    left = parts(graph, "from")[-1].with_name("01AAAAAAAAAAAAAAAAAAAAAAAA.from")
    left.write_bytes(b"of a builder that was killed")
    assert len(parts(graph, "json")) == 5
    graph.cleanup(grace_s=0.0, force=True)
    assert len(parts(graph, "json")) == len(parts(graph, "from")) == len(parts(graph, "nodes")) == 3
    assert answers(graph) == (answers(graph, TraversalMode.INDEXED)[0], True)
    assert not [each for each in graph.doctor() if each.code.startswith("topology")]


def test_all_of_it_can_be_deleted_at_any_time(graph: Graph) -> None:
    expected = [graph.query(source).to_pylist() for source in (HOPS, EDGES)]
    shutil.rmtree(graph.location.path / "__topology")
    assert [graph.query(source).to_pylist() for source in (HOPS, EDGES)] == expected
    assert answers(graph) == (expected, False)
    assert graph.doctor() == []


def test_a_builder_that_dies_leaves_the_index_that_was_there(graph: Graph) -> None:
    _load(graph, [{"edge": "K", "from": "n1", "to": "n2", "data": {"id": "last"}}])
    expected, _ = answers(graph, TraversalMode.INDEXED)
    faults.arm("topology.edges_written=error")
    try:
        with pytest.raises(Exception, match=r"topology\.edges_written"):
            graph.build_topology()
    finally:
        faults.arm("")
    assert len(parts(graph, "json")) == 1
    assert len(parts(graph, "from")) == 2
    assert answers(graph) == (expected, True)


def test_optimize_does_not_build_one_for_a_few_edges(graph: Graph) -> None:
    assert graph.optimize().topology == ()


def test_a_file_of_arrays_comes_back(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(5, dtype=np.uint32),
        "b": np.zeros(0, np.uint8),
        "c": np.array([2**63], np.uint64),
    }
    data = memoryview(encoded("x.out", arrays))
    found = decoded("x.out", data)
    assert {key: value.tolist() for key, value in found.items()} == {
        "a": [0, 1, 2, 3, 4],
        "b": [],
        "c": [2**63],
    }
    assert is_sound("x.out", data)
    for name, bad in (("y.out", data), ("x.out", data[:-1]), ("x.out", data[:10])):
        with pytest.raises(NotTopology):
            decoded(name, bad)
