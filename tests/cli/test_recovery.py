"""`omnigraph recovery list|show|run` as a user meets them, after a writer was killed."""

from __future__ import annotations

import json

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.dying import die
from tests.support.processes import Omnigraph
from tests.support.trees import fingerprint
from tests.support.writers import check_whole, content, write_three

SETTINGS = Settings(fsync=False, actor="ann")
WRITTEN = ["edge:Knows", "node:Company", "node:Person"]


@pytest.fixture
def graph(graph: Graph) -> Graph:
    write_three(graph, "first")
    return graph


def left_by_the_dead(graph: Graph, step: str, branch: str = "main") -> str:
    """The operation of a process that was killed at a step while it wrote."""
    die(graph, step, branch=branch)
    (sidecar,) = graph.pending()
    return sidecar.operation_id


def test_nothing_to_recover(graph: Graph, omnigraph: Omnigraph) -> None:
    place = graph.location.uri
    listed = json.loads(omnigraph("recovery", "list", place, "--json").out)
    assert listed == {"pending": [], "unreadable": [], "recoveries": []}
    assert omnigraph("recovery", "list", place).out == "operation\toutcome\tbranch\tfor\twriter\tcommit\n"
    assert json.loads(omnigraph("recovery", "run", place, "--json").out) == {"recovered": [], "live": []}
    assert omnigraph("recovery", "run", place).out == "nothing to recover\n"
    missing = omnigraph("recovery", "show", "nope", "--store", place, "--json")
    assert (missing.code, json.loads(missing.err)["code"]) == (6, "not_found")
    assert omnigraph("recovery", "list", "/nowhere").code == 6


def test_what_is_pending_is_shown_and_left_alone(graph: Graph, omnigraph: Omnigraph) -> None:
    operation = left_by_the_dead(graph, "write.after_b")
    before = fingerprint(graph.location.path)
    listed = json.loads(omnigraph("recovery", "list", graph.location.uri, "--json").out)
    (pending,) = listed["pending"]
    assert pending.keys() == {
        "operation_id",
        "branch",
        "actor_id",
        "writer_kind",
        "started_at",
        "tables",
    }
    assert (pending["operation_id"], pending["branch"]) == (operation, "main")
    assert (pending["actor_id"], pending["writer_kind"]) == ("ann", "Load")
    assert sorted(each["table_key"] for each in pending["tables"]) == WRITTEN
    assert all(
        each.keys() == {"table_key", "expected_version", "post_commit_pin"}
        and each["post_commit_pin"] > each["expected_version"]
        for each in pending["tables"]
    )
    assert listed["recoveries"] == []
    shown = omnigraph("recovery", "show", operation, "--store", graph.location.uri, "--json")
    assert (shown.code, json.loads(shown.out)) == (0, pending)
    text = omnigraph("recovery", "show", operation, "--store", graph.location.uri).out
    assert text.startswith(f"operation {operation}: pending on branch main, by ann\n")
    status = omnigraph("status", graph.location.uri)
    assert f"pending: {operation} on main by ann" in status.out
    assert "omnigraph recovery run" in status.out
    assert json.loads(omnigraph("status", graph.location.uri, "--json").out)["pending"] == [
        {"operation_id": operation, "branch": "main", "actor_id": "ann"}
    ]
    assert fingerprint(graph.location.path) == before


@pytest.mark.parametrize(
    ("step", "kind", "stays"),
    [("write.after_b", "RolledForward", True), ("write.table_committed.1", "RolledBack", False)],
)
def test_run_finishes_or_undoes(
    step: str, kind: str, stays: bool, graph: Graph, omnigraph: Omnigraph
) -> None:
    place = graph.location.uri
    operation = left_by_the_dead(graph, step)
    done = omnigraph("recovery", "run", place, "--json")
    assert (done.code, done.err) == (0, "")
    answer = json.loads(done.out)
    assert answer["live"] == []
    (recovered,) = answer["recovered"]
    assert (recovered["operation_id"], recovered["branch"]) == (operation, "main")
    assert recovered["recovery_kind"] == kind
    assert sorted(each["table_key"] for each in recovered["tables"]) == WRITTEN
    check_whole(graph)
    assert ("second" in content(graph)["node:Person"]) is stays

    listed = json.loads(omnigraph("recovery", "list", place, "--json").out)
    assert listed["pending"] == []
    (recovery,) = listed["recoveries"]
    assert recovery.keys() == {
        "operation_id",
        "recovery_kind",
        "branch",
        "graph_commit_id",
        "recovery_for_actor",
        "sidecar_writer_kind",
        "created_at",
        "tables",
    }
    assert recovery["graph_commit_id"] == recovered["graph_commit_id"]
    assert recovery["tables"] == recovered["tables"]
    assert (recovery["recovery_for_actor"], recovery["sidecar_writer_kind"]) == ("ann", "Load")
    assert all(
        each.keys() == {"table_key", "from_version", "to_version", "classification"}
        for each in recovery["tables"]
    )
    for id_ in (operation, recovery["graph_commit_id"]):
        shown = omnigraph("recovery", "show", id_, "--store", place, "--json")
        assert (shown.code, json.loads(shown.out)) == (0, recovery)

    (commit,) = json.loads(
        omnigraph("commit", "list", place, "--json", "--filter", "actor=omnigraph:recovery").out
    )["commits"]
    assert commit["graph_commit_id"] == recovery["graph_commit_id"]
    again = json.loads(omnigraph("recovery", "run", place, "--json").out)
    assert again == {"recovered": [], "live": []}


def test_run_for_people(graph: Graph, omnigraph: Omnigraph) -> None:
    operation = left_by_the_dead(graph, "write.after_b")
    done = omnigraph("recovery", "run", graph.location.uri)
    assert done.out == f"rolled forward {operation} on main\n"
    assert done.err == f"omnigraph recovery run → {graph.location.uri} (direct, local)\n"
    row = omnigraph("recovery", "list", graph.location.uri).out.splitlines()[1].split("\t")
    assert row[:5] == [operation, "rolled forward", "main", "ann", "Load"]


@pytest.mark.parametrize("command", [["branch", "list"], ["commit", "list"]], ids=" ".join)
def test_a_listing_recovers_what_it_can(command: list[str], graph: Graph, omnigraph: Omnigraph) -> None:
    left_by_the_dead(graph, "write.after_b")
    done = omnigraph(*command, graph.location.uri, "--json")
    assert (done.code, done.err) == (0, "")
    assert graph.pending() == []
    check_whole(graph)


def test_recovery_commits_of_a_deleted_branch_stay_listed(graph: Graph, omnigraph: Omnigraph) -> None:
    place = graph.location.uri
    graph.create_branch("dev")
    left_by_the_dead(graph, "write.after_b", "dev")
    (recovered,) = json.loads(omnigraph("recovery", "run", place, "--json").out)["recovered"]
    assert recovered["branch"] == "dev"
    assert omnigraph("branch", "delete", "dev", "--store", place).code == 0
    found = json.loads(
        omnigraph("commit", "list", place, "--json", "--filter", "actor=omnigraph:recovery").out
    )
    (commit,) = found["commits"]
    assert commit["graph_commit_id"] == recovered["graph_commit_id"]
    assert commit["manifest_branch"] == "dev"
    shown = omnigraph("commit", "show", commit["graph_commit_id"], "--store", place, "--json")
    assert (shown.code, json.loads(shown.out)) == (0, commit)
    assert omnigraph("recovery", "list", place).out.splitlines()[1].split("\t")[2] == "dev"
    check_whole(graph)


def test_a_corrupt_sidecar_is_a_storage_error(graph: Graph, omnigraph: Omnigraph) -> None:
    place = graph.location.uri
    operation = left_by_the_dead(graph, "write.after_b")
    (path,) = (graph.location.path / "__recovery").glob("*.json")
    path.write_bytes(b"{")
    done = omnigraph("recovery", "run", place, "--json")
    assert (done.code, json.loads(done.err)["code"]) == (74, "storage")
    assert operation in done.err
    for command in (["status"], ["recovery", "list"]):
        seen = omnigraph(*command, place, "--json")
        assert (seen.code, json.loads(seen.out)["pending"]) == (0, [])
        assert operation in json.loads(seen.out)["unreadable"][0]["path"]
        assert "unreadable" in omnigraph(*command, place).out
    listed = omnigraph("branch", "list", place)
    assert (listed.code, listed.out) == (0, "main\n")
    assert "a recovery is pending and could not be run" in listed.err
