"""Which graph and branch a command is about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes import Omnigraph


@pytest.fixture
def two_graphs(omnigraph: Omnigraph, tmp_path: Path) -> Path:
    for name in ("one", "two"):
        assert (
            omnigraph("init", "--schema", "-", name, stdin=f"node {name.title()} {{ k: String @key }}").code
            == 0
        )
    return tmp_path


def tables(answer: str) -> list[str]:
    return [table["table_key"] for table in json.loads(answer)["tables"]]


def test_option_and_positional(two_graphs: Path, omnigraph: Omnigraph) -> None:
    assert tables(omnigraph("snapshot", "one", "--json").out) == ["node:One"]
    assert tables(omnigraph("snapshot", "--store", "two", "--json").out) == ["node:Two"]
    assert tables(omnigraph("snapshot", "--uri", "two", "--json").out) == ["node:Two"]
    both = omnigraph("snapshot", "--store", "one", "two")
    assert (both.code, "both --store" in both.err) == (2, True)


def test_precedence(two_graphs: Path, omnigraph: Omnigraph) -> None:
    (two_graphs / "omnigraph.toml").write_text('store = "two"\n')
    assert tables(omnigraph("snapshot", "--json").out) == ["node:Two"]
    assert tables(omnigraph("snapshot", "--json", environment={"OMNIGRAPH_STORE": "one"}).out) == ["node:One"]
    assert tables(omnigraph("snapshot", "two", "--json", environment={"OMNIGRAPH_STORE": "one"}).out) == [
        "node:Two"
    ]


def test_the_working_directory_itself(two_graphs: Path, omnigraph: Omnigraph) -> None:
    assert tables(omnigraph("snapshot", "--json", cwd=two_graphs / "one").out) == ["node:One"]


def test_nowhere(omnigraph: Omnigraph, tmp_path: Path) -> None:
    done = omnigraph("snapshot")
    assert done.code == 6
    for place in ("--store", "OMNIGRAPH_STORE", "omnigraph.toml", str(tmp_path)):
        assert place in done.err


def test_verbose_says_which_and_why(two_graphs: Path, omnigraph: Omnigraph) -> None:
    done = omnigraph("snapshot", "-v", environment={"OMNIGRAPH_STORE": "one"})
    said = [line for line in done.err.splitlines() if not line.startswith("started ")]
    assert said == ["graph one (from OMNIGRAPH_STORE)"]


@pytest.mark.parametrize("place", ["http://host/g", "https://host/g", "ftp://host/g", "file://host/g", ""])
def test_places_that_cannot_be(place: str, omnigraph: Omnigraph) -> None:
    assert omnigraph("snapshot", "--store", place).code == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("store = ", "not valid TOML"),
        ("stroe = 'x'", "unknown key 'stroe'"),
        ("store = 3", "must be a non-empty string"),
    ],
)
def test_a_broken_config_file(content: str, message: str, omnigraph: Omnigraph, tmp_path: Path) -> None:
    (tmp_path / "omnigraph.toml").write_text(content)
    done = omnigraph("snapshot")
    assert done.code == 2
    assert message in done.err
    assert str(tmp_path / "omnigraph.toml") in done.err


@pytest.mark.parametrize(
    ("variable", "value"),
    [("OMNIGRAPH_LOCK_TIMEOUT", "soon"), ("OMNIGRAPH_FSYNC", "maybe"), ("OMNIGRAPH_FAILPOINTS", "x")],
)
def test_a_broken_environment(variable: str, value: str, two_graphs: Path, omnigraph: Omnigraph) -> None:
    done = omnigraph("snapshot", "one", environment={variable: value})
    assert done.code == 2
    assert variable in done.err


def test_branch_precedence(two_graphs: Path, omnigraph: Omnigraph) -> None:
    for arguments, environment in (
        (["--branch", "nope"], {}),
        ([], {"OMNIGRAPH_BRANCH": "nope"}),
    ):
        done = omnigraph("snapshot", "one", *arguments, environment=environment)
        assert (done.code, "branch 'nope' does not exist" in done.err) == (6, True)
    wins = omnigraph("snapshot", "one", "--branch", "main", environment={"OMNIGRAPH_BRANCH": "nope"})
    assert wins.code == 0


def test_refs(two_graphs: Path, omnigraph: Omnigraph) -> None:
    shown = json.loads(omnigraph("snapshot", "one", "--json").out)
    commit = shown["graph_commit_id"]
    for ref in ("main", commit, commit[:12], commit[-8:], commit[-8:].lower(), "main~0", "main@{2999-01-01}"):
        assert json.loads(omnigraph("snapshot", "one", "--snapshot", ref, "--json").out) == shown
    for ref in ("main~1", commit[-7:], "0" * 26, "tag:x", "main@{2001-01-01}", "~", "@{}"):
        assert omnigraph("snapshot", "one", "--snapshot", ref).code == 6, ref
    assert omnigraph("snapshot", "one", "--snapshot", "main@{yesterday}").code == 2
    assert omnigraph("snapshot", "one", "--snapshot", "main", "--branch", "main").code == 2
