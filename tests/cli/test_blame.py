"""`omnigraph blame` and `omnigraph commit list --graph|--type|--entity` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.processes import Omnigraph
from tests.support.records import PEOPLE
from tests.support.terminal import on_a_terminal
from tests.support.trees import fingerprint

NASTY = "it's\n| \x1b[31m\u202e"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that these tests only read: Ann's age was changed on main, and a merged branch knew her."""
    root = tmp_path_factory.mktemp("blame") / "g"
    graph = Graph.init(str(root), PEOPLE, Settings(fsync=False, actor="ann"), message="begin")
    change(graph, 'insert Person { name: "Ann", age: 1 } insert Person { name: "Bob" }', "people")
    graph.create_branch("dev")
    change(graph, 'insert Company { name: "Acme" }', "company", "dev", "dan")
    change(graph, 'update Person set { age: 3 } where name = "Bob"', "bob's age", "dev", "dan")
    change(graph, 'update Person set { age: 2 } where name = "Ann"', "ann's age")
    graph.merge("dev", "main", message="take dev")
    change(graph, 'delete Person where name = "Bob"', "bob goes")
    change(graph, 'insert Person { name: "Bob", age: 3 }', NASTY, actor="bob")
    graph.create_tag("v1", "main~2")
    return root


def change(graph: Graph, text: str, message: str, branch: str = "main", actor: str = "ann") -> None:
    graph.change(f"query q() {{ {text} }}", branch=branch, message=message, actor=actor)


def blamed(omnigraph: Omnigraph, place: Path, *words: str) -> dict[str, Any]:
    done = omnigraph("blame", "--store", place, "--json", *words)
    assert (done.code, done.err) == (0, "")
    found: dict[str, Any] = json.loads(done.out)
    return found


def messages(omnigraph: Omnigraph, place: Path, *words: str) -> list[str]:
    done = omnigraph("commit", "list", place, "--json", *words)
    assert (done.code, done.err) == (0, "")
    return [each["message"] for each in json.loads(done.out)["commits"]]


def test_each_property_has_its_commit(place: Path, omnigraph: Omnigraph) -> None:
    before = fingerprint(place)
    found = blamed(omnigraph, place, "Person/Ann")
    assert (found["entity_kind"], found["type_name"], found["entity_id"]) == ("node", "Person", "Ann")
    assert [(each["property"], each["value"], each["message"]) for each in found["properties"]] == [
        ("age", 2, "ann's age"),
        ("name", "Ann", "people"),
    ]
    assert {each["limit"] for each in found["properties"]} == {None}
    assert fingerprint(place) == before


def test_a_merge_is_followed_and_old_states_are_their_own(place: Path, omnigraph: Omnigraph) -> None:
    merged = blamed(omnigraph, place, "Person/Bob", "--snapshot", "tag:v1")["properties"]
    assert [(each["message"], each["manifest_branch"], each["actor_id"]) for each in merged] == [
        ("bob's age", "dev", "dan"),
        ("people", "main", "ann"),
    ]
    again = blamed(omnigraph, place, "Person/Bob")["properties"]
    assert {each["message"] for each in again} == {NASTY}
    dev = blamed(omnigraph, place, "Person/Ann", "--branch", "dev")["properties"]
    assert {each["message"] for each in dev} == {"people"}


def test_lines_for_people_cannot_be_forged(place: Path, omnigraph: Omnigraph, tmp_path: Path) -> None:
    for form in ("table", "md"):
        shown = omnigraph("blame", "Person/Bob", "--store", place, "--format", form).out.splitlines()
        assert all(line.replace("\t", "").isprintable() for line in shown)
        assert len(shown) == (3 if form == "table" else 4)
    piped = omnigraph("blame", "Person/Bob", "--store", place).out.splitlines()
    assert [json.loads(line)["property"] for line in piped] == ["age", "name"]
    for words in (["--oneline"], ["--graph"], []):
        listed = omnigraph("commit", "list", place, "--limit", "1", *words).out.splitlines()
        assert len(listed) == (1 if words else 2)
        assert listed[-1].replace("\t", "").isprintable()
    code, screen = on_a_terminal("blame", "Person/Ann", "--store", place, cwd=tmp_path)
    assert (code, screen.startswith("Person Ann at ")) == (0, True)


def test_commits_of_a_type_and_of_an_entity(place: Path, omnigraph: Omnigraph) -> None:
    assert messages(omnigraph, place, "--type", "Company") == ["take dev", "company", "begin"]
    assert messages(omnigraph, place, "--type", "Company", "--branch", "dev") == ["company", "begin"]
    assert messages(omnigraph, place, "--type", "Knows") == ["begin"]
    bob = ["bob goes", "take dev", "bob's age", "people"]
    assert messages(omnigraph, place, "--entity", "Person/Bob") == [NASTY, *bob]
    assert messages(omnigraph, place, "--entity", "Person/Bob", "--filter", "actor=dan") == ["bob's age"]
    assert messages(omnigraph, place, "--entity", "Person/Bob", "--limit", "2") == [NASTY, "bob goes"]
    assert messages(omnigraph, place, "--entity", "Person/Bob", "--branch", "dev") == ["bob's age", "people"]
    found = json.loads(omnigraph("commit", "list", place, "--json", "--entity", "Person/Bob").out)
    assert found["unknown"] == []


def test_the_drawing(place: Path, omnigraph: Omnigraph) -> None:
    done = omnigraph("commit", "list", place, "--graph")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert [line.partition(" ")[0] if "*" not in line else line[:3] for line in lines] == [
        "* " + lines[0][2],
        "* " + lines[1][2],
        "* " + lines[2][2],
        "|\\",
        "* |",
        "| *",
        "| *",
        "|/",
        "* " + lines[8][2],
        "* " + lines[9][2],
    ]
    assert lines[2].endswith("(tag:v1) main ann take dev")
    assert lines[5].endswith(" (dev) dev dan bob's age")
    few = omnigraph("commit", "list", place, "--graph", "--entity", "Person/Ann").out.splitlines()
    assert [line[:2] for line in few] == ["* ", "* "]
    assert omnigraph("commit", "list", place, "--graph", "--limit", "1").out.count("\n") == 1
    colored = omnigraph("commit", "list", place, "--graph", "--color", "always").out
    assert ("\x1b[33m" in colored, "\x1b" in done.out) == (True, False)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (6, ["blame", "Person/Zoe"]),
        (6, ["blame", "Nobody/Ann"]),
        (6, ["blame", "Person/Ann", "--snapshot", "nope"]),
        (6, ["blame", "Person/Ann", "--branch", "nope"]),
        (6, ["commit", "list", "--entity", "Person/Zoe"]),
        (6, ["commit", "list", "--type", "Nobody"]),
        (6, ["commit", "list", "--type", "Person", "--branch", "nope"]),
        (2, ["blame", "Person"]),
        (2, ["blame", "/Ann"]),
        (2, ["blame", "Person/Ann", "--format", "csv"]),
        (2, ["blame", "Person/Ann", "--branch", "dev", "--snapshot", "main"]),
        (2, ["commit", "list", "--entity", "Ann"]),
        (2, ["commit", "list", "--entity", "Person/Ann", "--type", "Person"]),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_what_is_not_there(code: int, words: list[str], place: Path, omnigraph: Omnigraph) -> None:
    done = omnigraph(*words, "--store", place)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith("error: ")


def test_what_cleanup_removed_is_said(tmp_path: Path, omnigraph: Omnigraph) -> None:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, Settings(fsync=False, actor="ann"))
    change(graph, 'insert Person { name: "Ann", age: 1 }', "insert")
    for age in range(2, 5):
        change(graph, f'update Person set {{ age: {age} }} where name = "Ann"', f"age {age}")
    for number in range(4):
        change(graph, f'insert Company {{ name: "c{number}" }}', "company")
    graph.cleanup(keep=3, grace_s=0, force=True)
    done = omnigraph("blame", "Person/Ann", "--store", tmp_path / "g", "--format", "table")
    last = graph.commit("main~4")
    assert last.message == "age 4"
    assert done.err == f"before {last.commit_id}: removed by cleanup\n"
    assert [line.split("\t")[2] for line in done.out.splitlines()[1:]] == [f"{last.commit_id} or before"] * 2
    found = blamed(omnigraph, tmp_path / "g", "Person/Ann")["properties"]
    assert [(each["message"], each["limit"]) for each in found] == [("age 4", "removed_by_cleanup")] * 2
    listed = omnigraph("commit", "list", tmp_path / "g", "--oneline", "--entity", "Person/Ann")
    assert [line.split()[-1] for line in listed.out.splitlines()] == ["4"]
    assert listed.err == f"at {graph.commit('main~5').commit_id} and before: removed by cleanup\n"
    types = messages(omnigraph, tmp_path / "g", "--type", "Person")
    assert types == ["age 4", "age 3", "age 2", "insert", None]
