"""A write that commits several versions of one dataset, and a power cut that takes only the older ones.

Their manifests are synced side by side, so the newer may be on the disk and the older not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.manifest import reader
from omnigraph_core.manifest.branch import MAIN
from omnigraph_core.manifest.reader import manifest_ref
from omnigraph_core.settings import Settings
from omnigraph_core.tables import control_rewrite, fold
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.write.case import RecoveryCase
from omnigraph_core.write.decide import decide
from omnigraph_core.write.sidecar import read_stored
from omnigraph_core.write.sidecar_record import DecisionKind
from tests.support.dying import die_here
from tests.support.records import PEOPLE
from tests.support.trees import fingerprint
from tests.support.writers import WRITTEN, check_whole, content, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")

Tear = Callable[[Graph, TableRef, int], None]


def tear(graph: Graph, ref: TableRef, version: int) -> None:
    (graph.location.path / manifest_path(ref, version)).write_bytes(b"")


def lose(graph: Graph, ref: TableRef, version: int) -> None:
    (graph.location.path / manifest_path(ref, version)).unlink()


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """Every write of which folds its tables and rewrites its manifest."""
    monkeypatch.setattr(fold, "FOLD_FRAGMENTS", 2)
    monkeypatch.setattr(control_rewrite, "FRAGMENTS_MAX", 2)
    monkeypatch.setattr(reader, "FRAGMENTS_MAX", 2)
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, SETTINGS)
    for number in range(3):
        write_three(graph, f"earlier{number}")
    return graph


def die(graph: Graph, step: str) -> None:
    """The write of "second" goes as far as a step."""
    die_here(lambda: write_three(graph, "second"), step)


def check_third_write(root: Path, *, second: bool) -> Graph:
    graph = open_graph(root, SETTINGS)
    write_three(graph, "third")
    graph = open_graph(root, SETTINGS)
    check_whole(graph)
    there = {"earlier0", "earlier1", "earlier2", "third"} | ({"second"} if second else set())
    assert all(content(graph)[key] == there for key in WRITTEN)
    return graph


@pytest.mark.parametrize("sidecar", ["kept", "lost"])
@pytest.mark.parametrize("fate", [tear, lose])
@pytest.mark.parametrize("step", ["write.table_committed.2", "write.table_committed.6"])
def test_the_first_of_two_versions_of_a_table_is_torn(
    step: str, fate: Tear, sidecar: str, graph: Graph
) -> None:
    die(graph, step)
    (left,) = graph.pending()
    pinned = left.tables[0]
    assert pinned.post_commit_pin == pinned.expected_version + 2
    fate(graph, pinned.ref, pinned.expected_version + 1)
    if sidecar == "lost":
        graph.door.storage.control.delete(left.path)
    graph = check_third_write(graph.location.path, second=False)
    kinds = {each.recovery_kind for each in graph.recoveries()}
    # Without its sidecar, only what is whole of the write has to be undone.
    assert kinds == ({"RolledBack"} if sidecar == "kept" or step.endswith("6") else set())


@pytest.mark.parametrize("fate", [tear, lose])
def test_the_publish_is_torn_and_the_rewrite_after_it_is_not(fate: Tear, graph: Graph) -> None:
    """HEAD of the manifest can be read and shows the write; the version of its commit is gone."""
    before = graph.snapshot().manifest_version
    die(graph, "write.after_c")
    assert graph.door.manifest.open("main").version == before + 2
    fate(graph, manifest_ref("main"), before + 1)
    graph = check_third_write(graph.location.path, second=True)
    assert [each.recovery_kind for each in graph.recoveries()] == ["RolledForward"]


def test_a_decision_changes_nothing(graph: Graph) -> None:
    """Who only wants to know looks at the same things, torn versions included, and leaves them there."""
    die(graph, "write.table_committed.2")
    (left,) = graph.pending()
    tear(graph, left.tables[0].ref, left.tables[0].expected_version + 1)
    stored = read_stored(graph.door.storage.control, left.operation_id)
    assert stored is not None
    manifest = graph.door.manifest
    with graph.door.storage.locks.lock("branch.main").acquire() as lock:
        before = fingerprint(graph.location.path)
        state = manifest.state_of(manifest.open("main"), MAIN)
        case = RecoveryCase(stored.sidecar, stored.e_tag, state, lock, MAIN)
        decision = decide(manifest, case, sync_failed=False)
        assert fingerprint(graph.location.path) == before
    assert decision.kind is DecisionKind.ROLL_BACK
    classes = [(each.table_key, each.classification) for each in decision.outcomes]
    assert classes == [(key, "NoMovement") for key in WRITTEN]
