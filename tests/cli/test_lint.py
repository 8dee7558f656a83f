"""`omnigraph lint`, through the installed command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes import Omnigraph
from tests.support.records import S1

GOOD = "query q($n: String) { match { $p: Person { name: $n } } return { $p.name, $p.age } }"
UPDATE = "query u($n: String, $a: I32) { update Person set { age: $a } where name = $n }"
BAD = "query bad() { match { $p: Person } return { $p.nick } }"


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "s.pg"
    path.write_text(S1)
    return path


def write(tmp_path: Path, *queries: str) -> str:
    path = tmp_path / "q.gq"
    path.write_text("\n".join(queries))
    return str(path)


def test_a_good_file_against_a_schema_file(omnigraph: Omnigraph, schema: Path, tmp_path: Path) -> None:
    done = omnigraph("lint", "--query", write(tmp_path, GOOD), "--schema", schema, "--json")
    assert done.code == 0
    report = json.loads(done.out)
    assert report["status"] == "ok"
    assert report["schema_source"] == {"kind": "file", "path": str(schema)}
    assert report["query_path"] == str(tmp_path / "q.gq")
    assert (report["queries_processed"], report["errors"], report["warnings"], report["infos"]) == (
        1,
        0,
        0,
        0,
    )
    (result,) = report["results"]
    assert (result["name"], result["kind"], result["status"]) == ("q", "read", "ok")
    assert result["operation"]["result"] == [
        {"name": "name", "kind": "string", "nullable": False},
        {"name": "age", "kind": "int", "nullable": True},
    ]
    assert result["operation"]["reads"] == [{"kind": "node", "type_name": "Person"}]


def test_warnings_leave_the_exit_code_alone(omnigraph: Omnigraph, schema: Path, tmp_path: Path) -> None:
    """Scenario 111."""
    done = omnigraph("lint", "--query", write(tmp_path, UPDATE), "--schema", schema, "--json")
    report = json.loads(done.out)
    assert (done.code, report["status"]) == (0, "ok")
    assert [(each["code"], each["property"]) for each in report["findings"]] == [
        ("L201", "joined"),
        ("L201", "tags"),
    ]
    text = omnigraph("lint", "--query", write(tmp_path, UPDATE), "--schema", schema).out
    assert "OK u (mutation)" in text
    assert "WARN L201: Person.tags exists in schema but no update query sets it" in text


def test_a_type_error_exits_1_and_the_rest_is_checked(
    omnigraph: Omnigraph, schema: Path, tmp_path: Path
) -> None:
    """Scenario 111."""
    for alias in ("lint", "check"):
        done = omnigraph(alias, "--query", write(tmp_path, BAD, GOOD), "--schema", schema, "--json")
        assert (done.code, done.err) == (1, "")
        report = json.loads(done.out)
        assert (report["status"], report["errors"]) == ("error", 1)
        assert [result["status"] for result in report["results"]] == ["error", "ok"]
        assert "T6" in report["results"][0]["error"]
    text = omnigraph("lint", "--query", write(tmp_path, BAD, GOOD), "--schema", schema).out
    assert text.startswith("ERROR bad: ")
    assert "OK q (read)" in text


def test_a_file_that_does_not_parse(omnigraph: Omnigraph, schema: Path) -> None:
    done = omnigraph("lint", "--query", "-", "--schema", schema, "--json", stdin="query {")
    assert done.code == 1
    report = json.loads(done.out)
    assert report["query_path"] == "<stdin>"
    assert (report["queries_processed"], report["results"], report["errors"]) == (0, [], 1)
    assert report["findings"][0]["code"] == "Q000"


def test_against_a_graph(omnigraph: Omnigraph, schema: Path, tmp_path: Path) -> None:
    assert omnigraph("init", "--schema", schema, "g").code == 0
    path = write(tmp_path, GOOD)
    for arguments in (["g"], ["--store", "g"]):
        report = json.loads(omnigraph("lint", *arguments, "--query", path, "--json").out)
        assert report["schema_source"]["kind"] == "graph"
        assert report["schema_source"]["uri"].endswith("/g")
    assert omnigraph("lint", "nope", "--query", path).code == 6


def test_wrong_usage(omnigraph: Omnigraph, schema: Path, tmp_path: Path) -> None:
    assert omnigraph("lint", "--schema", schema).code == 2
    assert omnigraph("lint", "g", "--schema", schema, "--query", write(tmp_path, GOOD)).code == 2
    assert omnigraph("lint", "--schema", schema, "--query", "missing.gq").code == 2
    assert omnigraph("lint", "--schema", "missing.pg", "--query", write(tmp_path, GOOD)).code == 2
    (tmp_path / "bad.pg").write_text("node {")
    assert omnigraph("lint", "--schema", "bad.pg", "--query", write(tmp_path, GOOD)).code == 7
