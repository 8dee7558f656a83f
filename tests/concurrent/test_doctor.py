"""Doctor beside running writers: their work in progress is no finding, wherever they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.maintenance.findings import Finding
from omnigraph_core.settings import Settings
from tests.support.many_writers import SETTINGS, adds_and_reads
from tests.support.paused import go_on, started, stops
from tests.support.processes import REPOSITORY
from tests.support.records import PEOPLE
from tests.support.source import failpoints
from tests.support.workers import Worker, start_together
from tests.support.writers import check_whole, open_graph, write_three

MORE = PEOPLE.replace("age: I32?", "age: I64?  city: String?") + "node City { name: String @key }\n"
OMNIGRAPH = (sys.executable, "-m", "omnigraph_cli")
LOAD = ("load", "g", "--data", "d.jsonl", "--mode", "merge", "--branch", "new", "--from", "dev")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, SETTINGS)
    write_three(graph, "first")
    graph.create_branch("dev")
    write_three(graph, "second", "dev")
    graph.create_branch("old")
    return tmp_path / "g"


def counted(root: Path, *, deep: bool = False) -> list[Finding]:
    return [each for each in Graph.open(str(root), SETTINGS).doctor(deep=deep) if each.counts]


def test_beside_writers(root: Path, tmp_path: Path) -> None:
    """Two on one branch, one on another that forks, one that makes and deletes a third."""
    churn = [("create", "churn", "main"), ("add", "churn", "x"), ("delete", "churn", "")] * 4
    looked = tmp_path / "looked"
    scripts = {
        "a": [*adds_and_reads("a", "main", 9), ("wait", "main", str(looked)), ("add", "main", "last")],
        "b": adds_and_reads("b", "main", 10),
        "c": adds_and_reads("c", "old", 10),
        "d": churn,
    }
    workers = [Worker(root, tmp_path, name, script) for name, script in scripts.items()]
    start_together(workers)
    is_deep = True
    while any(worker.process.poll() is None for worker in workers):
        assert counted(root, deep=is_deep) == []
        is_deep = not is_deep
        looked.touch()
    for worker in workers:
        _, errors = worker.process.communicate()
        assert worker.process.returncode == 0, errors
    assert looked.exists(), "it was never beside them"
    check_whole(open_graph(root, SETTINGS))


COMMANDS = {
    "write": (sys.executable, "-m", "tests.support.writers", "g", "main", "third"),
    "fork": (sys.executable, "-m", "tests.support.writers", "g", "old", "third"),
    "load": (*OMNIGRAPH, *LOAD),
    "create": (*OMNIGRAPH, "branch", "create", "another", "--store", "g"),
    "delete": (*OMNIGRAPH, "branch", "delete", "dev", "--store", "g"),
    "merge": (*OMNIGRAPH, "branch", "merge", "dev", "--store", "g"),
    "apply": (*OMNIGRAPH, "schema", "apply", "g", "--schema", "more.pg"),
    "optimize": (*OMNIGRAPH, "optimize", "g"),
    "cleanup": (*OMNIGRAPH, "cleanup", "g", "--keep", "1", "--force", "--yes", "--grace", "0s"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_beside_one_that_stands_still(command: str, root: Path, tmp_path: Path) -> None:
    """At every failpoint that the command comes to, once: doctor finds nothing to do, and never waits."""
    (tmp_path / "d.jsonl").write_text('{"type": "Person", "data": {"name": "Eve"}}\n')
    (tmp_path / "more.pg").write_text(MORE)
    armed = ",".join(f"{name}=stop" for name in failpoints())
    environment = {"PYTHONPATH": str(REPOSITORY), "OMNIGRAPH_FSYNC": "off", "OMNIGRAPH_ACTOR": "ann"}
    places = 0
    with started(COMMANDS[command], cwd=tmp_path, stop_at=armed, **environment) as process:
        while stops(process.process):
            places += 1
            assert counted(root) == []
            go_on(process.process)
        done = process.ended()
    assert done.code == 0, done.err
    assert places >= 3
    check_whole(open_graph(root, Settings(fsync=False, actor="bob")))
