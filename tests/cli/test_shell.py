"""`omnigraph shell`: statements, commands, and the prompt on a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph_cli.shell.statements import as_query, is_whole
from tests.support.processes import Omnigraph
from tests.support.terminal import on_a_terminal

SCHEMA = "node Person { name: String @key\n age: I32? }\nedge Knows: Person -> Person\n"


@pytest.fixture
def home(omnigraph: Omnigraph, tmp_path: Path) -> Path:
    (tmp_path / "s.pg").write_text(SCHEMA)
    assert omnigraph("init", "--schema", "s.pg").code == 0
    assert omnigraph("change", "-e", 'query q() { insert Person { name: "Ann", age: 30 } }').code == 0
    return tmp_path


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", True),
        ("\\d", True),
        ("match { $p: Person }", False),
        ("match { $p: Person } return { $p.name", False),
        ("match { $p: Person } return { $p.name }", True),
        ('insert Person { name: "}" ', False),
        ('insert Person { name: "a\\"}" }', True),
        ("insert Person { // }\n", False),
        ("query q() {\n", False),
        ("nonsense", False),
        ("nonsense\n\n", True),
    ],
)
def test_when_a_statement_is_whole(text: str, whole: bool) -> None:
    assert is_whole(text) is whole


def test_a_bare_match_is_a_query() -> None:
    assert as_query("match { }").startswith("query shell() {")
    assert as_query("query q() { }") == "query q() { }"


def test_statements_from_a_pipe(home: Path, omnigraph: Omnigraph) -> None:
    typed = (
        "match { $p: Person }\nreturn { $p.name,\n$p.age }\n"
        'insert Person { name: "Bob" }\n'
        "\\f csv\nmatch { $p: Person } return { $p.name }\n"
        "\\b\n\\d\n\\h Person 1\n\\g Person Ann\n\\l\n\\log 1\n\\nope\n\\branch x\n"
        "match { $p: Nope } return { $p.x }\n\\t\n\\q\n\\l\n"
    )
    done = omnigraph("shell", stdin=typed)
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[:4] == [
        "1 row from branch main via shell",
        "p.name | p.age",
        "-------+------",
        "Ann    |    30",
    ]
    assert lines[4] == "changed main: 1 node, 0 edges"
    assert lines[5].startswith("commit ")
    assert lines[6:9] == ["p.name", "Ann", "Bob"]
    assert "branch main" in lines
    assert lines[-1] == "timing is off"
    assert "there is no command \\nope" in done.err
    assert "did you mean \\b? \\? lists all" in done.err
    assert done.err.count("\nerror:") == 3
    assert done.err.count(" s\n") == 3


def test_a_shell_is_not_for_programs(home: Path, omnigraph: Omnigraph) -> None:
    assert omnigraph("shell", "--json").code == 2
    assert omnigraph("shell", "--branch", "nope").code == 6


def test_the_prompt_on_a_terminal(home: Path) -> None:
    environment = {"XDG_STATE_HOME": str(home / "state")}
    code, screen = on_a_terminal(
        "shell", cwd=home, typed=b"match { $p: Person } return { $p.name }\r\\q\r", at=b"main>", **environment
    )
    assert code == 0
    assert "1 row from branch main via shell" in screen
    assert "match { $p: Person }" in (home / "state" / "omnigraph" / "history").read_text()


def test_tab_completes_types_properties_and_branches(home: Path) -> None:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from omnigraph_cli.shell.prompt import Names
    from omnigraph_cli.shell.session import Session
    from omnigraph_core.graph import Graph
    from omnigraph_core.settings import Settings

    graph = Graph.open(str(home / "graph.omni"), Settings())
    session = Session(None, graph, "main")  # type: ignore[arg-type]

    def offered(text: str) -> list[str]:
        return [each.text for each in Names(session).get_completions(Document(text), CompleteEvent())]

    assert offered("match { $p: Per") == ["Person"]
    assert offered("match { $p: Person $p kn") == ["knows"]
    assert offered("return { $p.na") == ["$p.name"]
    assert offered("\\b ma") == ["main"]
    assert offered("\\f js") == ["json", "jsonl"]
    assert "\\log" in offered("\\l")
