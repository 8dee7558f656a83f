"""`omnigraph branch create|list|delete` as a user meets them."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.processes import Omnigraph
from tests.support.terminal import CTRL_C, CTRL_D, on_a_terminal
from tests.support.trees import fingerprint
from tests.support.writers import check_whole, write_three

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture
def graph(graph: Graph) -> Graph:
    """Three commits on main: init, then a write of `first` and one of `second`."""
    write_three(graph, "first")
    write_three(graph, "second")
    return graph


def store(graph: Graph) -> tuple[str, str]:
    return "--store", graph.location.uri


def people_on(graph: Graph, branch: str) -> int:
    return graph.snapshot(branch).entry("node:Person").row_count


def test_create_list_and_delete(graph: Graph, omnigraph: Omnigraph) -> None:
    created = omnigraph("branch", "create", "review", *store(graph), "--as", "bob", "--json")
    assert (created.code, created.err) == (0, "")
    assert json.loads(created.out) == {
        "uri": graph.location.uri,
        "from": "main",
        "name": "review",
        "actor_id": "bob",
        "graph_commit_id": graph.log().heads["main"],
    }
    listed = omnigraph("branch", "list", graph.location.uri, "--json")
    assert (listed.code, json.loads(listed.out)) == (0, {"branches": ["main", "review"]})
    assert omnigraph("branch", "list", *store(graph)).out == "main\nreview\n"
    deleted = omnigraph("branch", "delete", "review", *store(graph), "--as", "bob", "--json")
    assert (deleted.code, deleted.err) == (0, "")
    assert json.loads(deleted.out) == {"uri": graph.location.uri, "name": "review", "actor_id": "bob"}
    assert graph.branches() == ["main"]
    check_whole(graph)


def test_people_are_told_where(graph: Graph, omnigraph: Omnigraph) -> None:
    created = omnigraph("branch", "create", "review", *store(graph), "--from", "main~1")
    assert created.out == "created branch review from main~1\n"
    assert created.err == f"omnigraph branch create → {graph.location.uri} (direct, local)\n"
    deleted = omnigraph("branch", "delete", "review", *store(graph), "-q")
    assert (deleted.code, deleted.out, deleted.err) == (0, "", "")


def test_a_branch_starts_at_any_ref(graph: Graph, omnigraph: Omnigraph) -> None:
    newest, middle, oldest = (each.commit_id for each in graph.log().history("main"))
    starts = {
        "a": ("main", newest),
        "b": ("main~1", middle),
        "c": (oldest, oldest),
        "d": (middle[-8:], middle),
        "e": ("a~2", oldest),
        "f": ("main@{2999-01-01}", newest),
    }
    for name, (ref, commit) in starts.items():
        done = omnigraph("branch", "create", name, *store(graph), "--from", ref, "--json")
        assert done.code == 0, done.err
        answer = json.loads(done.out)
        assert (answer["from"], answer["graph_commit_id"]) == (ref, commit)
        assert graph.log().heads[name] == commit
    assert [people_on(graph, name) for name in "abcde"] == [2, 1, 0, 1, 0]
    write_three(graph, "other", "b")
    assert (people_on(graph, "b"), people_on(graph, "main")) == (2, 2)


@pytest.mark.parametrize("ref", ["nope", "main~3", "tag:x", "main@{2001-01-01}", "0" * 26])
def test_a_start_that_is_not_there(ref: str, graph: Graph, omnigraph: Omnigraph) -> None:
    done = omnigraph("branch", "create", "b", *store(graph), "--from", ref)
    assert (done.code, done.out) == (6, "")
    assert graph.branches() == ["main"]


REFUSED = ["main", "__schema_apply_lock__", "", " ", "a b", "a//b", "/a", "a/", "..", "a..b", "a~1", "a@{x}"]
REFUSED += ["x.lock", "x.", ".x", "tag:x", "ünï", "a\nb", "x" * 201]


def test_names_that_no_branch_may_have(graph: Graph, omnigraph: Omnigraph) -> None:
    before = fingerprint(graph.location.path)
    for name in REFUSED[:4] + REFUSED[-2:]:
        done = omnigraph("branch", "create", *store(graph), "--json", "--", name)
        assert (done.code, done.out) == (5, ""), name
        assert json.loads(done.err)["code"] == "refused"
    assert {path for path in fingerprint(graph.location.path) if "__locks" not in path} == {
        path for path in before if "__locks" not in path
    }


@pytest.mark.parametrize("name", REFUSED, ids=ascii)
def test_the_core_refuses_them_too(name: str, graph: Graph) -> None:
    from omnigraph_core.errors import RefusedError

    with pytest.raises(RefusedError):
        graph.create_branch(name)


def test_names_that_are_taken_or_overlap(graph: Graph, omnigraph: Omnigraph) -> None:
    graph.create_branch("team/review")
    taken = omnigraph("branch", "create", "team/review", *store(graph), "--json")
    failure = json.loads(taken.err)
    assert (taken.code, failure["code"], failure["branch"]) == (3, "conflict", "team/review")
    for name in ("team", "team/review/late"):
        done = omnigraph("branch", "create", name, *store(graph))
        assert (done.code, "overlaps with the live branch 'team/review'" in done.err) == (5, True)
    assert omnigraph("branch", "create", "team/other", *store(graph)).code == 0
    assert graph.branches() == ["main", "team/other", "team/review"]


def test_what_cannot_be_deleted(graph: Graph, omnigraph: Omnigraph) -> None:
    graph.create_branch("old")
    write_three(graph, "third", "old")
    graph.create_branch("young", "old")
    with_descendants = omnigraph("branch", "delete", "old", *store(graph), "--json")
    failure = json.loads(with_descendants.err)
    assert (with_descendants.code, failure["code"]) == (5, "refused")
    assert (failure["branch"], failure["descendants"]) == ("old", ["young"])
    missing = omnigraph("branch", "delete", "nope", *store(graph), "--json")
    assert (missing.code, json.loads(missing.err)["branch"]) == (6, "nope")
    assert omnigraph("branch", "delete", "main", *store(graph)).code == 5
    assert graph.branches() == ["main", "old", "young"]
    for name in ("young", "old"):
        assert omnigraph("branch", "delete", name, *store(graph)).code == 0
    check_whole(graph)


def test_usage(graph: Graph, omnigraph: Omnigraph) -> None:
    assert omnigraph("branch", "create", *store(graph)).code == 2
    assert omnigraph("branch").code == 2
    assert omnigraph("branch", "create", "b", *store(graph), "--lock-timeout", "-1").code == 2
    assert omnigraph("branch", "list", "/nowhere").code == 6


@pytest.mark.parametrize(
    ("typed", "code", "stays"),
    [
        (b"y\n", 0, False),
        (b"YES\n", 0, False),
        (b"n\n", 5, True),
        (b"\n", 5, True),
        (b"what?\nn\n", 5, True),
        (b"\xff\nn\n", 5, True),
        (CTRL_D, 130, True),
        (CTRL_C, 130, True),
    ],
    ids=ascii,
)
def test_deleting_on_a_terminal_asks(
    typed: bytes, code: int, stays: bool, graph: Graph, tmp_path: Path
) -> None:
    graph.create_branch("review")
    ended, screen = on_a_terminal(
        "branch", "delete", "review", *store(graph), cwd=tmp_path, typed=typed, at=b"[y/N]: "
    )
    assert ended == code
    assert "Delete branch review? Its commits are all on other branches, too. [y/N]: " in screen
    assert "Traceback" not in screen
    assert ("review" in graph.branches()) is stays
    assert ("was not deleted" in screen) is (code == 5)


def test_what_is_written_while_it_asks_is_not_deleted(graph: Graph, tmp_path: Path) -> None:
    graph.create_branch("review")
    write = partial(write_three, graph, "meanwhile", "review")
    arguments = ("branch", "delete", "review", *store(graph))
    code, screen = on_a_terminal(*arguments, cwd=tmp_path, typed=b"y\n", at=b"[y/N]: ", meanwhile=write)
    assert (code, "look at what changed, then decide" in screen) == (4, True)
    assert people_on(graph, "review") == 3
    check_whole(graph)


def test_yes_does_not_ask_and_the_question_is_not_part_of_the_answer(graph: Graph, tmp_path: Path) -> None:
    graph.create_branch("one")
    graph.create_branch("two")
    code, screen = on_a_terminal("branch", "delete", "one", "--yes", *store(graph), cwd=tmp_path)
    assert (code, "[y/N]" in screen) == (0, False)
    read_end, write_end = os.pipe()
    arguments = ("branch", "delete", "two", "--json", *store(graph))
    code, _ = on_a_terminal(*arguments, cwd=tmp_path, typed=b"y\n", at=b"[y/N]: ", stdout=write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        assert answer.read().startswith(b"{\n")
    assert code == 0
    assert graph.branches() == ["main"]
