"""`omnigraph change` as a user meets it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.processes import Finished, Omnigraph, closed_stdin
from tests.support.records import edges, exported, make_people, nodes
from tests.support.writers import check_whole

SETTINGS = Settings(fsync=False, actor="ann")
STORE = ("--store", "g")
ADD = "query add($n: String, $a: I32?) { insert Person { name: $n, age: $a } }"
SEVERAL = """
query one() { insert Person { name: "One" } }
query two() { insert Person { name: "Two" } }
"""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_people(tmp_path_factory.mktemp("people") / "g")


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Graph:
    """S1 with D1."""
    shutil.copytree(template, tmp_path / "g")
    return Graph.open(str(tmp_path / "g"), SETTINGS)


def refused(done: Finished, code: int, graph: Graph, before: list[dict[str, Any]]) -> dict[str, Any]:
    """The one object on stderr of a change that changed nothing."""
    assert (done.code, done.out) == (code, ""), done
    assert exported(graph) == before
    failure: dict[str, Any] = json.loads(done.err)
    assert failure["exit"] == code
    assert {"error", "code", "retryable", "hint"} <= set(failure)
    return failure


@pytest.mark.parametrize("verb", ["change", "mutate"])
def test_what_a_change_says(verb: str, graph: Graph, omnigraph: Omnigraph) -> None:
    parameters = ("--param", "n=Eve", "--param", "a=-4")
    done = omnigraph(verb, *STORE, "-e", ADD, *parameters, "--as", "zoe", "--message", "why", "--json")
    assert (done.code, done.err) == (0, "")
    head = graph.log().history("main")[0]
    assert json.loads(done.out) == {
        "branch": "main",
        "query_name": "add",
        "affected_nodes": 1,
        "affected_edges": 0,
        "actor_id": "zoe",
        "commit": head.commit_id,
        "warnings": [],
        "dry_run": False,
    }
    assert (head.actor_id, head.message) == ("zoe", "why")
    assert nodes(graph, "Person")["Eve"] == {"name": "Eve", "age": -4}
    check_whole(graph)


def test_people_are_told(graph: Graph, omnigraph: Omnigraph) -> None:
    done = omnigraph("change", *STORE, "-e", 'query q() { delete Person where name = "Ann" }')
    head = graph.log().history("main")[0]
    assert (done.code, done.out) == (0, f"changed main via q: 1 node, 4 edges\ncommit {head.commit_id}\n")
    assert done.err == ""
    assert edges(graph, "Knows") == [("Bob", "Cy")]
    again = omnigraph("change", *STORE, "-e", 'query q() { delete Person where name = "Ann" }')
    assert (again.code, again.out) == (0, "changed main via q: 0 nodes, 0 edges\n")
    assert again.err == "nothing matched; no commit was made\n"
    assert graph.log().history("main")[0] == head


def test_ways_to_give_a_query(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "c.gq").write_text(SEVERAL)
    (tmp_path / "marked.gq").write_bytes(b"\xef\xbb\xbf" + ADD.encode())
    for arguments, stdin, name in [
        (("one", "--query", "c.gq"), "", "One"),
        (("--query", "c.gq", "--name", "two"), "", "Two"),
        (("--query", "-", "one"), SEVERAL.replace("One", "Stdin"), "Stdin"),
        (("--query", "-"), 'query only() { insert Person { name: "Only" } }', "Only"),
        (("--query", "marked.gq", "--param", "n=Marked"), "", "Marked"),
    ]:
        done = omnigraph("change", *STORE, *arguments, stdin=stdin)
        assert done.code == 0, done.err
        assert name in nodes(graph, "Person")


def test_ways_to_give_parameters(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('{"n": "File", "a": 1}')
    ways: list[tuple[tuple[str, ...], str, dict[str, Any]]] = [
        (("--params", '{"n": "Json", "a": "7"}'), "", {"name": "Json", "age": 7}),
        (("--params", '{"n": "Null", "a": null}'), "", {"name": "Null"}),
        (("--params-file", "p.json"), "", {"name": "File", "age": 1}),
        (("--params-file", "-"), '{"n": "In"}', {"name": "In"}),
        (("--param", 'n=a=b "c"', "--param", "a=3"), "", {"name": 'a=b "c"', "age": 3}),
        (("--param", "n=", "--param", "a=0"), "", {"name": "", "age": 0}),
        (("--param", "n=true"), "", {"name": "true"}),
    ]
    for arguments, stdin, expected in ways:
        done = omnigraph("change", *STORE, "-e", ADD, *arguments, stdin=stdin)
        assert done.code == 0, done.err
        assert nodes(graph, "Person")[expected["name"]] == expected


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-e", ADD, "--query", "c.gq"],
        ["-e", ""],
        ["--query", "missing.gq"],
        ["--query", "."],
        ["--query", "c.gq"],
        ["--query", "empty.gq"],
        ["one", "--query", "c.gq", "--name", "two"],
        ["-e", ADD, "--params", "{}", "--params-file", "p.json"],
        ["-e", ADD, "--params-file", "missing.json"],
        ["-e", ADD, "--param", "n=x", "--if-commit", ""],
        ["-e", "query q() { match { $p: Person } return { $p.name } }"],
        ["-e", ADD, "--param", "n=x", "--lock-timeout", "-1"],
    ],
    ids=" ".join,
)
def test_usage(arguments: list[str], graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "c.gq").write_text(SEVERAL)
    (tmp_path / "empty.gq").write_text("")
    (tmp_path / "p.json").write_text("{}")
    before = exported(graph)
    failure = refused(omnigraph("change", *STORE, *arguments, "--json"), 2, graph, before)
    assert failure["code"] == "usage"


def test_what_is_not_there(graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "c.gq").write_text(SEVERAL)
    before = exported(graph)
    missing = refused(omnigraph("change", *STORE, "three", "--query", "c.gq", "--json"), 6, graph, before)
    assert (missing["name"], missing["known"]) == ("three", ["one", "two"])
    change = ("-e", ADD, "--param", "n=Eve", "--json")
    assert refused(omnigraph("change", *STORE, *change, "--branch", "b"), 6, graph, before)["branch"] == "b"
    refused(omnigraph("change", "--store", "elsewhere", *change), 6, graph, before)


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ('query q() { insert Person { name: "G" } delete Person where name = "Ann" }', "mixed"),
        ('query q() { update Person set { name: "G" } where name = "Ann" }', "key_update"),
    ],
)
def test_what_no_mutation_may_do(source: str, rule: str, graph: Graph, omnigraph: Omnigraph) -> None:
    before = exported(graph)
    failure = refused(omnigraph("change", *STORE, "-e", source, "--json"), 5, graph, before)
    assert (failure["code"], failure["rule"], failure["line"]) == ("refused", rule, 1)


BAD_QUERIES: dict[str, tuple[list[str], str]] = {
    "syntax": (["-e", "query q() { insert Person "], "parse error"),
    "no property": (["-e", 'query q() { insert Person { nam: "x" } }'], "T11"),
    "no type": (["-e", 'query q() { insert Robot { name: "x" } }'], "T10"),
    "required": (["-e", "query q() { insert Person { age: 1 } }"], "T12"),
    "too large": (["-e", 'query q() { insert Person { name: "x", age: 3000000000 } }'], "3000000000"),
    "enum": (["-e", 'query q() { insert Company { name: "x", size: "big" } }'], "big"),
    "dangling": (
        ["-e", 'query q() { insert Knows { from: "Ann", to: "Zed" } }'],
        "dst 'Zed' not found in Person",
    ),
    "card": (["-e", 'query q() { insert WorksAt { from: "Ann", to: "Zeta" } }'], "source 'Ann' has 2 edges"),
    "no parameter": (["-e", ADD], "parameter 'n': not provided"),
    "unknown parameter": (["-e", ADD, "--param", "n=x", "--param", "z=1"], "no such parameter"),
    "wrong value": (["-e", ADD, "--param", "n=x", "--param", "a=1.5"], "parameter 'a'"),
    "huge value": (["-e", ADD, "--param", "n=x", "--param", f"a={'9' * 5000}"], "parameter 'a'"),
    "params not JSON": (["-e", ADD, "--params", "{"], "not JSON"),
    "params with NaN": (["-e", ADD, "--params", '{"n":"x","a":NaN}'], "parameter 'a'"),
    "params no object": (["-e", ADD, "--params", "[1]"], "expected a JSON object"),
    "params nested": (["-e", ADD, "--params", "[" * 100_000], "--params"),
    "params half a surrogate": (["-e", ADD, "--params", '{"n":"\\ud800"}'], "n"),
    "params wrong": (["-e", ADD, "--params", '{"n":1}'], "parameter 'n': expected string"),
    "not text": (["--query", "latin.gq"], "not UTF-8"),
    "binary": (["--query", "binary.gq"], "binary.gq"),
    "nested": (["-e", "query q() { insert Person { name: " + "[" * 50_000], ""),
}


@pytest.mark.parametrize("name", BAD_QUERIES)
def test_bad_queries(name: str, graph: Graph, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "latin.gq").write_bytes('query q() { insert Person { name: "ü" } }'.encode("latin-1"))
    (tmp_path / "binary.gq").write_bytes(bytes(range(256)))
    arguments, message = BAD_QUERIES[name]
    before = exported(graph)
    failure = refused(omnigraph("change", *STORE, *arguments, "--json"), 7, graph, before)
    assert failure["code"] == "bad_data"
    assert message in failure["error"]


def test_violations_of_a_change(graph: Graph, omnigraph: Omnigraph) -> None:
    before = exported(graph)
    source = 'query q($s: String) { insert Company { name: "x", size: $s } }'
    done = omnigraph("change", *STORE, "-e", source, "--param", "s=big", "--json")
    (violation,) = refused(done, 7, graph, before)["violations"]
    assert (violation["type"], violation["property"]) == ("Company", "size")
    assert "invalid enum value 'big'" in violation["message"]


def test_a_unique_value_that_is_taken_is_a_conflict(omnigraph: Omnigraph, tmp_path: Path) -> None:
    graph = Graph.init(str(tmp_path / "g"), "node A { k: String @key e: String? @unique }", SETTINGS)
    source = 'query q($k: String) { insert A { k: $k, e: "taken" } }'
    assert omnigraph("change", *STORE, "-e", source, "--param", "k=x").code == 0
    before = exported(graph)
    failure = refused(omnigraph("change", *STORE, "-e", source, "--param", "k=y", "--json"), 3, graph, before)
    assert failure["code"] == "conflict"
    assert failure["violations"][0]["property"] == "e"


def test_if_commit(graph: Graph, omnigraph: Omnigraph) -> None:
    head = graph.head()
    assert head is not None
    change = ("change", *STORE, "-e", ADD, "--if-commit", head.commit_id, "--json")
    assert omnigraph(*change, "--param", "n=Eve").code == 0
    now, before = graph.head(), exported(graph)
    assert now is not None
    failure = refused(omnigraph(*change, "--param", "n=Fay"), 4, graph, before)
    assert failure["code"] == "precondition"
    assert failure["precondition_failure"] == {"expected": head.commit_id, "actual": now.commit_id}
    dry = refused(omnigraph(*change, "--param", "n=Fay", "--dry-run"), 4, graph, before)
    assert dry["code"] == "precondition"


def test_a_dry_run_counts_and_writes_nothing(graph: Graph, omnigraph: Omnigraph) -> None:
    head, before = graph.head(), exported(graph)
    change = ("change", *STORE, "--dry-run", "--json", "-e")
    done = omnigraph(*change, 'query q() { delete Person where name = "Ann" }')
    answer = json.loads(done.out)
    assert (done.code, answer["affected_nodes"], answer["affected_edges"]) == (0, 1, 4)
    assert (answer["commit"], answer["dry_run"]) == (None, True)
    assert omnigraph(*change, 'query q() { insert Knows { from: "Ann", to: "No" } }').code == 7
    assert (graph.head(), exported(graph)) == (head, before)


def test_on_a_branch(graph: Graph, omnigraph: Omnigraph) -> None:
    graph.create_branch("dev")
    change = ("change", *STORE, "-e", ADD, "--param", "n=Eve")
    assert omnigraph(*change, environment={"OMNIGRAPH_BRANCH": "dev"}).code == 0
    assert "Eve" in nodes(graph, "Person", "dev")
    assert "Eve" not in nodes(graph, "Person")


def test_a_query_from_a_closed_stdin(graph: Graph, tmp_path: Path) -> None:
    done = closed_stdin("change", *STORE, "--query", "-", cwd=tmp_path)
    assert (done.code, "standard input is closed" in done.err) == (2, True)
