"""`omnigraph cleanup` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.processes import Omnigraph
from tests.support.records import PEOPLE
from tests.support.trees import fingerprint
from tests.support.writers import check_whole, content, write_three

NOW = ("--grace", "0s")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Five commits on main."""
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, Settings(fsync=False, actor="ann"))
    for number in range(4):
        write_three(graph, f"p{number}")
    return graph


def test_old_commits_go_and_stay_listed(graph: Graph, omnigraph: Omnigraph) -> None:
    uri, before = graph.location.uri, content(graph)
    newest, *_, oldest = (each.commit_id for each in graph.log().history("main"))
    done = omnigraph("cleanup", uri, "--keep", "3", *NOW, "--json")
    assert (done.code, done.err) == (0, "")
    answer = json.loads(done.out)
    assert (answer["commits_removed"], answer["commits_left"], answer["dry_run"]) == (2, 3, False)
    person = next(each for each in answer["tables"] if each["table_key"] == "node:Person")
    assert (person["action"], person["versions_left"], person["error"]) == ("versions", 3, None)
    assert person["bytes_removed"] == person["bytes_before"] - person["bytes_left"] > 0
    assert person["files_removed"] == person["files_before"] - person["files_left"] > 0
    assert person["versions_before"] == 5
    listed = json.loads(omnigraph("commit", "list", uri, "--json").out)["commits"]
    assert [each["removed"] for each in listed] == [False, False, False, True, True]
    lines = omnigraph("commit", "list", uri).out.splitlines()
    assert ["by cleanup, 20" in line for line in lines[1:]] == [False, False, False, True, True]
    for how in ("--oneline", "--graph"):
        lines = omnigraph("commit", "list", uri, how).out.splitlines()
        assert ["removed)" in line for line in lines] == [False, False, False, True, True]
    read = omnigraph("snapshot", uri, "--snapshot", oldest, "--json")
    assert read.code == 6
    failure = json.loads(read.err)
    assert (failure["commit_id"], "removed by cleanup on 20" in failure["error"]) == (oldest, True)
    assert omnigraph("branch", "create", "old", "--store", uri, "--from", oldest).code == 6
    assert omnigraph("snapshot", uri, "--snapshot", newest).code == 0
    assert "removed:   by cleanup, 20" in omnigraph("commit", "show", oldest, "--store", uri).out
    assert content(graph) == before
    check_whole(graph)


def test_consent(graph: Graph, omnigraph: Omnigraph) -> None:
    uri, before = graph.location.uri, fingerprint(graph.location.path)
    refused = omnigraph("cleanup", uri, *NOW)
    assert (refused.code, refused.out) == (5, "")
    assert "--keep 10" in refused.err
    for wrong in (
        ("--keep", "0"),
        ("--keep", "-1"),
        ("--older-than", "soon"),
        ("--grace", "1"),
        ("--keep", "x"),
    ):
        assert omnigraph("cleanup", uri, "--yes", *wrong).code == 2, wrong
    few = omnigraph("cleanup", uri, "--yes", "--keep", "2")
    assert few.code == 5
    assert "--force" in few.err
    assert fingerprint(graph.location.path) == before
    planned = omnigraph("cleanup", uri, "--keep", "3", *NOW, "--dry-run")
    assert "node:Person\tmain\tversions\t5 → 3" in planned.out
    assert fingerprint(graph.location.path) == before
    assert omnigraph("cleanup", uri, "--confirm").out == "nothing to remove; 5 commits can be read\n"
    assert json.loads(omnigraph("cleanup", uri, "--confirm", *NOW, "--json").out)["commits_removed"] == 0
    assert omnigraph("cleanup", uri, "--keep", "1", "--force", *NOW).code == 0
    assert len(graph.removals().floors) == 1
