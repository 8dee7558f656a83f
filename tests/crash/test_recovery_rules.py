"""Recovery beyond the crash matrix: odd sidecars, failing storage calls, audits, live writers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from omnigraph_core import faults, layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.ids import new_ulid
from omnigraph_core.settings import Settings
from omnigraph_core.tables.create import create_table
from omnigraph_core.write.decide import HeadBehindManifest
from omnigraph_core.write.freshness import Drift
from omnigraph_core.write.sidecar_record import SidecarUnreadable
from tests.support import warm
from tests.support.dying import die
from tests.support.paused import go_on, wait_until_stopped
from tests.support.processes import REPOSITORY, Omnigraph, clean_environment
from tests.support.trees import fingerprint
from tests.support.writers import TAG, TAG_SCHEMA, check_whole, content, open_graph, rows_for, write_three

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture
def graph(graph: Graph) -> Graph:
    write_three(graph, "first")
    return graph


def root_of(graph: Graph) -> Path:
    return graph.location.path


def sidecar_file(graph: Graph) -> Path:
    (found,) = (root_of(graph) / layout.RECOVERY_DIR).glob("*.json")
    return found


def edit_sidecar(graph: Graph, **changes: object) -> None:
    """As if it had been written like this, by an earlier OmniGraph: without a digest."""
    path = sidecar_file(graph)
    content = {**json.loads(path.read_text()), **changes}
    del content["digest"]
    path.write_text(json.dumps(content))


def test_a_clean_open_writes_nothing(graph: Graph) -> None:
    before = fingerprint(root_of(graph))
    open_graph(root_of(graph), SETTINGS)
    assert fingerprint(root_of(graph)) == before


def test_a_read_only_open_leaves_a_sidecar_alone(graph: Graph, omnigraph: Omnigraph) -> None:
    die(graph, "write.after_b")
    before = fingerprint(root_of(graph))
    reader = Graph.open(str(root_of(graph)), SETTINGS, OpenMode.AS_IS)
    assert "second" not in content(reader)["node:Person"]
    for command in (["snapshot"], ["status"], ["recovery", "list"], ["schema", "show"]):
        assert omnigraph(*command, root_of(graph)).code == 0
    assert fingerprint(root_of(graph)) == before


@pytest.mark.parametrize("version", [0, 3, "1", None])
def test_an_unknown_sidecar_version_is_refused(version: object, graph: Graph, omnigraph: Omnigraph) -> None:
    die(graph, "write.after_b")
    edit_sidecar(graph, schema_version=version)
    before = sidecar_file(graph).read_bytes()
    (warning,) = open_graph(root_of(graph), SETTINGS).warnings
    assert sidecar_file(graph).name in warning
    with pytest.raises(SidecarUnreadable, match="version"):
        write_three(graph, "third")
    assert omnigraph("branch", "create", "x", "--store", root_of(graph)).code == 74
    assert omnigraph("recovery", "run", "--store", root_of(graph)).code == 74
    assert sidecar_file(graph).read_bytes() == before
    assert omnigraph("snapshot", root_of(graph)).code == 0


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b"null", b'{"schema_version": 1}', b"\xff\xfe"])
def test_a_corrupt_sidecar_is_refused(garbage: bytes, graph: Graph) -> None:
    die(graph, "write.after_b")
    path = sidecar_file(graph)
    path.write_bytes(garbage)
    for attempt in (lambda: open_graph(root_of(graph), SETTINGS), lambda: write_three(graph, "third")):
        with pytest.raises(SidecarUnreadable, match=path.name):
            attempt()
    assert path.read_bytes() == garbage
    assert content(Graph.open(str(root_of(graph)), SETTINGS))["node:Person"] == {"first"}


def test_other_files_in_the_recovery_directory_are_ignored(graph: Graph) -> None:
    folder = root_of(graph) / layout.RECOVERY_DIR
    folder.mkdir(exist_ok=True)
    (folder / "README.txt").write_text("hello")
    write_three(graph, "second")
    assert graph.recoveries() == []


def test_a_head_behind_the_manifest_is_refused_and_the_file_kept(graph: Graph) -> None:
    die(graph, "write.after_a")
    entry = graph.snapshot().entry("node:Person")
    newest = root_of(graph) / entry.metadata.manifest_path
    newest.rename(newest.with_suffix(".lost"))
    with pytest.raises(HeadBehindManifest, match="node:Person"):
        open_graph(root_of(graph), SETTINGS)
    assert sidecar_file(graph).exists()


def test_drift_that_nobody_recorded_stops_a_write(graph: Graph) -> None:
    import lance

    entry = graph.snapshot().entry("node:Person")
    path = root_of(graph) / entry.table_path
    table = graph.door.tables.open(entry.ref)
    lance.write_dataset(rows_for(table, "foreign"), str(path), mode="append")
    with pytest.raises(Drift, match="ahead of manifest") as refused:
        write_three(graph, "second")
    assert "repair" in str(refused.value.hint)
    assert content(graph)["node:Person"] == {"first"}


def test_drift_of_ours_without_a_sidecar_is_rolled_back(graph: Graph) -> None:
    """A writer that was only slow comes late, after its sidecar was settled: never published."""
    die(graph, "write.table_committed.1")
    sidecar_file(graph).unlink()
    write_three(graph, "third")
    check_whole(graph)
    assert content(graph)["node:Person"] == {"first", "third"}
    (audit,) = graph.recoveries()
    assert (audit.recovery_kind, audit.sidecar_writer_kind) == ("RolledBack", "LateWriter")


def test_drift_that_does_not_match_the_sidecar_is_rolled_back(graph: Graph) -> None:
    """Somebody else's commit on top of ours: not exactly our transactions, so nothing of it stays."""
    import lance

    die(graph, "write.after_b")
    entry = graph.snapshot().entry("node:Person")
    table = graph.door.tables.open(entry.ref)
    lance.write_dataset(rows_for(table, "foreign"), str(root_of(graph) / entry.table_path), mode="append")
    graph = open_graph(root_of(graph), SETTINGS)
    check_whole(graph)
    assert content(graph)["node:Person"] == {"first"}
    (audit,) = graph.recoveries()
    assert audit.recovery_kind == "RolledBack"
    classes = {each.table_key: each.classification for each in audit.outcomes}
    assert classes["node:Person"] == "UnexpectedMultistep"
    assert classes["node:Company"] == "RolledPastExpected"


def test_a_lost_staged_file_is_never_rolled_forward(graph: Graph) -> None:
    die(graph, "write.after_b")
    staged = json.loads(sidecar_file(graph).read_text())["tables"][0]["files"][0]["path"]
    (root_of(graph) / staged).unlink()
    graph = open_graph(root_of(graph), SETTINGS)
    check_whole(graph)
    assert [each.recovery_kind for each in graph.recoveries()] == ["RolledBack"]
    assert content(graph)["node:Person"] == {"first"}


def test_a_stale_sidecar_of_a_finished_write_moves_no_data(graph: Graph) -> None:
    die(graph, "recovery.sidecar_delete")
    before = {key: entry.table_version for key, entry in open_snapshot(graph).items()}
    graph = open_graph(root_of(graph), SETTINGS)
    assert {key: entry.table_version for key, entry in open_snapshot(graph).items()} == before
    assert [each.recovery_kind for each in graph.recoveries()] == ["RolledForward"]
    graph = open_graph(root_of(graph), SETTINGS)
    assert len(graph.recoveries()) == 1
    check_whole(graph)


def open_snapshot(graph: Graph) -> dict[str, object]:
    return dict(graph.snapshot().tables)  # type: ignore[arg-type]


def test_two_dead_writers_are_judged_one_after_the_other(graph: Graph) -> None:
    graph.create_branch("dev")
    die(graph, "write.after_b", "on-main")
    die(graph, "write.table_committed.1", "on-dev", "dev")
    graph = open_graph(root_of(graph), SETTINGS)
    check_whole(graph)
    assert "on-main" in content(graph)["node:Person"]
    assert content(graph, "dev")["node:Person"] == {"first"}
    assert {(each.branch, each.recovery_kind) for each in graph.recoveries()} == {
        ("main", "RolledForward"),
        ("dev", "RolledBack"),
    }


def test_a_branch_is_recovered_on_its_own(graph: Graph) -> None:
    graph.create_branch("dev")
    write_three(graph, "dev-one", "dev")
    die(graph, "write.table_committed.2", "dev-two", "dev")
    main = graph.snapshot()
    graph = open_graph(root_of(graph), SETTINGS)
    check_whole(graph)
    assert graph.snapshot() == main
    assert content(graph, "dev")["node:Person"] == {"first", "dev-one"}


def test_a_sidecar_of_a_deleted_branch_is_discarded_on_main(graph: Graph) -> None:
    graph.create_branch("dev")
    die(graph, "write.after_b", "lost", "dev")
    copy = sidecar_file(graph).read_bytes()
    name = sidecar_file(graph).name
    graph = open_graph(root_of(graph), SETTINGS)
    graph.delete_branch("dev")
    (root_of(graph) / layout.RECOVERY_DIR / name).write_bytes(copy)
    operation = json.loads(copy)["operation_id"]
    another = operation[:-1] + ("Y" if operation.endswith("X") else "X")
    edit_sidecar(graph, operation_id=another, recovery_commit_id="01ZZZZZZZZZZZZZZZZZZZZZZZZ")
    sidecar_file(graph).rename(sidecar_file(graph).with_name(f"{another}.json"))
    write_three(graph, "third")
    check_whole(graph)
    kinds = [(each.branch, each.recovery_kind) for each in graph.recoveries()]
    assert kinds == [("dev", "RolledForward"), ("main", "OrphanedBranchDiscarded")]
    listed = [each for each in graph.log().commits.values() if each.actor_id == "omnigraph:recovery"]
    assert {each.branch for each in listed} == {"dev", "main"}


def test_a_reused_branch_name_is_another_branch(graph: Graph) -> None:
    graph.create_branch("dev")
    die(graph, "write.after_b", "lost", "dev")
    saved = sidecar_file(graph).read_bytes()
    path = sidecar_file(graph)
    path.unlink()
    graph.delete_branch("dev")
    graph.create_branch("dev")
    path.write_bytes(saved)
    graph = open_graph(root_of(graph), SETTINGS)
    check_whole(graph)
    assert content(graph, "dev")["node:Person"] == {"first"}
    assert [each.recovery_kind for each in graph.recoveries()] == ["OrphanedBranchDiscarded"]


def test_failing_to_write_the_sidecar_aborts_before_anything_moves(graph: Graph) -> None:
    before = graph.snapshot()
    faults.arm("recovery.sidecar_write=error")
    with pytest.raises(OmnigraphError, match="injected"):
        write_three(graph, "second")
    faults.arm("")
    assert graph.snapshot() == before
    check_whole(graph)
    write_three(graph, "third")
    assert graph.recoveries() == []


def test_failing_to_delete_the_sidecar_is_a_warning(graph: Graph) -> None:
    faults.arm("recovery.sidecar_delete=error")
    published = write_three(graph, "second")
    assert "could not be removed" in published.warnings[0]
    faults.arm("")
    assert sidecar_file(graph).exists()
    write_three(graph, "third")
    check_whole(graph)
    assert [each.recovery_kind for each in graph.recoveries()] == ["RolledForward"]


def test_failing_to_list_sidecars_fails_loudly(graph: Graph) -> None:
    faults.arm("recovery.sidecar_list=error")
    with pytest.raises(OmnigraphError, match="injected"):
        write_three(graph, "second")
    with pytest.raises(OmnigraphError, match="injected"):
        open_graph(root_of(graph), Settings(fsync=False, failpoints="recovery.sidecar_list=error"))
    faults.arm("")
    write_three(graph, "third")
    check_whole(graph)


def test_a_failing_audit_is_made_up_for_once(graph: Graph) -> None:
    die(graph, "write.after_b")
    faults.arm("recovery.commit_recorded=error")
    with pytest.raises(OmnigraphError, match="injected"):
        write_three(graph, "third")
    assert sidecar_file(graph).exists()
    faults.arm("")
    write_three(graph, "third")
    check_whole(graph)
    assert [each.recovery_kind for each in graph.recoveries()] == ["RolledForward"]


@pytest.mark.parametrize("step", ["write.after_b", "write.table_committed.1"])
def test_the_next_write_of_an_open_handle_heals_first(step: str, graph: Graph) -> None:
    die(graph, step)
    write_three(graph, "third")
    check_whole(graph)
    assert len(graph.recoveries()) == 1


def test_tables_that_were_not_part_of_the_write_stay(graph: Graph) -> None:
    before = graph.snapshot().entry("edge:WorksAt")
    die(graph, "write.table_committed.2")
    graph = open_graph(root_of(graph), SETTINGS)
    assert graph.snapshot().entry("edge:WorksAt") == before


def test_only_its_own_table_goes_with_a_write_that_would_have_registered_it(graph: Graph) -> None:
    """Another one has been created in its place since, by somebody who has not come to register it."""
    die(graph, "write.table_committed.4", "second", more=("register",))
    shutil.rmtree(root_of(graph) / TAG.path)
    create_table(graph.door.tables, TAG, TAG_SCHEMA, new_ulid())
    edit_sidecar(graph, base_head="01ZZZZZZZZZZZZZZZZZZZZZZZZ")
    graph = open_graph(root_of(graph), SETTINGS)
    assert [each.recovery_kind for each in graph.recoveries()] == ["RolledBack"]
    assert graph.door.tables.open(TAG).version == 1
    check_whole(graph)


def test_a_live_writer_is_left_alone(graph: Graph, omnigraph: Omnigraph) -> None:
    """A writer that is only slow keeps its sidecar; listing goes on and says so."""
    process = warm.Popen(
        [sys.executable, "-m", "tests.support.writers", str(root_of(graph)), "main", "slow"],
        env=clean_environment(OMNIGRAPH_FAILPOINTS="write.after_b=stop"),
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until_stopped(process)
        _find_it_alive(graph, omnigraph, process)
    finally:
        go_on(process)
    assert process.wait(240) == 0
    check_whole(graph)
    assert graph.recoveries() == []
    assert "slow" in content(graph)["node:Person"]


def _find_it_alive(graph: Graph, omnigraph: Omnigraph, process: subprocess.Popen[bytes]) -> None:
    report = graph.prepare_for_writing()
    assert report.recovered == ()
    assert len(report.live) == 1
    listed = omnigraph("commit", "list", root_of(graph))
    assert listed.code == 0
    assert "pending" in listed.err
    shown = json.loads(omnigraph("status", root_of(graph), "--json").out)
    assert (shown["locks"][0]["pid"], shown["locks"][0]["branch"]) == (process.pid, "main")
    busy = omnigraph("branch", "create", "x", "--store", root_of(graph), "--lock-timeout", "0.1", "--json")
    assert (busy.code, json.loads(busy.err)["retryable"]) == (8, True)


def test_a_failure_in_the_middle_is_settled_at_once(graph: Graph) -> None:
    """The caller of a failed write learns what became of it, and nothing is left pending."""
    faults.arm("write.table_committed.2=error")
    with pytest.raises(OmnigraphError, match="injected") as failure:
        write_three(graph, "second")
    assert "nothing was changed" in str(failure.value.hint)
    faults.arm("")
    check_whole(graph)
    assert content(graph)["node:Person"] == {"first"}
    faults.arm("write.published=error")
    published = write_three(graph, "third")
    assert "finished by recovery" in published.warnings[0]
    faults.arm("")
    check_whole(graph)
    assert "third" in content(graph)["node:Person"]
    assert [each.recovery_kind for each in graph.recoveries()] == ["RolledBack", "RolledForward"]


def test_an_outcome_that_cannot_be_settled_says_so(graph: Graph) -> None:
    faults.arm("manifest.before_publish=error")
    with pytest.raises(OmnigraphError) as failure:
        write_three(graph, "second")
    assert "the outcome is unknown" in str(failure.value.hint)
    faults.arm("")
    assert sidecar_file(graph).exists()
    write_three(graph, "third")
    check_whole(graph)
    assert content(graph)["node:Person"] == {"first", "second", "third"}


def test_staged_files_that_vanish_are_noticed_before_the_commit(graph: Graph) -> None:
    from omnigraph_core.tables.staged import StagedFileMissing

    original = graph.door.publish

    def sabotage(plan: object) -> object:
        staged = plan.tables[0].staged[0]  # type: ignore[attr-defined]
        graph.door.storage.control.delete(staged.files[0].path)
        return original(plan)  # type: ignore[arg-type]

    graph.door.publish = sabotage  # type: ignore[method-assign, assignment]
    with pytest.raises(StagedFileMissing):
        write_three(graph, "second")
    graph.door.publish = original  # type: ignore[method-assign]
    check_whole(graph)
