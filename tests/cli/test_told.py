"""What people are told when something is not as they think: what, where, and what to do."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings
from tests.support.processes import Omnigraph
from tests.support.programs import require_program
from tests.support.terminal import CTRL_D, on_a_terminal

SCHEMA = """
node Person { name: String @key }
node City { name: String @key }
edge Knows: Person -> Person
edge LivesIn: Person -> City @card(0..1)
"""
RECORDS = """\
{"type": "Person", "data": {"name": "Ann"}}
{"type": "City", "data": {"name": "Rome"}}
{"edge": "LivesIn", "from": "Ann", "to": "Rome"}
"""
INSERT = 'query q() { insert Person { name: "Eve" } }'
LOOK = "query q($who: String) { match { $p: Person { name: $who } } return { $p.name } }"


@pytest.fixture
def home(omnigraph: Omnigraph, tmp_path: Path) -> Path:
    """A directory with a graph in which Ann lives in Rome."""
    (tmp_path / "s.pg").write_text(SCHEMA)
    (tmp_path / "d.jsonl").write_text(RECORDS)
    assert omnigraph("init", "--schema", "s.pg").code == 0
    assert omnigraph("load", "--data", "d.jsonl", "--mode", "append").code == 0
    return tmp_path


def test_the_same_edges_again(home: Path, omnigraph: Omnigraph) -> None:
    again = omnigraph("load", "--data", "d.jsonl", "--mode", "append")
    assert (again.code, "@card violation" in again.err) == (7, True)
    assert (
        "hint: node:Person 'Ann' exists already: if the input was loaded before, use merge mode" in again.err
    )
    merged = omnigraph("load", "--data", "d.jsonl", "--mode", "merge")
    assert (merged.code, "hint: an edge without id is always a new one" in merged.err) == (7, True)


def test_all_records_rejected(home: Path, omnigraph: Omnigraph) -> None:
    (home / "bad.jsonl").write_text('{"type": "Person", "data": {"nme": "Ann"}}\n')
    done = omnigraph("load", "--data", "bad.jsonl", "--mode", "append", "--rejects", "r.jsonl")
    assert done.code == 7
    assert "every record was rejected; no commit was made" in done.err
    assert "has no records" not in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "--type", "Nope"),
        ("diff", "main~1", "main", "--type", "Nope"),
        ("commit", "list", "--type", "Nope"),
        ("blame", "Nope/x"),
        ("load", "--data", "d.csv", "--mode", "merge", "--type", "Nope"),
    ],
    ids=lambda each: each[0],
)
def test_a_type_that_is_not_there(arguments: tuple[str, ...], home: Path, omnigraph: Omnigraph) -> None:
    (home / "d.csv").write_text("name\nBob\n")
    done = omnigraph(*arguments)
    assert done.code == 6
    assert "there is no type 'Nope'" in done.err
    assert "hint: node types are: City, Person; edge types are: Knows, LivesIn\n" in done.err


@pytest.mark.parametrize("given", ["who", "=Ann"])
def test_a_parameter_without_name_or_value_is_wrong_usage(
    given: str, home: Path, omnigraph: Omnigraph
) -> None:
    done = omnigraph("query", "-e", LOOK, "--param", given)
    assert (done.code, f"--param: '{given}' is not NAME=VALUE" in done.err) == (2, True)
    assert omnigraph("query", "-e", LOOK, "--param", "who=Ann").out == '{"p.name": "Ann"}\n'


def test_a_graph_without_manifest_versions_is_damaged(home: Path, omnigraph: Omnigraph) -> None:
    shutil.rmtree(home / "graph.omni" / "__manifest" / "_versions")
    done = omnigraph("status", "--json")
    failure = json.loads(done.err)
    assert (done.code, failure["code"]) == (74, "storage")
    assert "__manifest has no versions" in failure["error"]
    assert omnigraph("status", "--store", home / "elsewhere").code == 6


def test_init_below_a_directory_with_a_config_makes_a_graph_there(home: Path, omnigraph: Omnigraph) -> None:
    below = home / "below"
    below.mkdir()
    done = omnigraph("init", "--schema", "../s.pg", cwd=below)
    assert (done.code, done.out) == (0, f"initialized {below}/graph.omni\n")
    assert f"{home}/omnigraph.toml, above this directory, names another graph; it was not used" in done.err
    assert (below / "omnigraph.toml").read_text() == 'store = "graph.omni"\n'
    assert omnigraph("status", cwd=below).out.startswith(f"graph {below}/graph.omni ")


def test_a_branch_keeps_its_message(home: Path, omnigraph: Omnigraph) -> None:
    assert omnigraph("branch", "create", "review", "-m", "for Eve").code == 0
    newest = json.loads(omnigraph("op", "log", "--limit", "1", "--json").out)["operations"][0]
    assert newest["message"] == "for Eve"


def test_a_list_that_repairs_says_so_and_the_repair_names_its_writer(
    home: Path, omnigraph_process: Omnigraph, omnigraph: Omnigraph
) -> None:
    killed = {"OMNIGRAPH_FAILPOINTS": "write.after_b=kill"}
    assert omnigraph_process("change", "-e", INSERT, "--as", "eve", environment=killed).code != 0
    operation = json.loads(omnigraph("recovery", "list", "--json").out)["pending"][0]["operation_id"]
    listed = omnigraph("commit", "list")
    assert f"recovered a write that was cut off: rolled forward {operation} on main" in listed.err
    shown = omnigraph("commit", "show", "main").out
    assert f"repair:    rolled forward a Mutation by eve, operation {operation}\n" in shown
    assert omnigraph("recovery", "show", operation[-8:]).out.startswith(f"operation {operation}: ")
    assert "recovered" not in omnigraph("commit", "list").err


def test_oneline_is_one_line(home: Path, omnigraph: Omnigraph) -> None:
    assert omnigraph("change", "-e", INSERT, "-m", "first\nsecond " + "東京" * 50).code == 0
    newest = omnigraph("log", "--oneline", "--limit", "1").out
    assert (newest.count("\n"), newest.endswith(" first\n")) == (1, True)
    assert len(omnigraph("log", "--oneline", "--full-ids", "--limit", "1").out.split()[0]) == 26
    assert omnigraph("change", "-e", INSERT.replace("Eve", "Bob"), "-m", "東京" * 50).code == 0
    _, screen = on_a_terminal("log", "--oneline", "--limit", "1", cwd=home, columns=40)
    assert screen.count("\n") == 1
    assert screen.rstrip().endswith("…")


def test_one_is_one(home: Path, omnigraph: Omnigraph) -> None:
    assert omnigraph("tag", "create", "v1").code == 0
    for arguments, title in (
        (("commit", "list", "--limit", "1"), "1 commit"),
        (("op", "log", "--limit", "1"), "1 operation"),
        (("tag", "list"), "1 tag"),
    ):
        _, screen = on_a_terminal(*arguments, cwd=home)
        assert screen.splitlines()[0] == title


def test_a_terminal_is_told_that_it_is_read_and_how_to_end(home: Path) -> None:
    said = b"reading text from the terminal; end it with Ctrl-D"
    code, screen = on_a_terminal(
        "change", "--query", "-", cwd=home, typed=INSERT.encode() + b"\n" + CTRL_D, at=said
    )
    assert (code, "changed main via q: 1 node" in screen) == (0, True)


def test_a_graph_that_may_not_be_written_is_refused_before_the_input_is_read(
    home: Path, omnigraph_process: Omnigraph
) -> None:
    (home / "graph.omni").chmod(0o555)
    (home / "big.jsonl").write_text("this is no record\n")
    done = omnigraph_process(
        *("load", "--data", "big.jsonl", "--mode", "append"),
        prefix=(require_program("setpriv"), "--bounding-set=-dac_override,-dac_read_search"),
    )
    (home / "graph.omni").chmod(0o755)
    assert (done.code, "cannot write to " in done.err) == (74, True)


def test_a_wait_for_a_lock_says_who_holds_it(home: Path, omnigraph: Omnigraph) -> None:
    graph = Graph.open(str(home / "graph.omni"), Settings(actor="ann"), OpenMode.READ_WRITE)
    with graph.door.storage.locks.lock(layout.branch_lock("main"), doing="a long load").acquire():
        done = omnigraph("change", "-e", INSERT, "--lock-timeout", "3")
        quiet = omnigraph("change", "-e", INSERT, "--lock-timeout", "2", "-q")
    assert done.code == quiet.code == 8
    lock = layout.branch_lock("main")
    said = f"waiting for the lock '{lock}', held by ann (a long load), pid {os.getpid()}"
    assert done.err.startswith(said)
    assert done.err.count("waiting for") == 1
    assert "waiting for" not in quiet.err


def test_progress_as_json_lines(home: Path, omnigraph: Omnigraph) -> None:
    done = omnigraph("load", "--data", "d.jsonl", "--mode", "overwrite", "--progress", "json", "-q")
    events = [json.loads(line)["progress"] for line in done.err.splitlines()]
    phases = [event["phase"] for event in events]
    assert (done.code, phases[0], phases[-1]) == (0, "read", "index")
    assert {"check", "write", "publish"} <= set(phases)
    assert set(events[0]) == {"phase", "done", "total", "unit", "seconds"}
    assert omnigraph("load", "--data", "d.jsonl", "--mode", "merge", "--progress", "x").code == 2


def test_progress_on_a_terminal_goes_away_and_is_off_in_a_dumb_one(home: Path) -> None:
    load = ("load", "--data", "d.jsonl", "--mode", "overwrite")
    # A load that is over before the first line is due draws nothing.
    asleep = {"OMNIGRAPH_FAILPOINTS": "write.after_b=sleep:1000"}
    _, screen = on_a_terminal(*load, cwd=home, columns=40, **asleep)
    drawn, _, left = screen.rpartition("\r\033[K")
    assert left.startswith("loaded main (overwrite): 3 entities")
    assert all(line.count("\n") <= 1 for line in drawn.split("\r\033[K"))
    for environment, options in (({"TERM": "dumb"}, ()), ({}, ("--progress", "off"))):
        _, screen = on_a_terminal(*load, *options, cwd=home, **environment, **asleep)
        assert "\r\033[K" not in screen
