"""Other spellings of commands and options, which existing scripts use: the same answers, byte for byte."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support.processes import Omnigraph
from tests.support.records import PEOPLE, S1, make_people, write_jsonl
from tests.support.trees import fingerprint

QUERY = "query q() { match { $p: Person } return { $p.name as n } order { n } }"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that these tests only read."""
    folder = tmp_path_factory.mktemp("spellings")
    make_people(folder / "g")
    (folder / "s.pg").write_text(S1)
    (folder / "q.gq").write_text(QUERY)
    return folder


@pytest.mark.parametrize(
    ("spelled", "plain"),
    [
        ("read --store g -e QUERY", "query --store g -e QUERY"),
        ("query --store g --expr QUERY", "query --store g -e QUERY"),
        ("query --store g --query-string QUERY", "query --store g -e QUERY"),
        ("query --store g --query q.gq --name q", "query q --store g --query q.gq"),
        ("check g --query q.gq", "lint g --query q.gq"),
        ("query lint g --query q.gq --json", "lint g --query q.gq --json"),
        ("query check --query q.gq --schema s.pg", "lint --query q.gq --schema s.pg"),
        ("query lint g --query none.gq", "lint g --query none.gq"),
        ("log g --json", "commit list g --json"),
        ("log g --oneline", "commit list g --oneline"),
        ("show main --store g", "commit show main --store g"),
        ("show g main --json", "commit show main --store g --json"),
        ("commit show g main", "commit show main --store g"),
        ("commit show g main --changes", "commit show main --changes --store g"),
        ("commit changes main --store g", "commit show main --changes --store g"),
        ("commit changes g main", "commit show main --changes --store g"),
        ("schema get g", "schema show g"),
        ("export g --jsonl", "export g --format jsonl"),
        ("export g --out -", "export g"),
        ("merge nothing --store g", "branch merge nothing --store g"),
        ("merge main --store g --dry-run", "branch merge main --store g --dry-run"),
    ],
)
def test_another_spelling_gives_the_same_answer(
    spelled: str, plain: str, place: Path, omnigraph: Omnigraph
) -> None:
    before = fingerprint(place)
    answers = []
    for line in (spelled, plain):
        words = [QUERY if word == "QUERY" else word for word in line.split()]
        done = omnigraph(*words, cwd=place)
        answers.append((done.code, done.out, re.sub("see `.*`", "", done.err)))
    assert answers[0] == answers[1]
    assert answers[0][1] or answers[0][2]
    assert fingerprint(place) == before


def test_mutate_with_a_query_string_and_a_name(omnigraph: Omnigraph, tmp_path: Path) -> None:
    make_people(tmp_path / "g")
    for option, name in (("--expr", "Eve"), ("--query-string", "Fay")):
        text = f'query add() {{ insert Person {{ name: "{name}" }} }}'
        assert omnigraph("mutate", "--store", "g", option, text, "--name", "add").code == 0
    found = omnigraph("export", "g", "--type", "Person").out
    assert {"Eve", "Fay"} <= {json.loads(line)["data"]["name"] for line in found.splitlines()}


def test_a_query_that_is_called_lint_is_run_by_name(place: Path, omnigraph: Omnigraph) -> None:
    text = QUERY.replace("query q", "query lint")
    done = omnigraph("query", "--store", "g", "-e", text, "--name", "lint", cwd=place)
    assert (done.code, done.out) == (0, omnigraph("query", "--store", "g", "-e", QUERY, cwd=place).out)


@pytest.mark.parametrize("verb", [["commit", "show"], ["commit", "changes"], ["show"]], ids=" ".join)
def test_a_commit_is_shown_of_one_graph(verb: list[str], place: Path, omnigraph: Omnigraph) -> None:
    twice = omnigraph(*verb, "g", "main", "--store", "g", cwd=place)
    assert (twice.code, "name the graph once" in twice.err) == (2, True)
    assert omnigraph(*verb, "g", "main", "more", cwd=place).code == 2
    assert omnigraph(*verb, cwd=place).code == 2
    assert omnigraph(*verb, "nowhere", "main", cwd=place).code == 6


def test_merge_is_branch_merge(omnigraph: Omnigraph, tmp_path: Path) -> None:
    make_people(tmp_path / "g")
    assert omnigraph("branch", "create", "dev", "--store", "g").code == 0
    insert = 'query q() { insert Person { name: "Eve" } }'
    assert omnigraph("change", "--store", "g", "--branch", "dev", "-e", insert).code == 0
    assert omnigraph("merge", "dev", "--store", "g").code == 0
    assert '"Eve"' in omnigraph("export", "g").out


def test_a_load_that_was_agreed_to_is_a_load(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    assert omnigraph("init", "--schema", people, "g").code == 0
    write_jsonl(tmp_path / "d.jsonl", [{"type": "Person", "data": {"name": "Ann"}}])
    assert omnigraph("load", "g", "--data", "d.jsonl", "--mode", "overwrite", "--yes").code == 0
    assert '"Ann"' in omnigraph("export", "g").out


ORPHANS = {"_schema.pg": PEOPLE, "_schema.ir.json": "{}", "__schema_state.json": "{}"}


def test_forcing_an_init_takes_over_the_schema_files_of_a_dead_one(
    omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    (tmp_path / "g").mkdir()
    for name, text in ORPHANS.items():
        (tmp_path / "g" / name).write_text("old " + text)
    before = fingerprint(tmp_path)
    refused = omnigraph("init", "--schema", people, "g")
    assert (refused.code, "--force" in refused.err) == (5, True)
    assert fingerprint(tmp_path) == before
    assert omnigraph("init", "--schema", people, "g", "--force").code == 0
    assert omnigraph("schema", "show", "g").out == PEOPLE
    assert omnigraph("doctor", "g").code == 0


def test_forcing_an_init_never_touches_a_graph(omnigraph: Omnigraph, people: Path, tmp_path: Path) -> None:
    assert omnigraph("init", "--schema", people, "g").code == 0
    before = fingerprint(tmp_path)
    done = omnigraph("init", "--schema", people, "g", "--force")
    assert (done.code, done.err) == (3, f"error: graph already initialized at {tmp_path}/g\n")
    assert fingerprint(tmp_path) == before


@pytest.mark.parametrize("other", ["notes.txt", "nodes/40d76f1f51639ec0/x", "__manifest/x", "_schema.pg/x"])
def test_forcing_an_init_takes_over_nothing_else(
    other: str, omnigraph: Omnigraph, people: Path, tmp_path: Path
) -> None:
    """A manifest without versions, tables, or a directory in place of a file may be a graph's remains."""
    path = tmp_path / "g" / other
    path.parent.mkdir(parents=True)
    path.write_text("precious")
    (tmp_path / "g/__schema_state.json").write_text("{}")
    before = fingerprint(tmp_path)
    assert omnigraph("init", "--schema", people, "g", "--force").code == 5
    assert fingerprint(tmp_path) == before


BEFORE = [
    ("--store g status", "status --store g"),
    ("--uri=g --json status", "status --store g --json"),
    ("--store g -- status", "status --store g"),
    ("--json --store g branch list", "branch list g --json"),
    ("branch --store g --json list", "branch list g --json"),
    ("--store g -q branch --json list", "branch list g -q --json"),
    ("--store g --branch main snapshot --json", "snapshot g --branch main --json"),
    ("--store g --snapshot main query -e QUERY --json", "query --store g --snapshot main -e QUERY --json"),
    ("--color never --full-ids --store g commit list", "commit list g --color never --full-ids"),
    ("--store g --json query lint --query q.gq", "lint g --query q.gq --json"),
    ("-vq --store g status", "status --store g -v -q"),
    ("--store none status --store g", "status --store g"),
    ("-mnew --as bob --lock-timeout 1 --store g branch merge none", "branch merge none --store g --as bob"),
    ("--json --store g statsu", "statsu --json"),
    ("--json --branch main version", "version --branch main --json"),
    ("--store g --json --version", "--version"),
    ("--json --store g branch --help", "branch --help"),
    ("--store g --nope status", "--nope status"),
    ("--json", ""),
]


@pytest.mark.parametrize(("before", "after"), BEFORE)
def test_shared_options_may_stand_before_the_command(
    before: str, after: str, place: Path, omnigraph: Omnigraph
) -> None:
    """The same exit code, and the same words on both streams."""
    seen = []
    for line in (before, after):
        done = omnigraph(*(QUERY if word == "QUERY" else word for word in line.split()), cwd=place)
        seen.append((done.code, done.out, done.err))
    assert seen[0] == seen[1]


def test_an_option_before_the_command_needs_its_value(omnigraph: Omnigraph) -> None:
    done = omnigraph("--json", "--store")
    assert (done.code, json.loads(done.err)["error"]) == (2, "--store needs a value")


def test_what_may_stand_before_the_command_is_what_commands_share() -> None:
    """And the commands of two words are those of the tree."""
    from omnigraph_cli import command_line, options, run, tree

    shared = {**run._COMMON, **run._WRITING, **run._LISTING, **run._PAGING, **run._PROGRESS}
    infos = [annotation.__metadata__[0] for annotation, _ in shared.values()]
    infos += [each.__metadata__[0] for each in (options.BranchOption, options.SnapshotOption)]
    names = {
        name for info in infos for name in (info.default, *(info.param_decls or ())) if isinstance(name, str)
    }
    names |= {
        f"--{key}"
        for key, (annotation, _) in shared.items()
        if not isinstance(annotation.__metadata__[0].default, str)
    }
    taken = command_line._FLAGS | command_line._VALUED | {f"-{each}" for each in command_line._SHORT_FLAGS}
    assert names - {"-V", "--version"} == taken
    whole = tree.command_for([])
    assert {name for name, each in whole.commands.items() if hasattr(each, "commands")} == command_line.GROUPS
