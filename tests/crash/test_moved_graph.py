"""Graphs that were moved or copied: noticed, refused, and made whole by `relocate`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from omnigraph_core.tables.failures import GraphMoved
from tests.support.processes import Omnigraph
from tests.support.records import PEOPLE
from tests.support.trees import fingerprint
from tests.support.writers import check_whole, content, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Main, a branch that has forked some tables, and a branch of it."""
    graph = Graph.init(str(tmp_path / "home/g"), PEOPLE, SETTINGS)
    write_three(graph, "on-main")
    graph.create_branch("dev/one")
    write_three(graph, "on-dev", "dev/one")
    graph.create_branch("two", "dev/one")
    write_three(graph, "on-two", "two")
    return graph


@pytest.mark.parametrize("how", ["moved", "copied"])
@pytest.mark.parametrize("name", ["a", "a-much-longer-name-than-before-" + "x" * 150])
def test_relocate_makes_it_whole(
    how: str, name: str, graph: Graph, omnigraph: Omnigraph, tmp_path: Path
) -> None:
    before = {branch: content(graph, branch) for branch in graph.branches()}
    home, place = graph.location.path, tmp_path / name / "g"
    shutil.copytree(home, place)
    original = fingerprint(home)
    if how == "moved":
        shutil.rmtree(home)
    assert omnigraph("snapshot", place).code == 0
    refused = omnigraph("snapshot", place, "--branch", "two", "--json")
    assert (refused.code, "relocate" in json.loads(refused.err)["hint"]) == (5, True)
    done = omnigraph("relocate", place, "--json")
    assert (done.code, json.loads(done.out)["files_changed"] > 0) == (0, True)
    assert json.loads(omnigraph("relocate", place, "--json").out)["files_changed"] == 0
    here = open_graph(place, SETTINGS)
    assert {branch: content(here, branch) for branch in here.branches()} == before
    for branch in here.branches():
        write_three(here, "later", branch)
    check_whole(here)
    if how == "copied":
        assert fingerprint(home) == original


def test_a_moved_graph_is_not_written_to(graph: Graph, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    shutil.copytree(graph.location.path, place)
    before = fingerprint(place)
    moved = Graph.open(str(place), SETTINGS)
    with pytest.raises(GraphMoved):
        write_three(moved, "x", "two")
    after = {path: digest for path, digest in fingerprint(place).items() if not path.startswith("__locks")}
    assert after == {path: digest for path, digest in before.items() if not path.startswith("__locks")}


def test_a_graph_without_branches_may_be_moved(tmp_path: Path, omnigraph: Omnigraph) -> None:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, SETTINGS)
    write_three(graph, "first")
    graph.location.path.rename(tmp_path / "there")
    here = open_graph(tmp_path / "there", SETTINGS)
    write_three(here, "second")
    check_whole(here)
    assert omnigraph("relocate", tmp_path / "there").out == "nothing to relocate\n"
