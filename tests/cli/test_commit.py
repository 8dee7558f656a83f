"""`omnigraph commit list|show` and `omnigraph status` as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.processes import Omnigraph
from tests.support.records import PEOPLE
from tests.support.terminal import on_a_terminal
from tests.support.trees import fingerprint
from tests.support.writers import write_three


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that these tests only read: main with a, b and c; dev from b with d and e."""
    root = tmp_path_factory.mktemp("history") / "g"
    graph = Graph.init(str(root), PEOPLE, Settings(fsync=False), actor="ann", message="first\tday")
    write_three(graph, "a", actor="ann")
    write_three(graph, "b", actor="bob")
    graph.create_branch("dev")
    write_three(graph, "c", actor="ann")
    write_three(graph, "d", "dev", actor="bob")
    write_three(graph, "e", "dev", actor="cat")
    return root


def commits(place: Path, omnigraph: Omnigraph, *arguments: str) -> list[str]:
    """The last word of the messages of a listing, in its order."""
    done = omnigraph("commit", "list", place, "--json", *arguments)
    assert (done.code, done.err) == (0, "")
    return [each["message"].split()[-1] for each in json.loads(done.out)["commits"]]


def test_all_branches_newest_first(place: Path, omnigraph: Omnigraph) -> None:
    assert commits(place, omnigraph) == ["e", "d", "c", "b", "a", "day"]


def test_one_branch_is_everything_it_descends_from(place: Path, omnigraph: Omnigraph) -> None:
    assert commits(place, omnigraph, "--branch", "dev") == ["e", "d", "b", "a", "day"]
    assert commits(place, omnigraph, "--branch", "main") == ["c", "b", "a", "day"]
    missing = omnigraph("commit", "list", place, "--branch", "nope", "--json")
    assert (missing.code, json.loads(missing.err)["branch"]) == (6, "nope")


def test_the_variable_for_the_branch_is_not_a_filter(place: Path, omnigraph: Omnigraph) -> None:
    """Without --branch the listing is of all branches, whatever branch is worked on."""
    done = omnigraph("commit", "list", place, "--json", environment={"OMNIGRAPH_BRANCH": "dev"})
    assert len(json.loads(done.out)["commits"]) == 6


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--limit", "2"], ["e", "d"]),
        (["--limit", "0"], []),
        (["--limit", "99"], ["e", "d", "c", "b", "a", "day"]),
        (["--filter", "actor=bob"], ["d", "b"]),
        (["--filter", "actor=bob", "--filter", "branch=dev"], ["d"]),
        (["--filter", "actor=bob", "--filter", "actor=cat"], ["e", "d", "b"]),
        (["--filter", "actor=bob", "--filter", "actor=cat", "--filter", "branch=main"], ["b"]),
        (["--filter", "actor=ann", "--limit", "1"], ["c"]),
        (["--filter", "operation=init"], ["day"]),
        (["--filter", "message=write c"], ["c"]),
        (["--filter", "actor=nobody"], []),
        (["--filter", "actor=omnigraph:recovery"], []),
        (["--filter", "actor="], []),
        (["--filter", "message=a=b"], []),
        (["--branch", "dev", "--filter", "branch=main"], ["b", "a", "day"]),
    ],
    ids=" ".join,
)
def test_limits_and_filters(
    arguments: list[str], expected: list[str], place: Path, omnigraph: Omnigraph
) -> None:
    assert commits(place, omnigraph, *arguments) == expected


@pytest.mark.parametrize(
    "arguments",
    [
        ["--limit", "-1"],
        ["--limit", "x"],
        ["--filter", "actor"],
        ["--filter", "=ann"],
        ["--filter", "colour=red"],
    ],
    ids=" ".join,
)
def test_listings_that_make_no_sense(arguments: list[str], place: Path, omnigraph: Omnigraph) -> None:
    done = omnigraph("commit", "list", place, *arguments)
    assert (done.code, done.out) == (2, "")


def test_the_shape_of_a_commit(place: Path, omnigraph: Omnigraph) -> None:
    newest, older = json.loads(omnigraph("commit", "list", place, "--json", "--limit", "2").out)["commits"]
    assert newest.keys() == {
        "graph_commit_id",
        "manifest_branch",
        "manifest_version",
        "parent_commit_id",
        "merged_parent_commit_id",
        "actor_id",
        "created_at",
        "operation",
        "message",
        "schema_hash",
        "details",
        "removed",
    }
    assert newest["parent_commit_id"] == older["graph_commit_id"]
    assert (newest["manifest_branch"], newest["actor_id"], newest["operation"]) == ("dev", "cat", "load")
    assert newest["merged_parent_commit_id"] is None
    assert newest["created_at"] > older["created_at"] > 1_600_000_000_000_000
    assert newest["schema_hash"].startswith("sha256:")
    shown = json.loads(omnigraph("commit", "show", "dev", "--store", place, "--json").out)
    files, *_ = (shown["details"].pop(key) for key in ("files", "state", "seal"))
    assert {**shown, "details": shown["details"] or None} == newest
    assert len(files) == 3
    assert all(digest.startswith("sha256:") for digest in files.values())


def test_show_takes_any_ref(place: Path, omnigraph: Omnigraph) -> None:
    dev = json.loads(omnigraph("commit", "show", "dev", "--store", place, "--json").out)["graph_commit_id"]
    for ref, message in (
        ("main", "c"),
        ("dev~1", "d"),
        ("dev~2", "b"),
        (dev, "e"),
        (dev[-8:], "e"),
        (dev[-8:] + "~", "d"),
        ("dev@{2999-01-01}", "e"),
    ):
        done = omnigraph("commit", "show", ref, "--store", place, "--json")
        assert json.loads(done.out)["message"] == f"write {message}"
    for ref, code in (("nope", 6), ("dev~9", 6), ("", 6), ("main@{soon}", 2), ("~", 6)):
        done = omnigraph("commit", "show", ref, "--store", place, "--json")
        assert (done.code, json.loads(done.err)["exit"]) == (code, code)
    assert omnigraph("commit", "show", "--store", place).code == 2


def test_for_people(place: Path, omnigraph: Omnigraph, tmp_path: Path) -> None:
    lines = omnigraph("commit", "list", place).out.splitlines()
    assert lines[0].split("\t") == ["commit", "when", "branch", "actor", "operation", "message"]
    assert lines[1].split("\t")[2:] == ["dev", "cat", "load", "write e"]
    assert lines[-1].split("\t")[2:] == ["main", "ann", "init", "first\\tday"]
    short = omnigraph("commit", "list", place, "--oneline", "--limit", "2").out.splitlines()
    assert short == [f"{lines[1].split()[0][-8:]} dev cat write e", f"{lines[2][18:26]} dev bob write d"]
    assert omnigraph("commit", "list", place, "--oneline", "--limit", "0").out.strip() == ""
    text = omnigraph("commit", "show", "dev", "--store", place).out
    assert text.startswith(f"commit:    {lines[1].split()[0]}\nbranch:    dev, manifest version ")
    assert text.endswith("\n\n    write e\n")
    code, screen = on_a_terminal("commit", "list", place, cwd=tmp_path)
    assert (code, screen.startswith("6 commits")) == (0, True)


def test_status(place: Path, omnigraph: Omnigraph) -> None:
    done = omnigraph("status", place, "--json")
    assert (done.code, done.err) == (0, "")
    answer = json.loads(done.out)
    assert answer.keys() == {
        "uri",
        "from",
        "branch",
        "graph_commit_id",
        "manifest_version",
        "branches",
        "tables",
        "pending",
        "made_by",
        "unreadable",
        "locks",
    }
    assert (answer["uri"], answer["from"], answer["branch"]) == (str(place), "argument", "main")
    assert (answer["branches"], answer["pending"], answer["locks"]) == (["dev", "main"], [], [])
    assert {each["table_key"]: each["row_count"] for each in answer["tables"]} == {
        "edge:Knows": 3,
        "edge:WorksAt": 0,
        "node:Company": 3,
        "node:Person": 3,
    }
    elsewhere = omnigraph(
        "status", environment={"OMNIGRAPH_BRANCH": "dev", "OMNIGRAPH_STORE": str(place)}
    ).out.splitlines()
    assert elsewhere[0] == f"graph {place} (from OMNIGRAPH_STORE)"
    assert elsewhere[1].startswith("branch dev, head ")
    assert "  node:Person   4" in elsewhere
    assert omnigraph("status", place, environment={"OMNIGRAPH_BRANCH": "nope"}).code == 6
    assert omnigraph("status").code == 6


def test_looking_changes_nothing(place: Path, omnigraph: Omnigraph) -> None:
    before = fingerprint(place)
    for command in (["commit", "list"], ["status"], ["branch", "list"], ["recovery", "list"]):
        assert omnigraph(*command, place).code == 0
    assert omnigraph("commit", "show", "dev~1", "--store", place).code == 0
    assert fingerprint(place) == before


def test_digests_of_files_are_shown_and_not_listed(place: Path, omnigraph: Omnigraph) -> None:
    shown = json.loads(omnigraph("commit", "show", "main", "--store", place, "--json").out)
    assert len(shown["details"]["files"]) == 3
    assert all(digest.startswith("sha256:") for digest in shown["details"]["files"].values())
    listed = json.loads(omnigraph("commit", "list", place, "--json").out)["commits"]
    assert [each["details"] for each in listed] == [None] * 6
