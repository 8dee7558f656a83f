"""`omnigraph diff` and `omnigraph commit show --changes` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.processes import Finished, Omnigraph
from tests.support.records import PEOPLE
from tests.support.terminal import on_a_terminal
from tests.support.trees import fingerprint

NASTY = "it's\n| \x1b[31m\u202e"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that these tests only read: on dev, Ann is older, Bob gone, and somebody has a bad name."""
    root = tmp_path_factory.mktemp("diff") / "g"
    graph = Graph.init(str(root), PEOPLE, Settings(fsync=False, actor="ann"))
    graph.change(
        'query q() { insert Person { name: "Ann", age: 1 } insert Person { name: "Bob" }'
        ' insert Company { name: "Acme" } insert WorksAt { from: "Ann", to: "Acme" } }'
    )
    graph.create_branch("dev")
    graph.change('query q() { update Person set { age: 2 } where name = "Ann" }', branch="dev")
    graph.change('query q() { delete Person where name = "Bob" }', branch="dev")
    graph.change("query q($n: String) { insert Person { name: $n } }", params={"n": NASTY}, branch="dev")
    return root


def diff(omnigraph: Omnigraph, place: Path, *arguments: str) -> Finished:
    done = omnigraph("diff", "--store", place, *arguments)
    assert done.err == ""
    return done


def lines(done: Finished) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def test_json_lines_when_piped(place: Path, omnigraph: Omnigraph) -> None:
    before = fingerprint(place)
    done = diff(omnigraph, place, "main", "dev")
    assert done.code == 0
    assert lines(done) == [
        {
            "op": "update",
            "entity_kind": "node",
            "type_name": "Person",
            "entity_id": "Ann",
            "before": {"age": 1},
            "after": {"age": 2},
        },
        {
            "op": "delete",
            "entity_kind": "node",
            "type_name": "Person",
            "entity_id": "Bob",
            "before": {"age": None, "name": "Bob"},
        },
        {
            "op": "insert",
            "entity_kind": "node",
            "type_name": "Person",
            "entity_id": NASTY,
            "after": {"age": None, "name": NASTY},
        },
    ]
    assert fingerprint(place) == before


def test_one_object(place: Path, omnigraph: Omnigraph) -> None:
    found = json.loads(diff(omnigraph, place, "main", "dev", "--json").out)
    assert [each["op"] for each in found["changes"]] == ["update", "delete", "insert"]
    assert (found["inserted"], found["updated"], found["deleted"]) == (1, 1, 1)
    assert [each["table_key"] for each in found["tables"]] == ["node:Person"]
    stat = json.loads(diff(omnigraph, place, "main", "dev", "--json", "--stat").out)
    assert stat == {key: value for key, value in found.items() if key != "changes"}
    assert (stat["from"]["branch"], stat["to"]["branch"]) == ("main", "dev")
    same = json.loads(diff(omnigraph, place, "main", "main", "--json").out)
    assert (same["changes"], same["tables"], same["inserted"]) == ([], [], 0)


def test_lines_for_people_cannot_be_forged(place: Path, omnigraph: Omnigraph) -> None:
    table = diff(omnigraph, place, "main", "dev", "--format", "table").out.splitlines()
    assert table[:3] == ["node Person", "  ~ Ann  age: 1 → 2", '  - Bob  name: "Bob"']
    assert table[3].startswith("  + it's\\n| \\x1b[31m\\u202e  name: ")
    assert table[4:] == ["3 entities: 1 inserted, 1 updated, 1 deleted"]
    marked = diff(omnigraph, place, "main", "dev", "--format", "md").out.splitlines()
    assert marked[2] == "| node Person | update | Ann | age | 1 | 2 |"
    assert [line.replace("\\|", "").count("|") for line in marked] == [7] * 5
    assert all(text.isprintable() for text in [*table, *marked])
    stat = diff(omnigraph, place, "main", "dev", "--format", "md", "--stat").out.splitlines()
    assert stat[2:] == ["| node Person | 1 | 1 | 1 |"]
    assert diff(omnigraph, place, "main", "main", "--format", "table").out == "no difference\n"


def test_a_table_on_a_terminal(place: Path, tmp_path: Path) -> None:
    code, screen = on_a_terminal("diff", "main", "dev", "--store", place, cwd=tmp_path)
    assert (code, "~ Ann  age: 1 → 2" in screen) == (0, True)


def test_chosen_changes(place: Path, omnigraph: Omnigraph) -> None:
    deleted = diff(omnigraph, place, "main", "dev", "--op", "delete")
    assert [each["entity_id"] for each in lines(deleted)] == ["Bob"]
    two = diff(omnigraph, place, "main", "dev", "--op", "delete", "--op", "update", "--stat")
    assert [(each["inserted"], each["updated"], each["deleted"]) for each in lines(two)] == [(0, 1, 1)]
    assert lines(diff(omnigraph, place, "main", "dev", "--type", "Company")) == []
    assert len(lines(diff(omnigraph, place, "main", "dev", "--type", "Company", "--type", "Person"))) == 3
    one = diff(omnigraph, place, "main", "dev", "--entity", "Person/Ann")
    assert [each["entity_id"] for each in lines(one)] == ["Ann"]
    assert lines(diff(omnigraph, place, "main", "dev", "--entity", "Company/Acme")) == []


def test_a_commit_and_its_parent(place: Path, omnigraph: Omnigraph) -> None:
    assert [each["entity_id"] for each in lines(diff(omnigraph, place, "dev~1"))] == ["Bob"]
    shown = omnigraph("commit", "show", "dev~1", "--changes", "--store", place)
    assert shown.code == 0
    assert shown.out.startswith("commit: ")
    assert shown.out.endswith('  - Bob  name: "Bob"\n1 entity: 0 inserted, 0 updated, 1 deleted\n')
    found = json.loads(omnigraph("commit", "changes", "dev~1", "--store", place, "--json").out)
    assert found["operation"] == "mutation"
    assert [(each["op"], each["entity_id"]) for each in found["changes"]] == [("delete", "Bob")]
    first = lines(diff(omnigraph, place, "main~1"))
    assert {(each["op"], each["change"]) for each in first} == {("schema", "type_added")}


def test_exit_codes(place: Path, omnigraph: Omnigraph) -> None:
    assert diff(omnigraph, place, "main", "dev", "--exit-code").code == 1
    assert diff(omnigraph, place, "main", "main", "--exit-code").code == 0
    assert diff(omnigraph, place, "main", "dev", "--exit-code", "--type", "Company").code == 0
    for code, arguments in {
        6: [("main", "nope"), ("main", "dev", "--type", "Nope"), ("main", "dev", "--entity", "Person/Zoe")],
        2: [
            ("main", "dev", "--op", "rename"),
            ("main", "dev", "--format", "csv"),
            ("main", "dev", "--entity", "Ann"),
            ("main", "dev", "--entity", "Person/Ann", "--type", "Person"),
            ("main", "dev", "--json", "--format", "md"),
            (),
        ],
    }.items():
        for words in arguments:
            done = omnigraph("diff", "--store", place, *words)
            assert (done.code, done.out) == (code, ""), words
