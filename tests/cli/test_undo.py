"""`omnigraph op log` and `omnigraph undo`."""

from __future__ import annotations

import json

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.ids import new_ulid
from omnigraph_core.settings import Settings
from tests.support.processes import Omnigraph
from tests.support.writers import content, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture
def graph(graph: Graph) -> Graph:
    write_three(graph, "first")
    return graph


def test_the_log_and_undo(graph: Graph, omnigraph: Omnigraph) -> None:
    before = content(graph)
    uri = graph.location.uri
    write_three(graph, "second")
    head = graph.log().heads["main"]
    made = omnigraph("undo", "--store", uri, "--as", "bob", "--message", "oops", "--json")
    assert (made.code, made.err) == (0, "")
    answer = json.loads(made.out)
    assert (answer["undone"]["operation_id"], answer["actor_id"], answer["warnings"]) == (head, "bob", [])
    assert answer["operation_id"] == answer["commit"]
    assert content(open_graph(graph.location.path, SETTINGS)) == before
    (newest,) = json.loads(omnigraph("op", "log", uri, "--limit", "1", "--json").out)["operations"]
    assert isinstance(newest.pop("created_at"), int)
    assert newest == {
        "operation_id": answer["commit"],
        "operation": "revert",
        "before": {"branch": "main", "graph_commit_id": head},
        "after": {"branch": "main", "graph_commit_id": answer["commit"]},
        "undoes": head,
        "actor_id": "bob",
        "message": "oops",
    }
    assert omnigraph("branch", "create", "dev", "--store", uri, "--message", "to try").code == 0
    lines = omnigraph("op", "log", uri).out.splitlines()
    assert [line.split("\t")[2] for line in lines[1:]] == [
        "branchcreate",
        "revert (undo)",
        "load",
        "load",
        "init",
    ]
    assert lines[1].endswith("to try")
    text = omnigraph("undo", "--store", uri)
    assert (text.code, text.out.split(":")[0]) == (0, "took back the creation of dev")
    assert graph.branches() == ["main"]


def test_failures(graph: Graph, omnigraph: Omnigraph) -> None:
    uri = graph.location.uri
    first = graph.operations()[-1].operation_id
    for arguments, code in (
        (("undo", first, "--store", uri), 5),
        (("undo", "01ZZZZZZZZZZZZZZZZZZZZZZZZ", "--store", uri), 6),
        (("undo", "short", "--store", uri), 6),
        (("op", "log", uri, "--limit", "-1"), 2),
        (("op", "log", uri, "--limit", "x"), 2),
    ):
        assert omnigraph(*arguments).code == code, arguments
    write_three(graph, "second")
    last = graph.operations(1)[0].operation_id
    graph.undo()
    count = len(graph.operations())
    twice = omnigraph("undo", last, "--store", uri)
    assert (twice.code, len(graph.operations())) == (5, count)
    by = graph.operations(1)[0].operation_id
    assert twice.err.splitlines()[1:] == [
        f"error: operation {last} was taken back already, by {by}",
        f"hint: take that back with `omnigraph undo {by}`",
    ]
    graph.undo()
    graph.change('query q() { update Person set { age: 5 } where name = "first" }')
    undone = graph.operations()[4].operation_id
    before = content(graph)
    refused = omnigraph("undo", undone, "--store", uri, "--json")
    failure = json.loads(refused.err)
    assert (refused.code, failure["merge_conflicts"][0]["kind"]) == (3, "delete_vs_update")
    assert content(graph) == before
    (graph.location.path / "__operations/begun").mkdir(parents=True)
    record = f"__operations/begun/{new_ulid()}.json"
    (graph.location.path / record).write_bytes(b"{")
    damaged = omnigraph("op", "log", uri, "--json")
    assert (damaged.code, json.loads(damaged.err)["path"]) == (74, record)


def test_branch_rename(graph: Graph, omnigraph: Omnigraph) -> None:
    uri = graph.location.uri
    graph.create_branch("dev")
    write_three(graph, "on-dev", "dev")
    done = omnigraph("branch", "rename", "dev", "review", "--store", uri, "--as", "bob", "--json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == {"uri": uri, "old_name": "dev", "name": "review", "actor_id": "bob"}
    listed = json.loads(omnigraph("commit", "list", uri, "--branch", "review", "--json").out)["commits"]
    assert [each["manifest_branch"] for each in listed] == ["review", "main", "main"]
    for arguments, code in (
        (("branch", "rename", "main", "x"), 5),
        (("branch", "rename", "review", "main"), 5),
        (("branch", "rename", "review", "review"), 3),
        (("branch", "rename", "review", "a..b"), 5),
        (("branch", "rename", "dev", "x"), 6),
    ):
        refused = omnigraph(*arguments, "--store", uri)
        assert (refused.code, "Traceback" in refused.err) == (code, False), arguments
    assert "it was renamed to 'review'" in refused.err
    assert omnigraph("undo", "--store", uri).code == 0
    assert json.loads(omnigraph("branch", "list", uri, "--json").out) == {"branches": ["dev", "main"]}
