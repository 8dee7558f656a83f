"""A write is settled once: by whoever comes first, and never again by a sidecar that is back.

A removal is not synced, a request to object storage may land late, and a recovery may sleep: so a
sidecar can re-appear at any later time, in any state it ever had, and somebody may act on one that
he read an hour ago.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core import faults, layout
from omnigraph_core.graph import Graph
from omnigraph_core.manifest.publisher import Publisher
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.manifest.request import Publish
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.settings import Settings, load_settings
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.write.sidecar import SidecarTaken, read_stored
from tests.support.dying import die
from tests.support.records import PEOPLE
from tests.support.writers import WRITTEN, check_audits, check_whole, content, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture
def graph(graph: Graph) -> Graph:
    write_three(graph, "first")
    return graph


def sidecars(graph: Graph) -> dict[str, bytes]:
    folder = graph.location.path / layout.RECOVERY_DIR
    return {path.name: path.read_bytes() for path in folder.glob("*.json")}


def watch_sidecars(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, bytes]]:
    """Every state in which this process leaves the folder of sidecars, in order."""
    seen: list[dict[str, bytes]] = []

    def hit(name: str) -> None:
        found = sidecars(graph)
        if found and found not in seen:
            seen.append(found)

    monkeypatch.setattr(faults, "hit", hit)
    return seen


def check_ghosts_do_nothing(graph: Graph, ghosts: list[dict[str, bytes]]) -> None:
    """Each sidecar is back, with two later commits on top of what it once was about."""
    for number, ghost in enumerate(ghosts):
        write_three(graph, f"later-{number}")
        write_three(graph, f"latest-{number}")
        audits, history, found = graph.recoveries(), graph.log().history("main"), content(graph)
        for name, data in ghost.items():
            (graph.location.path / layout.RECOVERY_DIR / name).write_bytes(data)
        graph = open_graph(graph.location.path, SETTINGS)
        check_whole(graph)
        assert graph.recoveries() == audits
        assert graph.log().history("main") == history
        assert content(graph) == found


@pytest.mark.parametrize(
    "death", ["write.after_a", "write.table_committed.1", "write.after_b", "write.published"]
)
def test_the_sidecar_of_a_recovered_write_comes_back(
    death: str, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    die(graph.location.path, death)
    with monkeypatch.context() as patch:
        ghosts = watch_sidecars(graph, patch)
        graph = open_graph(graph.location.path, SETTINGS)
    assert len(ghosts) == 2, "before and after the decision"
    check_ghosts_do_nothing(graph, ghosts)
    check_audits(graph)


def test_the_sidecar_of_a_finished_write_comes_back(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        ghosts = watch_sidecars(graph, patch)
        write_three(graph, "second")
    assert len(ghosts) == 1
    check_ghosts_do_nothing(graph, ghosts)
    assert graph.recoveries() == []


def test_a_recovery_that_comes_too_late_does_not_bring_the_sidecar_back(graph: Graph) -> None:
    """It has read the sidecar; before it writes its decision, somebody else has done everything."""
    die(graph.location.path, "write.after_b")
    control = graph.door.storage.control
    (operation_id,) = (sidecar.operation_id for sidecar in graph.pending())
    stored = read_stored(control, operation_id)
    assert stored is not None
    with graph.door.storage.locks.lock(layout.branch_lock("main")).acquire() as lock:
        control.delete(stored.sidecar.path)
        with pytest.raises(SidecarTaken):
            graph.door.recoverer.recover(stored, lock)
    assert sidecars(graph) == {}


def test_a_writer_does_not_delete_a_sidecar_that_recovery_has_decided_about(graph: Graph) -> None:
    """In phase D it finds that somebody else is at work on it, and leaves it to him."""
    stored = []

    def hit(name: str) -> None:
        if name == "recovery.sidecar_delete":
            (path,) = (graph.location.path / layout.RECOVERY_DIR).glob("*.json")
            path.write_bytes(path.read_bytes() + b"\n")
            stored.append(path.read_bytes())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faults, "hit", hit)
        published = write_three(graph, "second")
    assert published.warnings == ()
    assert list(sidecars(graph).values()) == stored
    write_three(graph, "third")
    check_whole(graph)


# ---- object storage ----


@pytest.fixture
def environment(s3_environment: dict[str, str]) -> dict[str, str]:
    return {**s3_environment, "OMNIGRAPH_ACTOR": "ann"}


def test_a_publish_that_lands_beside_the_fence_keeps_its_head(
    environment: dict[str, str], s3_location: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer sleeps with its publish on the way. Recovery has looked at the head row when it lands."""
    place, settings = s3_location(), load_settings(environment, Path("/"))
    write_three(Graph.init(place, PEOPLE, settings), "first")
    die(place, "write.after_b", **environment, OMNIGRAPH_LEASE_TTL="3")
    graph = Graph.open(place, settings)
    (sidecar,) = graph.pending()
    original = Publisher.publish
    landed: list[Snapshot] = []

    def publish(self: Publisher, request: Publish, *more: object) -> Snapshot:
        if not landed:
            landed.append(sidecar_publish())
        return original(self, request, *more)  # type: ignore[arg-type]

    def sidecar_publish() -> Snapshot:
        late = Publisher(Manifest(Tables(graph.door.storage)))
        return original(late, sidecar.to_publish(), lambda: None)

    monkeypatch.setattr(Publisher, "publish", publish)
    report = graph.prepare_for_writing(patient=True)
    monkeypatch.undo()
    assert [each.recovery_kind for each in report.recovered] == ["RolledForward"]
    assert all(content(graph)[key] == {"first", "second"} for key in WRITTEN)
    commits = [each.commit_id for each in graph.log().history("main")]
    assert sidecar.head.commit_id in commits, "its rows are there, and its commit is not"
    check_whole(graph)
    check_audits(graph)
