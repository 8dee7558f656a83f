"""Odd but possible: reserved actors in disguise, very long paths, early dates, threads that share a graph."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from omnigraph_core.errors import OmnigraphError, RefusedError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings
from tests.support.processes import Omnigraph
from tests.support.records import PEOPLE, make_people, node, nodes, write_jsonl
from tests.support.trees import fingerprint
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")
INSERT = "query q($n: String) { insert Person { name: $n } }"
LONG = "x" * 5000
LONG_DEEP = "/".join(["y" * 200] * 25)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_people(tmp_path_factory.mktemp("odd") / "g")


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Graph:
    shutil.copytree(template, tmp_path / "g")
    return Graph.open(str(tmp_path / "g"), SETTINGS, OpenMode.READ_WRITE)


RESERVED = ["omnigraph:recovery", "  omnigraph:repair ", "\tOMNIGRAPH:Maintenance", "\u00a0omnigraph:x"]


@pytest.mark.parametrize("actor", RESERVED, ids=ascii)
def test_a_reserved_actor_is_refused_however_it_is_written(
    actor: str, graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    data = write_jsonl(tmp_path / "d.jsonl", [node("Person", name="Eve")])
    before = fingerprint(tmp_path)
    for write in (
        lambda: graph.change(INSERT, params={"n": "Eve"}, actor=actor),
        lambda: graph.load([data], LoadMode.APPEND, actor=actor),
        lambda: graph.create_branch("b", actor=actor),
        lambda: Graph.init(str(tmp_path / "new"), PEOPLE, SETTINGS, actor=actor),
    ):
        with pytest.raises(RefusedError, match="reserved"):
            write()
    done = omnigraph("load", "g", "--data", data, "--mode", "append", "--as", actor)
    assert (done.code, "reserved" in done.err) == (5, True)
    done = omnigraph("branch", "create", "b", "--store", "g", environment={"OMNIGRAPH_ACTOR": actor})
    assert (done.code, "reserved" in done.err) == (5, True)
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize("name", [LONG, LONG_DEEP], ids=["one name", "many names"])
@pytest.mark.parametrize(
    "command",
    [
        ["init", "--schema", "s.pg", "LONG"],
        ["init", "--schema", "LONG", "new"],
        ["snapshot", "LONG"],
        ["load", "g", "--mode", "append", "--data", "LONG"],
        ["load", "g", "--mode", "append", "--data", "d.jsonl", "--rejects", "LONG"],
        ["query", "--store", "g", "--query", "LONG"],
        ["query", "--store", "g", "-e", INSERT, "--params-file", "LONG"],
        ["export", "g", "--out", "LONG"],
    ],
    ids=" ".join,
)
def test_a_path_of_5000_characters_is_one_clear_error(
    command: list[str], name: str, graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    (tmp_path / "s.pg").write_text(PEOPLE)
    write_jsonl(tmp_path / "d.jsonl", [node("Person", name="Eve"), node("Person", name="Fay", age="old")])
    before = fingerprint(tmp_path)
    done = omnigraph(*[name if word == "LONG" else word for word in command], "--json")
    assert done.code in (2, 5, 6, 74), done
    assert (done.out, json.loads(done.err)["exit"]) == ("", done.code)
    assert fingerprint(tmp_path) == before


def test_dates_before_the_year_1000_keep_four_digits(omnigraph: Omnigraph, tmp_path: Path) -> None:
    schema = "node E { k: String @key d: Date? t: DateTime? }"
    graph = Graph.init(str(tmp_path / "g"), schema, SETTINGS)
    record = node("E", k="a", d="0033-04-03", t="0999-12-31T23:59:59.500Z")
    graph.load([write_jsonl(tmp_path / "d.jsonl", [record])], LoadMode.APPEND)
    asked = 'query q() { match { $e: E { d: date("0033-04-03") } } return { $e.d as d, $e.t as t } }'
    for form in ("jsonl", "csv", "table", "kv", "md", "json"):
        done = omnigraph("query", "--store", "g", "-e", asked, "--format", form)
        assert done.code == 0, done.err
        assert "0033-04-03" in done.out
        assert "0999-12-31T23:59:59.500Z" in done.out
    _, line = omnigraph("export", "g", "--format", "csv").out.splitlines()
    assert {"0033-04-03", "0999-12-31T23:59:59.500Z"} <= set(line.split(","))


def test_four_threads_share_one_graph(graph: Graph, tmp_path: Path) -> None:
    """Each inserts by `change` and by `load`; who loses a race plans again, and nobody is told of it."""

    def insert(thread: int) -> list[OmnigraphError]:
        failed = []
        for number in range(5):
            name = f"{thread}-{number}"
            data = write_jsonl(tmp_path / f"{name}.jsonl", [node("Person", name=f"load-{name}")])
            try:
                graph.change(INSERT, params={"n": f"change-{name}"})
                graph.load([data], LoadMode.APPEND)
            except OmnigraphError as error:
                failed.append(error)
        return failed

    with ThreadPoolExecutor(4) as threads:
        failed = [error for errors in threads.map(insert, range(4)) for error in errors]
    assert failed == []
    found = {name for name in nodes(graph, "Person") if "-" in name}
    assert found == {f"{how}-{i}-{j}" for how in ("change", "load") for i in range(4) for j in range(5)}
    check_whole(graph)
