"""What killed processes leave behind, and rows that nobody asks for: they go, and what is in use stays."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from omnigraph_core import faults, layout
from omnigraph_core.errors import StorageError
from omnigraph_core.graph import Graph
from omnigraph_core.ids import new_ulid
from omnigraph_core.maintenance import control, leftovers
from omnigraph_core.maintenance.cleaned import Cleaned
from omnigraph_core.settings import Settings
from omnigraph_core.tables.stage import stage_append
from omnigraph_core.write.staging import staging
from omnigraph_core.write.staging_record import LOAD_KIND, StagingRecord
from tests.support.readable import PERSON, contents, fresh, ids_of
from tests.support.records import PEOPLE
from tests.support.writers import check_whole, content, rows_for, write_three

SETTINGS = Settings(fsync=False, actor="ann")
HOUR = 3600.0


@pytest.fixture
def graph(graph: Graph) -> Graph:
    for number in range(6):
        write_three(graph, f"p{number}")
    return graph


def clean(graph: Graph, grace_s: float = 0.0, *, dry_run: bool = False) -> Cleaned:
    done = graph.cleanup(keep=3, grace_s=grace_s, dry_run=dry_run)
    assert [table.error for table in done.tables if table.error] == []
    return done


def age(path: Path, seconds: float = 2 * HOUR) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def staged_by_the_dead(graph: Graph, branch: str = "main") -> list[Path]:
    """What a writer leaves that is killed before its sidecar."""
    entry = graph.snapshot(branch).entry(PERSON)
    table = graph.door.tables.open(entry.ref, entry.table_version)
    staged = stage_append(graph.door.storage, table, rows_for(table, "ghost"), new_ulid())
    return [graph.location.path / file.path for file in staged.files]


# ---- temporary files ----


def test_half_written_objects_go_after_the_grace(graph: Graph) -> None:
    root = graph.location.path
    old = [root / ".og-tmp.aa", root / layout.RECOVERY_DIR / ".og-tmp.bb"]
    young = root / layout.STAGING_DIR / ".og-tmp.cc"
    for path in (*old, young):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"half")
    for path in old:
        age(path)
    assert clean(graph, HOUR, dry_run=True).leftovers == 2
    assert all(path.exists() for path in old)
    done = clean(graph, HOUR)
    assert (done.leftovers, done.leftover_bytes) == (2, 8)
    assert [path.exists() for path in (*old, young)] == [False, False, True]


def test_a_writer_whose_half_written_object_went_fails_and_nothing_happened(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It slept between writing the file and giving it its name."""
    before = content(graph)

    def sleeps(step: str) -> None:
        if step == "control.create.synced":
            monkeypatch.setattr(faults, "hit", lambda _: None)
            for path in graph.location.path.rglob(".og-tmp.*"):
                age(path)
            assert clean(fresh(graph), HOUR).leftovers == 1

    monkeypatch.setattr(faults, "hit", sleeps)
    with pytest.raises(StorageError):
        write_three(graph, "late")
    assert content(fresh(graph)) == before
    write_three(graph, "later")
    check_whole(graph)


# ---- staged files ----


@pytest.mark.parametrize("branch", ["main", "fix/one"])
def test_staged_files_without_a_record_go_after_a_day(graph: Graph, branch: str) -> None:
    if branch != "main":
        graph.create_branch(branch)
        write_three(graph, "mine", branch)
    before = content(graph, branch)
    files = staged_by_the_dead(graph, branch)
    clean(graph)
    assert all(path.exists() for path in files), "too young: its writer may be at work"
    for path in graph.location.path.rglob("*"):
        age(path, 48 * HOUR)
    planned = clean(graph, dry_run=True)
    assert [each.files for each in planned.tables if each.action == "staged"] == [len(files)]
    done = clean(graph)
    assert [(each.table_key, each.branch, each.files) for each in done.tables if each.action == "staged"] == [
        (PERSON, branch, len(files))
    ]
    assert not any(path.exists() for path in files)
    assert content(fresh(graph), branch) == before
    contents(fresh(graph))
    check_whole(graph)


def test_staged_files_stay_while_anybody_has_a_record(graph: Graph) -> None:
    """A load on Spark writes files before they are on its list."""
    files = staged_by_the_dead(graph)
    for path in graph.location.path.rglob("*"):
        age(path, 48 * HOUR)
    with staging(graph.door.storage, StagingRecord(new_ulid(), LOAD_KIND, "main", "ann")):
        clean(graph)
        assert all(path.exists() for path in files)
    clean(graph)
    assert not any(path.exists() for path in files)


def test_files_that_were_committed_meanwhile_stay(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that slept for two days publishes between the look and the removal."""
    original = leftovers.Leftovers.remove_unreferenced
    entry = graph.snapshot().entry(PERSON)
    table = graph.door.tables.open(entry.ref, entry.table_version)
    staged = stage_append(graph.door.storage, table, rows_for(table, "late"), new_ulid())
    for path in graph.location.path.rglob("*"):
        age(path, 48 * HOUR)

    def publishes_first(self, found, on):  # type: ignore[no-untyped-def]
        table.lance.commit(table.lance.uri, staged.transaction)
        return original(self, found, on)

    monkeypatch.setattr(leftovers.Leftovers, "remove_unreferenced", publishes_first)
    done = clean(graph)
    assert [each for each in done.tables if each.action == "staged"] == []
    assert "late" in graph.door.tables.open(entry.ref).read(["id"]).column("id").to_pylist()


def test_a_folder_of_a_job_that_was_given_up_goes(graph: Graph) -> None:
    control_store = graph.door.storage.control
    dead, live = new_ulid(), new_ulid()
    for operation_id in (dead, live):
        control_store.create(f"{layout.staging_folder(operation_id)}/lists/0", b"[]")
        age(graph.location.path / layout.staging_folder(operation_id) / "lists" / "0")
    with staging(graph.door.storage, StagingRecord(live, LOAD_KIND, "main", "ann")):
        assert clean(graph, HOUR).leftovers == 1
        assert control_store.list_prefix(layout.staging_folder(dead)) == []
        assert len(control_store.list_prefix(layout.staging_folder(live))) == 1


# ---- rows of the manifest ----


@pytest.fixture
def pruning(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if few rows were many."""
    monkeypatch.setattr(control, "SUPERSEDED_ROWS_MAX", 2)
    monkeypatch.setattr(control, "MANIFEST_DELETED_MAX", 2)


def manifest_rows(graph: Graph, branch: str = "main") -> int:
    return fresh(graph).door.manifest.open(branch).count_rows("object_type = 'table_version'")


@pytest.mark.usefixtures("pruning")
def test_rows_of_removed_versions_go_and_nothing_else_changes(graph: Graph) -> None:
    graph.create_branch("side")
    for number in range(5):
        write_three(graph, f"s{number}", "side")
    ids = {name: ids_of(graph, name) for name in ("main", "side")}
    before, heads = contents(graph), {name: content(graph, name) for name in ids}
    rows = manifest_rows(graph), manifest_rows(graph, "side")
    assert [each.rows > 0 for each in clean(graph, dry_run=True).tables if each.action == "rows"] == [
        True
    ] * 2
    assert (manifest_rows(graph), manifest_rows(graph, "side")) == rows
    done = clean(graph)
    assert {(each.branch, each.action) for each in done.tables if each.rows} == {
        ("main", "rows"),
        ("side", "rows"),
    }
    # Three kept commits and the one before: three tables each, and one that was never written again.
    assert manifest_rows(graph) == 3 * 4 + 1 < rows[0]
    after = contents(fresh(graph))
    kept = {*ids["main"][:3], *ids["side"][:3], ids["main"][0]}
    assert after == {commit_id: before[commit_id] for commit_id in kept}
    assert {name: content(fresh(graph), name) for name in heads} == heads
    write_three(graph, "later")
    write_three(graph, "later", "side")
    graph.create_branch("third", "side")
    write_three(graph, "mine", "third")
    check_whole(graph)
    assert graph.merge("side", into="main").warnings == ()


@pytest.mark.usefixtures("pruning")
def test_a_write_that_died_is_recovered_before_rows_go(graph: Graph) -> None:
    """Recovery looks for the very row of what it may have published."""
    faults.arm("write.after_c=error")
    done = write_three(graph, "dying")
    faults.arm("")
    assert done.commit_id is not None
    assert any(each.rows for each in clean(graph).tables)
    assert "dying" in content(fresh(graph))[PERSON]
    check_whole(graph)


@pytest.mark.usefixtures("pruning")
def test_a_table_made_anew_under_a_name_keeps_its_rows(graph: Graph) -> None:
    without = "\n".join(PEOPLE.splitlines()[:-1]) + "\n"
    graph.apply_schema(without)
    graph.apply_schema(PEOPLE)
    for number in range(4):
        write_three(graph, f"q{number}")
    before = content(graph)
    clean(graph)
    clean(graph)
    assert content(fresh(graph)) == before
    graph.apply_schema(without)
    graph.apply_schema(PEOPLE)
    check_whole(graph)


@pytest.mark.usefixtures("pruning")
def test_a_process_that_knew_the_rows_reads_on(graph: Graph) -> None:
    other = fresh(graph)
    other.snapshot()
    clean(graph)
    assert content(other) == content(graph)
    write_three(other, "by the other")
    assert content(graph) == content(other)
    check_whole(graph)


# ---- control tables ----


def test_optimize_compacts_control_tables_and_history_stays(graph: Graph) -> None:
    before = [(each.commit_id, each.actor_id, each.message) for each in graph.log().history("main")]
    fragments = graph.door.manifest.open("main").count_fragments()
    done = {each.table_key: each for each in graph.optimize().tables}
    assert done[layout.MANIFEST].fragments > done[layout.MANIFEST].fragments_after
    assert {layout.COMMITS, layout.COMMIT_ACTORS} <= done.keys()
    other = fresh(graph)
    assert other.door.manifest.open("main").count_fragments() < fragments
    after = [(each.commit_id, each.actor_id, each.message) for each in other.log().history("main")]
    assert after[1:] == before
    again = graph.optimize()
    assert (again.commit_ids, [each for each in again.tables if each.committed]) == ((), [])
    write_three(graph, "later")
    check_whole(graph)
