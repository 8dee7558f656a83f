"""Maintenance beside what may not notice it: readers of old snapshots, types that come and go, blame;
and in a place where nothing can be written."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from omnigraph_core import layout
from omnigraph_core.diff.trails import Limit
from omnigraph_core.errors import NotFoundError, OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.history.removed import CommitRemoved
from omnigraph_core.ids import new_ulid
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.maintenance import cleanup, control, optimize
from omnigraph_core.settings import Settings
from omnigraph_core.tables.failures import VersionNotFound
from omnigraph_core.tables.fork_refs import RefState, find_ref, ref_path
from omnigraph_core.tables.preview import previewed
from omnigraph_core.tables.stage import stage_append
from tests.support.processes import OMNIGRAPH, clean_environment
from tests.support.programs import require_program
from tests.support.readable import fresh
from tests.support.records import exported, node, write_jsonl
from tests.support.trees import fingerprint
from tests.support.writers import check_whole, rows_for

SETTINGS = Settings(fsync=False, actor="ann")
SCHEMA = "node Person { name: String @key  age: I32? }\nnode City { name: String @key }\n"


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    graph = Graph.init(str(tmp_path / "g"), SCHEMA, SETTINGS, message="init")
    change(graph, "born", 'insert Person { name: "Ann", age: 1 }')
    return graph


def change(graph: Graph, message: str, statements: str, branch: str = "main") -> None:
    graph.change(f"query q() {{ {statements} }}", branch=branch, message=message)


def grow(graph: Graph, ages: Iterator[int] | range, type_name: str = "Person") -> None:
    for age in ages:
        change(graph, f"age {age}", f'update {type_name} set {{ age: {age} }} where name = "Ann"')


def clean(graph: Graph, keep: int = 1) -> None:
    done = graph.cleanup(keep=keep, grace_s=0.0, force=True)
    assert [table.error for table in done.tables if table.error] == []


# ---- a place that cannot be written ----

READ_ONLY = """
mount --bind g g && mount -o remount,bind,ro g || exit 99
for command in 'cleanup --keep 3' 'cleanup --yes' 'optimize' 'optimize --all-branches' 'maintain' \\
        'maintain --if-needed' 'repair' 'repair --confirm'; do
    "$0" $command g; echo "$command: $?"
done
for command in 'doctor' 'cleanup --dry-run' 'optimize --dry-run'; do
    "$0" $command g >/dev/null; echo "$command: $?"
done
"""


def test_nothing_is_begun_on_a_read_only_disk(graph: Graph) -> None:
    """A real one, in a mount namespace of its own. Whoever only looks does not mind."""
    grow(graph, range(2, 7))
    graph.create_branch("side")
    before, root = fingerprint(graph.location.path), graph.location.path.parent
    script = [require_program("unshare"), "--user", "--map-root-user", "--mount", "sh", "-c", READ_ONLY]
    done = subprocess.run(
        [*script, str(OMNIGRAPH)],
        cwd=root,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    codes = [line.rsplit(": ", 1)[1] for line in done.stdout.splitlines()]
    assert codes == ["74"] * 8 + ["0"] * 3, done.stdout + done.stderr
    errors = done.stderr.splitlines()
    assert sum(line.startswith("error:") and "read-only" in line.lower() for line in errors) == 8, done.stderr
    assert "Traceback" not in done.stderr
    assert fingerprint(graph.location.path) == before


# ---- readers ----


def test_a_reader_whose_snapshot_goes_gets_one_clear_error(graph: Graph, tmp_path: Path) -> None:
    """Whatever it has read of it before: the whole answer as it was, or an error, and no third thing."""
    rows = [node("Person", name=f"p{number:04d}", age=number) for number in range(3000)]
    graph.load([write_jsonl(tmp_path / "rows", rows)], LoadMode.MERGE)
    old = graph.commit("main").commit_id
    readers = [fresh(graph).at(old) for _ in range(3)]
    whole = b"".join(readers[0].export())
    begun = readers[1].export()
    first = next(iter(begun))
    change(graph, "gone", "delete Person where age > 0")
    graph.optimize()
    clean(graph)
    for reader in readers:
        with pytest.raises(NotFoundError, match="no longer exists") as failure:
            next(iter(reader.export()))
        assert "cleanup removed it" in (failure.value.hint or "")
    answer = first
    with suppress(VersionNotFound):
        for part in begun:
            answer += part
    assert whole.startswith(answer)
    with pytest.raises(CommitRemoved):
        fresh(graph).at(old)
    check_whole(graph)


# ---- types that come and go ----

RENAMED = (
    'node Human @rename_from("Person") { name: String @key  age: I32? }\nnode City { name: String @key }\n'
)


@pytest.mark.parametrize("keep", [1, 4])
def test_a_renamed_type_is_the_same_table_whatever_cleanup_does(graph: Graph, keep: int) -> None:
    grow(graph, range(2, 6))
    graph.create_branch("old")
    graph.apply_schema(RENAMED, message="renamed")
    clean(graph, keep)
    assert [row["data"]["age"] for row in exported(graph) if row["type"] == "Human"] == [5]
    assert [row["data"]["age"] for row in exported(graph, "old") if row["type"] == "Person"] == [5]
    grow(graph, range(6, 10), "Human")
    clean(graph, keep)
    other = fresh(graph)
    assert [row["data"]["age"] for row in exported(other) if row["type"] == "Human"] == [9]
    assert [row["data"]["age"] for row in exported(other, "old") if row["type"] == "Person"] == [5]
    change(graph, "old goes on", 'update Person set { age: 50 } where name = "Ann"', "old")
    graph.optimize()
    clean(graph, keep)
    assert [row["data"]["age"] for row in exported(fresh(graph), "old")] == [50]
    assert [each for each in fresh(graph).doctor(deep=True) if each.counts] == []
    check_whole(graph)


@pytest.mark.parametrize("keep", [1, 4])
def test_a_type_that_was_dropped_and_added_again_with_cleanup_between(graph: Graph, keep: int) -> None:
    """Another branch still has the old table under the key that the new one has on main."""
    grow(graph, range(2, 6))
    graph.create_branch("old")
    before = graph.snapshot().entry("node:Person").table_path
    graph.apply_schema("node City { name: String @key }\n", message="dropped")
    clean(graph, keep)
    graph.apply_schema(SCHEMA, message="again")
    after = graph.snapshot().entry("node:Person").table_path
    assert (exported(graph), after != before) == ([], True)
    clean(graph, keep)
    change(graph, "reborn", 'insert Person { name: "Ann", age: 70 }')
    grow(graph, range(71, 75))
    graph.optimize()
    clean(graph, keep)
    other = fresh(graph)
    assert [row["data"]["age"] for row in exported(other)] == [74]
    assert [row["data"]["age"] for row in exported(other, "old")] == [5]
    change(graph, "old goes on", 'update Person set { age: 50 } where name = "Ann"', "old")
    clean(graph, keep)
    assert [row["data"]["age"] for row in exported(fresh(graph), "old")] == [50]
    graph.delete_branch("old")
    clean(graph, keep)
    assert not (graph.location.path / before).exists()
    assert [row["data"]["age"] for row in exported(fresh(graph))] == [74]
    assert [each for each in fresh(graph).doctor(deep=True) if each.counts] == []
    check_whole(graph)


# ---- blame ----


def blamed(graph: Graph, ref: str = "main") -> list[object]:
    found = graph.blame("Person", "Ann", ref=ref)
    return [(each.property, each.commit.message, each.limit) for each in found.origins]


def touched(graph: Graph) -> list[object]:
    found = graph.commits(type_name="Person", entity_id="Ann")
    unknown = [(each.commit.message, each.limit) for each in found.unknown]
    return [[each.message for each in found.commits], unknown]


def test_blame_and_the_commits_of_an_entity_do_not_miss_pruned_rows(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First only versions go, then the rows of `__manifest` about them: nothing else is said."""
    change(graph, "a town", 'insert City { name: "Rome" }')
    grow(graph, range(2, 8))
    graph.create_tag("mid", "main~3")
    change(graph, "another", 'insert City { name: "Bonn" }')
    grow(graph, range(8, 12))
    clean(graph, keep=3)
    kept = fresh(graph)
    before = blamed(kept), blamed(kept, "tag:mid"), touched(kept)
    assert ("age", "age 11", None) in before[0]
    assert ("name", "age 9", Limit.REMOVED) in before[0]
    rows = graph.door.manifest.open("main").count_rows("object_type = 'table_version'")
    monkeypatch.setattr(control, "SUPERSEDED_ROWS_MAX", 0)
    clean(graph, keep=3)
    other = fresh(graph)
    assert other.door.manifest.open("main").count_rows("object_type = 'table_version'") < rows
    assert (blamed(other), blamed(other, "tag:mid"), touched(other)) == before
    with pytest.raises(OmnigraphError, match="removed by cleanup"):
        blamed(other, "main~4")
    check_whole(graph)


# ---- branches ----


@pytest.mark.parametrize("step", ["optimize", "cleanup"])
def test_a_branch_that_is_deleted_meanwhile_is_no_failure(
    graph: Graph, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.create_branch("brief")
    change(graph, "brief", 'update Person set { age: 9 } where name = "Ann"', "brief")
    run = optimize.Optimizer.run if step == "optimize" else cleanup.Cleanup._removed

    def late(self, *more):  # type: ignore[no-untyped-def]
        if "brief" in fresh(graph).branches():
            fresh(graph).delete_branch("brief")
        return run(self, *more)

    owner = optimize.Optimizer if step == "optimize" else cleanup.Cleanup
    monkeypatch.setattr(owner, run.__name__, late)
    done = graph.maintain(keep=3, grace_s=0.0)
    assert (done.failures, done.has_failed) == ((), False)
    check_whole(graph)


# ---- previews ----


def test_a_preview_leaves_nothing(graph: Graph) -> None:
    """Lance writes down its transaction too, with all row ids, and would spare that for a week."""
    entry, storage = graph.snapshot().entry("node:Person"), graph.door.storage
    table = graph.door.tables.open(entry.ref, entry.table_version)
    staged = stage_append(storage, table, rows_for(table, "new"), new_ulid())
    before = fingerprint(graph.location.path)
    with previewed(storage, table, staged) as shown, previewed(storage, shown, staged) as more:
        assert (shown.count_rows(), more.count_rows()) == (2, 3)
    assert fingerprint(graph.location.path) == before


# ---- forks of tables ----


@pytest.mark.parametrize("how", ["flipped", "emptied"])
def test_cleanup_rebuilds_the_damaged_ref_of_a_fork(graph: Graph, how: str) -> None:
    """Nothing else reads it before a branch is made from this one."""
    graph.create_branch("dev")
    for age in range(2, 7):
        change(graph, f"age {age}", f'update Person set {{ age: {age} }} where name = "Ann"', "dev")
    ref = graph.snapshot().entry("node:Person").ref
    file = graph.location.path / ref_path(ref, "dev")
    whole = find_ref(graph.door.tables, ref, "dev")
    assert whole is not None
    file.write_bytes(b"x" + file.read_bytes()[1:] if how == "flipped" else b"")
    found = [each for each in fresh(graph).doctor() if each.counts]
    assert [each.code for each in found] == ["dataset-unreadable"]
    assert "omnigraph maintain" in (found[0].fix or "")
    planned = graph.cleanup(keep=3, grace_s=0.0, dry_run=True)
    assert [each.table_key for each in planned.tables if each.error] == ["node:Person"]
    with graph.door.storage.locks.lock(layout.branch_lock("dev"), doing="test").acquire():
        busy = graph.cleanup(keep=3, grace_s=0.0)
    assert [each.table_key for each in busy.tables if each.error] == ["node:Person"]
    clean(graph, keep=3)
    again = find_ref(graph.door.tables, ref, "dev")
    assert again is not None
    assert again.fork is not None
    assert whole.fork is not None
    assert (again.state, again.fork.parent_version) == (RefState.WHOLE, whole.fork.parent_version)
    assert how == "emptied" or again.fork == whole.fork
    graph.create_branch("child", "dev")
    change(graph, "mine", 'update Person set { age: 9 } where name = "Ann"', "child")
    assert [row["data"]["age"] for row in exported(fresh(graph), "dev")] == [6]
    check_whole(graph)
