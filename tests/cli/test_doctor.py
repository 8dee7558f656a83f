"""`omnigraph doctor`: clean graphs are clean, and each thing that is wrong is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from omnigraph_core.tables.branches import create_fork
from omnigraph_core.tables.commit import unguarded
from omnigraph_core.tables.durability import own_files
from tests.support.dying import die
from tests.support.processes import Omnigraph
from tests.support.readable import PERSON
from tests.support.records import PEOPLE
from tests.support.trees import fingerprint
from tests.support.writers import write_three


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, Settings(fsync=False, actor="ann"))
    write_three(graph, "first")
    graph.create_branch("side")
    write_three(graph, "second", "side")
    return graph


def checks(omnigraph: Omnigraph, graph: Graph) -> list[tuple[str, str | None]]:
    """What it finds, and the command that mends it; it must change nothing."""
    before = fingerprint(graph.location.path)
    done = omnigraph("doctor", graph.location.uri, "--json")
    assert fingerprint(graph.location.path) == before
    found = json.loads(done.out)["findings"]
    assert done.code == (1 if any(each["severity"] != "note" for each in found) else 0)
    return [(each["code"], each["fix"]) for each in found]


def test_a_graph_that_is_well(graph: Graph, omnigraph: Omnigraph) -> None:
    assert checks(omnigraph, graph) == []
    graph.cleanup(keep=1, grace_s=0.0, force=True)
    graph.optimize()
    assert checks(omnigraph, graph) == []


def test_each_thing_that_is_wrong(graph: Graph, omnigraph: Omnigraph) -> None:
    entry = graph.snapshot().entry(PERSON)
    create_fork(graph.door.tables, entry.ref, "ghost", entry.table_version, unguarded)
    assert checks(omnigraph, graph) == [("fork-left", "omnigraph maintain")]
    graph.cleanup(grace_s=0.0)
    graph.door.tables.open(entry.ref).lance.delete("id = 'first'")
    assert checks(omnigraph, graph) == [("drift", "omnigraph repair")]
    graph.repair(confirm=True, force=True)
    side = graph.snapshot("side").entry(PERSON)
    graph.door.tables.open(side.ref).lance.delete("id = 'second'")
    assert ("drift", "omnigraph repair --branch side") in checks(omnigraph, graph)
    graph.repair("side", confirm=True, force=True)
    die(graph, "write.after_a")
    assert ("write-unfinished", "omnigraph recovery run") in checks(omnigraph, graph)


def test_the_table_for_people(graph: Graph, omnigraph: Omnigraph) -> None:
    """Notes are shown, and are no reason to exit with 1; a deep look finds a changed byte."""
    graph.delete_branch("side")
    done = omnigraph("doctor", graph.location.uri)
    assert (done.code, "omnigraph branch undelete side" in done.out) == (0, True)
    entry = graph.snapshot().entry(PERSON)
    path = min(own_files(graph.door.tables.open(entry.ref, entry.table_version)))
    file = graph.location.path / path
    file.write_bytes(file.read_bytes().replace(b"first", b"fifth"))
    done = omnigraph("doctor", graph.location.uri, "--deep")
    assert (done.code, path in done.out) == (1, True)
