"""`get`, `head`, `describe`, `branch list --long`, `config list`: a first look, without a query."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes import Omnigraph
from tests.support.terminal import on_a_terminal

SCHEMA = """
node Person { name: String @key
  age: I32?
  born: Date?
  photo: Blob?
  tags: [String]? }
edge Knows: Person -> Person { since: I32? }
"""
RECORDS = """\
{"type": "Person", "data": {"name": "Ann", "age": 30, "born": "1990-01-02", "photo": "base64:AAEC"}}
{"type": "Person", "data": {"name": "Bob", "tags": ["a"]}}
{"edge": "Knows", "from": "Ann", "to": "Bob", "data": {"id": "k1", "since": 2001}}
"""


@pytest.fixture
def home(omnigraph: Omnigraph, tmp_path: Path) -> Path:
    (tmp_path / "s.pg").write_text(SCHEMA)
    (tmp_path / "d.jsonl").write_text(RECORDS)
    assert omnigraph("init", "--schema", "s.pg").code == 0
    assert omnigraph("load", "--data", "d.jsonl", "--mode", "append", "-m", "first").code == 0
    return tmp_path


def test_get(home: Path, omnigraph: Omnigraph) -> None:
    ann = json.loads(omnigraph("get", "Person", "Ann").out)
    data = {"name": "Ann", "age": 30, "born": "1990-01-02", "photo": 3, "tags": None}
    assert ann == {"kind": "node", "type": "Person", "id": "Ann", "data": data}
    edge = json.loads(omnigraph("get", "Knows", "k1", "--json").out)
    assert (edge["kind"], edge["from"], edge["to"], edge["data"]) == ("edge", "Ann", "Bob", {"since": 2001})
    assert omnigraph("get", "Person", "Zoe").code == omnigraph("get", "Nope", "x").code == 6
    assert omnigraph("get", "Person", "Ann", "--snapshot", "main~1").code == 6
    _, screen = on_a_terminal("get", "Person", "Ann", cwd=home, columns=40)
    assert [line.split() for line in screen.splitlines()][:3] == [
        ["node", "Person"],
        ["id", "Ann"],
        ["age", "30"],
    ]


def test_head(home: Path, omnigraph: Omnigraph) -> None:
    found = [json.loads(line)["id"] for line in omnigraph("head", "Person").out.splitlines()]
    assert found == ["Ann", "Bob"]
    assert len(omnigraph("head", "Person", "-n", "1").out.splitlines()) == 1
    assert omnigraph("head", "Person", "-n", "0").out == ""
    assert omnigraph("head", "Person", "-n", "-1").code == 2
    assert len(json.loads(omnigraph("head", "node:Person", "--json").out)["entities"]) == 2
    assert omnigraph("head", "edge:Person").out == ""


def test_describe(home: Path, omnigraph: Omnigraph) -> None:
    every = json.loads(omnigraph("describe", "--json").out)["types"]
    assert [(each["kind"], each["type"], each["rows"]) for each in every] == [
        ("node", "Person", 2),
        ("edge", "Knows", 1),
    ]
    (person,) = json.loads(omnigraph("describe", "Person", "--json").out)["types"]
    columns = {each["name"]: each for each in person["columns"]}
    assert (person["rows"], columns["age"]["nulls"], columns["age"]["min"]) == (2, 1, 30)
    assert (columns["born"]["type"], columns["born"]["max"]) == ("Date?", "1990-01-02")
    assert (columns["photo"]["nulls"], columns["tags"]["min"], columns["name"]["max"]) == (1, None, "Bob")


def test_branches_with_their_heads(home: Path, omnigraph: Omnigraph) -> None:
    assert omnigraph("branch", "create", "review").code == 0
    insert = 'query q() { insert Person { name: "Eve" } }'
    assert omnigraph("change", "--branch", "review", "-e", insert, "--as", "eve").code == 0
    assert omnigraph("branch", "list").out == "main\nreview\n"
    heads = json.loads(omnigraph("branch", "list", "--long", "--json").out)["heads"]
    assert [(each["name"], each["ahead"], each["behind"]) for each in heads] == [
        ("main", 0, 0),
        ("review", 1, 0),
    ]
    assert heads[1]["actor"] == "eve"
    _, screen = on_a_terminal("branch", "list", cwd=home)
    assert screen.splitlines()[0] == "2 branches"
    assert "review" in screen
    code, screen = on_a_terminal("branch", "delete", "review", cwd=home, typed=b"n\n", at=b"?")
    assert (code, "with 1 commit that no other branch has?" in screen) == (5, True)
    code, screen = on_a_terminal("branch", "delete", "review", "--no-input", cwd=home)
    assert (code, "--no-input" in screen) == (5, True)


def test_the_users_config_is_below_the_projects(home: Path, omnigraph: Omnigraph) -> None:
    folder = home / "xdg" / "omnigraph"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('store = "/elsewhere"\nactor = "ann"\nbranch = "dev"\npager = ""\n')
    environment = {"XDG_CONFIG_HOME": str(home / "xdg")}
    found = json.loads(omnigraph("config", "list", "--json", environment=environment).out)["settings"]
    by_name = {each["name"]: (each["value"], each["origin"]) for each in found}
    user = str(folder / "config.toml")
    assert by_name["store"] == ("graph.omni", str(home / "omnigraph.toml"))
    assert by_name["actor"] == ("ann", user)
    assert by_name["branch"] == ("dev", user)
    assert by_name["fsync"][1] == "OMNIGRAPH_FSYNC"
    shown = omnigraph("config", "list", "--show-origin", environment=environment).out
    assert f"actor\tann\t{user}" in shown
    change = omnigraph(
        *("change", "--branch", "main", "--json", "-e", 'query q() { insert Person { name: "Eve" } }'),
        environment={**environment, "OMNIGRAPH_ACTOR": ""},
    )
    assert json.loads(change.out)["actor_id"] == "ann"
    (folder / "config.toml").write_text("colour = 'red'\n")
    assert omnigraph("status", environment=environment).code == 2
