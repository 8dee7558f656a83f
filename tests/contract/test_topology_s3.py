"""The topology index of a graph in S3: the same answers, and every file of it fetched once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings, TraversalMode, load_settings
from omnigraph_core.storage.copies import LocalCopies
from omnigraph_core.topology.store import TopologyStore
from tests.support.s3server import S3Server

SCHEMA = "node P { k: String @key i: I32? } edge K: P -> P { w: I32? }"
HOPS = 'query q() { match { $a: P { k: "n0" } $a k{1,3} $b } return { $b.k as b, $b.i as i } order { b } }'
EDGES = "query q() { match { $a: P $b $w:k $a $w.w > 1 } return { $a.k as a, $b.k as b, $w.w as w } }"


@pytest.fixture(scope="module")
def prepared(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """A graph with an index, a branch, and changes on both since it was built."""
    place = tmp_path_factory.mktemp("topology-s3")
    settings = load_settings({**s3_server.environment, "OMNIGRAPH_ACTOR": "t"}, place)
    graph = Graph.init(s3_server.new_location(), SCHEMA, settings)
    _load(graph, [{"type": "P", "data": {"k": f"n{n}", "i": n}} for n in range(30)] + _edges(30, "e", 7))
    assert [each.is_new for each in graph.build_topology()] == [True]
    graph.create_branch("side")
    _load(graph, _edges(3, "more", 11))
    graph.change("query q() { delete K where w = 1 }", branch="side")
    graph.change('query q() { delete P where k = "n8" }', branch="side")
    return graph


def _edges(count: int, name: str, step: int) -> list[dict[str, Any]]:
    ends = [(n, f"n{n}", f"n{(n * step + 1) % 30}") for n in range(count)]
    return [
        {"edge": "K", "from": source, "to": target, "data": {"id": f"{name}{n}", "w": n % 4}}
        for n, source, target in ends
    ]


def _load(graph: Graph, records: list[dict[str, Any]]) -> None:
    file = graph.settings.working_directory / "data.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in records), encoding="utf-8")
    graph.load([str(file)], LoadMode.APPEND)


@pytest.fixture
def settings(prepared: Graph, tmp_path: Path) -> Settings:
    return replace(prepared.settings, cache_home=tmp_path / "cache")


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were read over the network."""
    names: list[str] = []
    fetch = TopologyStore._fetched

    def counted(self: TopologyStore, file: Any, path: str) -> memoryview | None:
        names.append(file.name)
        return fetch(self, file, path)

    monkeypatch.setattr(TopologyStore, "_fetched", counted)
    return names


Ask = Callable[[Settings], list[Any]]


@pytest.fixture
def ask(prepared: Graph) -> Ask:
    """The answers of a process that knows nothing yet; they are those that reading the edges gives."""
    reading = replace(prepared.settings, traversal_mode=TraversalMode.INDEXED)
    read = Graph.open(prepared.location.uri, reading)
    questions = [(source, branch) for source in (HOPS, EDGES) for branch in ("main", "side")]
    expected = [read.query(source, branch=branch).to_pylist() for source, branch in questions]

    def asked(settings: Settings) -> list[Any]:
        graph = Graph.open(prepared.location.uri, settings)
        results = [graph.query(source, branch=branch) for source, branch in questions]
        assert [each.to_pylist() for each in results] == expected
        return [any(step.note == "topology" for step in each.steps) for each in results]

    return asked


def copies(settings: Settings) -> list[Path]:
    assert settings.cache_home is not None
    return sorted(path for path in settings.cache_home.rglob("*") if path.is_file())


def test_files_are_fetched_once_for_all_processes(ask: Ask, settings: Settings, fetched: list[str]) -> None:
    assert ask(settings) == [True] * 4
    assert len(fetched) == len(set(fetched)) == 4
    assert [path.name for path in copies(settings)] == sorted(fetched)
    assert ask(settings) == [True] * 4
    assert len(fetched) == 4


def test_copies_that_are_cut_or_zeroed_are_fetched_again(
    ask: Ask, settings: Settings, fetched: list[str]
) -> None:
    ask(settings)
    first, second, third, fourth = copies(settings)
    os.truncate(first, 100)
    second.write_bytes(bytes(second.stat().st_size))
    third.rename(fourth)
    assert ask(settings) == [True] * 4
    assert sorted(fetched[4:]) == [path.name for path in copies(settings)]


@pytest.mark.parametrize("case", ["no directory", "no room", "not writable"])
def test_without_a_place_for_copies_the_index_is_read_into_memory(
    case: str, ask: Ask, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    others = {
        "no directory": replace(settings, cache_home=None),
        "no room": replace(settings, cache_limit_bytes=0),
        "not writable": replace(settings, cache_home=tmp_path / "file" / "cache"),
    }
    assert ask(others[case]) == [True] * 4
    assert copies(settings) == []


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    kept = LocalCopies(tmp_path, 250, "a")
    for number, name in enumerate(("one", "two")):
        kept.keep(name, bytes(100))
        os.utime(next(tmp_path.rglob(name)), (number, number))
    assert kept.get("one", 100) is not None
    LocalCopies(tmp_path, 250, "b").keep("one", bytes(100))
    assert [kept.get(name, 100) is None for name in ("one", "two")] == [False, True]
    kept.keep("too large", bytes(251))
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2


def test_graphs_do_not_share_copies(tmp_path: Path) -> None:
    LocalCopies(tmp_path, 1_000, "s3://a/graph").keep("name", b"of one")
    assert LocalCopies(tmp_path, 1_000, "s3://b/graph").get("name", 6) is None
