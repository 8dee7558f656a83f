"""What a power cut leaves of history, and of a publish beside it: recovered, never in the way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core import layout
from omnigraph_core.graph import Graph
from omnigraph_core.maintenance.findings import Severity
from omnigraph_core.settings import Settings
from omnigraph_core.storage.sync import Syncer
from omnigraph_core.tables.durability import manifest_path, own_files
from omnigraph_core.tables.refs import TableRef, control_table
from tests.support import warm
from tests.support.dying import die, die_here
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.writers import check_whole, content, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture
def graph(graph: Graph) -> Graph:
    write_three(graph, "first")
    return graph


def tear_newest(graph: Graph, ref: TableRef) -> Path:
    """Leave the name of the newest manifest and none of its bytes."""
    root = graph.location.path
    newest = root / manifest_path(ref, Graph.open(str(root), SETTINGS).door.tables.open(ref).version)
    newest.write_bytes(b"")
    return newest


@pytest.mark.parametrize(
    "step", ["manifest.after_publish", "history.actor_recorded", "history.commit_recorded"]
)
def test_a_torn_publish_is_passed_over_while_its_write_is_pending(step: str, graph: Graph) -> None:
    """Also when rows of its history survived: they were in one barrier, and nobody was told.

    Those rows name the writer. What recovery publishes in place of the torn publish is signed by it.
    """
    die(graph, step)
    tear_newest(graph, control_table(layout.MANIFEST))
    root = graph.location.path
    reader = Graph.open(str(root), SETTINGS)
    assert content(reader)["node:Person"] == {"first"}
    graph = open_graph(root, SETTINGS)
    assert content(graph)["node:Person"] == {"first", "second"}
    check_whole(graph)
    newest, before = graph.log().history("main")[:2]
    assert (newest.message, newest.actor_id) == ("write second", "omnigraph:recovery")
    assert (before.message, before.actor_id) == ("write first", "ann")
    assert _found(graph) == []
    write_three(graph, "third")
    check_whole(graph)
    assert _found(graph) == []


def _found(graph: Graph) -> list[str]:
    return [each.code for each in graph.doctor(deep=True) if each.severity is not Severity.NOTE]


@pytest.mark.parametrize("path", [layout.COMMITS, layout.COMMIT_ACTORS])
def test_a_torn_log_is_passed_over_while_its_write_is_pending(path: str, graph: Graph) -> None:
    die(graph, "history.commit_recorded")
    tear_newest(graph, control_table(path))
    root = graph.location.path
    messages = [each.message for each in Graph.open(str(root), SETTINGS).log().history("main")]
    assert messages[:2] == ["write second", "write first"]
    graph = open_graph(root, SETTINGS)
    check_whole(graph)
    actors = [each.actor_id for each in graph.log().history("main")]
    assert actors == ["omnigraph:recovery", "ann", "ann", "ann"]


@pytest.mark.parametrize("lost", ["manifest", "rows"])
def test_a_branch_does_not_start_on_a_torn_log(lost: str, graph: Graph) -> None:
    """Rows that a merge carries over are written before its sidecar, so nothing is pending."""
    graph.create_branch("dev")
    write_three(graph, "theirs", "dev")
    root, commits = graph.location.path, control_table(layout.COMMITS)
    die_here(lambda: graph.merge("dev"), "history.carried")
    if lost == "manifest":
        tear_newest(graph, commits)
    else:
        newest = Graph.open(str(root), SETTINGS).door.tables.open(commits)
        below = Graph.open(str(root), SETTINGS).door.tables.open(commits, newest.version - 1)
        (file,) = own_files(newest).keys() - own_files(below).keys()
        (root / file).write_bytes(b"")
    graph = open_graph(root, SETTINGS)
    graph.create_branch("fresh")
    write_three(open_graph(root, SETTINGS), "fresh", "fresh")
    graph = open_graph(root, SETTINGS)
    assert content(graph, "fresh")["node:Person"] == {"first", "fresh"}
    check_whole(graph)
    assert _found(graph) == []
    graph.merge("dev")
    assert _found(open_graph(root, SETTINGS)) == []


def test_a_torn_first_version_of_the_audit_table_is_made_again(graph: Graph) -> None:
    """The first recovery of a graph's life dies in the middle of creating the table it audits in."""
    die(graph, "write.after_b")
    root = graph.location.path
    done = warm.run(
        [sys.executable, "-m", "tests.support.writers", str(root), "main", "third"],
        env=clean_environment(OMNIGRAPH_FAILPOINTS="recovery.audited=kill"),
        cwd=REPOSITORY,
        check=False,
    )
    assert done.returncode == -9
    audits = control_table(layout.RECOVERIES)
    (root / manifest_path(audits, 2)).unlink()
    (root / manifest_path(audits, 1)).write_bytes(b"")
    reader = Graph.open(str(root), SETTINGS)
    assert reader.recoveries() == []
    assert len(reader.log().history("main")) == 3
    graph = open_graph(root, SETTINGS)
    check_whole(graph)
    assert [each.recovery_kind for each in graph.recoveries()] == ["RolledForward"]
    write_three(graph, "fourth")
    check_whole(graph)


def test_a_write_does_not_stand_on_what_another_has_not_synced(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1 has appended its actor and not synced it; P2 appends on top, is acknowledged, power fails."""
    root = graph.location.path
    graph.create_branch("dev")
    actors = root / layout.COMMIT_ACTORS
    known = set(actors.rglob("*"))
    first = warm.Popen(
        [sys.executable, "-m", "tests.support.writers", str(root), "dev", "slow"],
        env=clean_environment(OMNIGRAPH_FAILPOINTS="history.actor_recorded=sleep:600000"),
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
    )
    try:
        while len(set((actors / "_versions").glob("*.manifest")) - known) == 0:
            assert first.poll() is None
        synced = write_recording_syncs(root, monkeypatch)
    finally:
        first.kill()
        first.wait()
    for path in actors.rglob("*"):
        if path.is_file() and path not in known | synced:
            path.write_bytes(b"")
    graph = open_graph(root, SETTINGS)
    commit = next(each for each in graph.log().commits.values() if each.message == "write acknowledged")
    assert commit.actor_id == "eve"
    check_whole(graph)


def write_recording_syncs(root: Path, monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Write with syncs on, beside whoever else writes; returns what was synced."""
    synced: set[Path] = set()
    barrier = Syncer.barrier

    def noting(self: Syncer, files: Iterable[Path] = (), dirs: Iterable[Path] = ()) -> Any:
        files = list(files)
        synced.update(Path(file) for file in files)
        return barrier(self, files, dirs)

    monkeypatch.setattr(Syncer, "barrier", noting)
    write_three(open_graph(root, Settings(actor="eve")), "acknowledged", actor="eve")
    # What the head row says could be written again; so it must not be the last commit.
    write_three(open_graph(root, Settings(actor="bob")), "later", actor="bob")
    monkeypatch.undo()
    return synced
