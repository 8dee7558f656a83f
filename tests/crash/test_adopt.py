"""An adoption dies at every step: the graph is the original's as it was, or ours; the next one finishes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.maintenance.findings import Severity
from omnigraph_core.original.recognition import OriginalGraph
from tests.support import warm
from tests.support.adoptions import AFTER, BEFORE, NEEDS
from tests.support.originals import SETTINGS, commits, exported, said, unpack, unpack_in_place
from tests.support.processes import OMNIGRAPH, REPOSITORY, clean_environment


def adopt_and_die(root: Path, failpoint: str) -> int:
    done = warm.run(
        [str(OMNIGRAPH), "adopt", str(root), "--yes", "--as", "bob"],
        env=clean_environment(OMNIGRAPH_FAILPOINTS=f"{failpoint}=kill", OMNIGRAPH_FSYNC="off"),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    return done.returncode


@pytest.mark.parametrize("step", [*BEFORE, *AFTER])
def test_dying_at_every_step(step: str, tmp_path: Path) -> None:
    name = NEEDS.get(step, "branches")
    root = unpack_in_place(name, tmp_path)
    graph = Graph.open(str(root), SETTINGS)
    branches = graph.branches()
    rows = {branch: exported(graph, branch) for branch in branches}
    ids = sorted(graph.log().commits)
    then = {each: exported(graph, ref=each) for each in ids}
    listed = {branch: commits(graph, branch) for branch in branches}

    assert adopt_and_die(root, step) == -signal.SIGKILL
    graph = Graph.open(str(root), SETTINGS)
    assert graph.is_original() == (step in BEFORE)
    assert {branch: exported(graph, branch) for branch in branches} == rows
    if step in BEFORE:
        with pytest.raises(OriginalGraph):
            Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)
        assert keeps_the_original_out(root) == (step != "adopt.locked")
    graph.adopt(actor="ann")
    graph = Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)
    assert not graph.is_original()
    assert {branch: exported(graph, branch) for branch in branches} == rows
    assert {each: exported(graph, ref=each) for each in ids} == then
    assert {branch: commits(graph, branch) for branch in branches} == listed
    adoptions = [each for each in graph.log().commits.values() if each.operation == "adopt"]
    assert [each.actor_id for each in adoptions] == ["ann" if step in BEFORE else "bob"]
    assert [each for each in graph.doctor(deep=True) if each.severity is not Severity.NOTE] == []
    assert list((root / layout.RECOVERY_DIR).iterdir()) == []


def keeps_the_original_out(root: Path) -> bool:
    """It refuses sidecars of another version than 1 before it touches anything."""
    found = [json.loads(path.read_text()) for path in (root / layout.RECOVERY_DIR).glob("*.json")]
    return [each["schema_version"] for each in found] == [2]


@pytest.mark.parametrize("step", ["adopt.recorded", "adopt.control_relocated", "adopt.branch_published"])
def test_dying_in_a_graph_that_was_moved(step: str, tmp_path: Path) -> None:
    root = unpack("branches", tmp_path)
    assert adopt_and_die(root, step) == -signal.SIGKILL
    assert exported(Graph.open(str(root), SETTINGS))
    Graph.open(str(root), SETTINGS).adopt()
    graph = Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)
    assert graph.branches() == said("branches")["branches"]
    for branch, answers in said("branches")["commits"].items():
        assert set(commits(graph, branch)) == {each["graph_commit_id"] for each in answers["commits"]}
    assert [each for each in graph.doctor() if each.severity is not Severity.NOTE] == []


def test_a_sidecar_of_version_1_is_still_understood(tmp_path: Path) -> None:
    """Of this OmniGraph, before it kept the original out."""
    root = tmp_path / "g"
    graph = Graph.init(str(root), "node A { a: String @key }", SETTINGS)
    file = tmp_path / "a.jsonl"
    file.write_text('{"type":"A","data":{"a":"x"}}\n')
    done = warm.run(
        [str(OMNIGRAPH), "load", str(root), "--data", str(file), "--mode", "merge"],
        env=clean_environment(OMNIGRAPH_FAILPOINTS="write.after_b=kill", OMNIGRAPH_FSYNC="off"),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    (path,) = (root / layout.RECOVERY_DIR).glob("*.json")
    content = json.loads(path.read_text())
    assert content["schema_version"] == 2
    del content["digest"]
    path.write_text(json.dumps({**content, "schema_version": 1}))
    graph = Graph.open(str(root), SETTINGS, OpenMode.READ_WRITE)
    assert [each["data"]["id"] for each in exported(graph)] == ["x"]
    assert not graph.has_pending()
