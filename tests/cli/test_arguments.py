"""Arguments, variables and working directories that nobody should give, and somebody will."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.processes import OMNIGRAPH, Finished, Omnigraph, clean_environment
from tests.support.trees import fingerprint

NOT_TEXT = os.fsdecode(b"\xff")
NEEDS_NOTHING = (["version"], ["--version"], ["--help"], ["init", "--help"], ["completion", "bash"])


@pytest.fixture
def graph(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> Path:
    assert omnigraph("init", "--schema", people, "g").code == 0
    return tmp_path / "g"


@pytest.mark.parametrize(
    "arguments",
    [
        ["init", "--schema", "people.pg", "g", "--as", NOT_TEXT],
        ["init", "--schema", "people.pg", "g", "--message", NOT_TEXT],
        ["init", "--schema", NOT_TEXT, "g"],
        ["init", "--schema", "people.pg", NOT_TEXT],
        ["snapshot", "g", "--branch", NOT_TEXT],
        ["snapshot", "g", "--snapshot", NOT_TEXT],
        [NOT_TEXT],
    ],
    ids=ascii,
)
@pytest.mark.parametrize("more", [[], ["--json"]], ids=["human", "json"])
def test_arguments_that_are_not_text(
    arguments: list[str], more: list[str], omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    before = fingerprint(tmp_path)
    done = omnigraph(*arguments, *more)
    assert (done.code, done.out) == (2, "")
    assert "not UTF-8" in done.err
    assert len(done.err.splitlines()) == 1
    assert not more or json.loads(done.err)["code"] == "usage"
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize("variable", ["OMNIGRAPH_ACTOR", "OMNIGRAPH_BRANCH", "OMNIGRAPH_STORE"])
def test_variables_that_are_not_text(variable: str, omnigraph: Omnigraph, people: Path) -> None:
    done = omnigraph("init", "--schema", people, environment={variable: NOT_TEXT})
    assert (done.code, done.err) == (2, f"error: {variable}: '\\udcff' is not UTF-8 text\n")


def test_a_user_name_that_is_not_text(omnigraph: Omnigraph, people: Path) -> None:
    """`user@host` is a default that nobody asked for: it must never be what fails."""
    names = dict.fromkeys(("LOGNAME", "USER", "LNAME", "USERNAME"), NOT_TEXT)
    assert omnigraph("init", "--schema", people, "g", environment=names).code == 0
    (commit,) = json.loads(omnigraph("commit", "list", "g", "--json").out)["commits"]
    assert commit["actor_id"].startswith("\\udcff@")


@pytest.mark.parametrize("name", ["branch", "snapshot", "store", "color"])
def test_empty_options_of_a_read(name: str, graph: Path, omnigraph: Omnigraph) -> None:
    place = [] if name == "store" else [graph]
    for form in ([f"--{name}", ""], [f"--{name}="]):
        done = omnigraph("snapshot", *place, *form)
        assert (done.code, done.out) == (2, "")
        assert f"--{name}" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["branch", "create", "b", "--store", "g", "--from", ""],
        ["branch", "create", "b", "--store", "g", "--as", ""],
        ["branch", "create", "b", "--uri", ""],
        ["branch", "list", ""],
        ["commit", "list", "g", "--filter", ""],
        ["commit", "list", "g", "--branch", ""],
        ["schema", "show", "g", "--snapshot", ""],
        ["init", "--schema", "", "h"],
        ["init", "--schema", "people.pg", ""],
    ],
    ids=" ".join,
)
def test_empty_options(arguments: list[str], graph: Path, omnigraph: Omnigraph, tmp_path: Path) -> None:
    before = fingerprint(tmp_path)
    done = omnigraph(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "empty" in done.err or "--filter" in done.err
    assert "error: :" not in done.err
    assert fingerprint(tmp_path) == before


def test_an_empty_message_is_a_message(omnigraph: Omnigraph, people: Path) -> None:
    assert omnigraph("init", "--schema", people, "--message", "").code == 0


def in_a_deleted_directory(tmp_path: Path, *arguments: str) -> Finished:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", 'rmdir ../gone; exec "$0" "$@"', OMNIGRAPH, *arguments],
        cwd=gone,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def test_a_deleted_working_directory(tmp_path: Path) -> None:
    done = in_a_deleted_directory(tmp_path, "snapshot", "g")
    assert (done.code, done.out) == (2, "")
    assert "working directory" in done.err
    assert len(done.err.splitlines()) <= 2


@pytest.mark.parametrize("arguments", NEEDS_NOTHING, ids=" ".join)
def test_what_works_in_a_deleted_working_directory(arguments: list[str], tmp_path: Path) -> None:
    done = in_a_deleted_directory(tmp_path, *arguments)
    assert (done.code, done.err) == (0, "")


def test_a_working_directory_that_cannot_be_searched(omnigraph: Omnigraph, tmp_path: Path) -> None:
    """Deeper than the system's longest path: looking for `omnigraph.toml` fails with an error."""
    deep = tmp_path
    while len(str(deep)) < 4080:
        deep = deep / ("d" * min(200, 4088 - len(str(deep))))
    deep.mkdir(parents=True)
    done = omnigraph("snapshot", "g", cwd=deep)
    assert done.code == 2
    assert "omnigraph.toml" in done.err
    assert "Traceback" not in done.err
    assert omnigraph("version", cwd=deep).code == 0


@pytest.mark.parametrize("arguments", NEEDS_NOTHING, ids=" ".join)
def test_what_works_beside_a_broken_config_file(
    arguments: list[str], omnigraph: Omnigraph, tmp_path: Path
) -> None:
    (tmp_path / "omnigraph.toml").write_text("store = ")
    done = omnigraph(*arguments, environment={"OMNIGRAPH_LOCK_TIMEOUT": "soon"})
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(("ref", "code"), [("main~" + "9" * 5000, 2), ("main" + "~" * 2000, 2)])
def test_endless_refs(ref: str, code: int, graph: Path, omnigraph: Omnigraph) -> None:
    done = omnigraph("snapshot", graph, "--snapshot", ref)
    assert done.code == code
    assert len(done.err) < 400


@pytest.mark.parametrize("how", ["option", "environment"])
def test_nobody_may_sign_as_omnigraph(how: str, omnigraph: Omnigraph, people: Path) -> None:
    arguments = ["--as", "omnigraph:recovery"] if how == "option" else []
    environment = {} if how == "option" else {"OMNIGRAPH_ACTOR": "omnigraph:recovery"}
    done = omnigraph("init", "--schema", people, *arguments, environment=environment)
    assert (done.code, "reserved" in done.err) == (5, True)
