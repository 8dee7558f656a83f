"""Every command as it is installed, and the same in a process that starts warm, as most tests run it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from omnigraph_cli.tree import COMMANDS
from tests.support.processes import Finished, Omnigraph
from tests.support.records import D1, S1, make_people, write_jsonl

QUERY = "query q() { match { $p: Person } return { $p.name as n } order { n } }"
LINES: dict[str, tuple[tuple[str, ...], ...]] = {
    "init": (("init", "--schema", "s.pg", "new"), ("init", "--schema", "s.pg", "g", "--json")),
    "load": (("load", "g", "--data", "d.jsonl", "--mode", "merge"), ("load", "g", "--data", "-", "--json")),
    "change": (("change", "--store", "g", "-e", 'query q() { insert Person { name: "Eve" } }'),),
    "query": (("query", "--store", "g", "--query", "-"), ("read", "--store", "g", "-e", "no")),
    "help": (("help", "refs"), ("help", "nope")),
    "shell": (("shell", "g", "--json"),),
    "look": (
        ("get", "Person", "Ann", "--store", "g"),
        ("head", "Person", "--store", "g"),
        ("describe", "--store", "g"),
    ),
    "config": (("config", "list"),),
    "index": (("index", "build", "g"),),
    "lint": (("lint", "--schema", "s.pg", "--query", "-"),),
    "export": (("export", "g"),),
    "blob": (("blob", "get", "node", "Person", "Ann", "name", "--store", "g"),),
    "status": (("status", "g", "--json"),),
    "snapshot": (("snapshot", "g"), ("snapshot", "gräph"), ("snapshot", "g", "--color", "always")),
    "branch": (("branch", "create", "b", "--store", "g"), ("branch", "list", "g", "--json")),
    "merging": (("revert", "main", "--store", "g", "--dry-run", "--json"),),
    "commit": (("commit", "list", "g"), ("show", "g", "main")),
    "diff": (("diff", "main", "--store", "g"),),
    "schema": (("schema", "show", "g"), ("schema", "plan", "g", "--schema", "s.pg")),
    "tag": (("tag", "create", "v1", "--store", "g"), ("tag", "list", "g", "--json")),
    "cleanup": (("cleanup", "g", "--keep", "3", "--dry-run"),),
    "doctor": (("doctor", "g"),),
    "optimize": (("optimize", "g", "--dry-run"),),
    "repair": (("repair", "g", "--json"),),
    "recovery": (("recovery", "run", "g"),),
    "relocate": (("relocate", "g", "--json"),),
    "spark": (("spark", "submit", "--help"), ("spark", "nope")),
    "completion": (("completion", "zsh"),),
    "undo": (("undo", "--store", "g", "--dry-run"), ("undo", "nothing", "--store", "g")),
    "op": (("op", "log", "g", "--limit", "1"),),
    "blame": (("blame", "Person/Ann", "--store", "g"),),
    "maintain": (("maintain", "g", "--keep", "2"),),
    "warm": (("warm", "nope"),),
    "adopt": (("adopt", "g", "--dry-run"),),
    "version": (("version",),),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared")
    make_people(folder / "g")
    (folder / "s.pg").write_text(S1)
    write_jsonl(folder / "d.jsonl", D1)
    return folder


def test_every_command_is_here() -> None:
    assert set(LINES) == set(COMMANDS)


@pytest.mark.parametrize("command", LINES)
def test_both_ways_are_the_same(
    command: str, prepared: Path, omnigraph: Omnigraph, omnigraph_process: Omnigraph, tmp_path: Path
) -> None:
    """Code, output and errors; what tells one run from another (ids, times) left out."""
    place = tmp_path / "place"
    for line in LINES[command]:
        found = []
        for run in (omnigraph, omnigraph_process):
            shutil.copytree(prepared, place)
            found.append(without_ids(run(*line, stdin=QUERY, cwd=place)))
            shutil.rmtree(place)
        assert found[0] == found[1], line


def without_ids(done: Finished) -> Finished:
    def plain(text: str) -> str:
        text = re.sub(r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "ID", text)
        text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
        return re.sub(r"\b\d+\.\d+ s\b", "SECONDS", text)

    return Finished(done.code, plain(done.out), plain(done.err))
