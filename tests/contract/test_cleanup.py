"""`cleanup`: what it keeps, one test for each reason, and what goes; it changes no answer."""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import suppress

import pytest

from omnigraph_core import faults, layout
from omnigraph_core.errors import NotFoundError, RefusedError, StorageError, UsageError
from omnigraph_core.graph import Graph
from omnigraph_core.history.removed import CleanupRecordDamaged, CommitRemoved
from omnigraph_core.maintenance.cleaned import Cleaned
from omnigraph_core.settings import Settings
from omnigraph_core.tables.branches import create_fork
from omnigraph_core.tables.commit import unguarded
from omnigraph_core.tables.fork_refs import fork_names
from omnigraph_core.tables.torn import versions_on_disk
from omnigraph_core.write.staging import staging
from omnigraph_core.write.staging_record import LOAD_KIND, StagingRecord
from tests.support.plans import Change, write_changes
from tests.support.readable import PERSON, contents, fresh, ids_of, person_versions
from tests.support.records import PEOPLE
from tests.support.trees import fingerprint
from tests.support.writers import check_whole, content, write_three

SETTINGS = Settings(fsync=False, actor="ann")


@pytest.fixture
def graph(graph: Graph) -> Graph:
    """Seven commits on main: init, and writes of p0 to p5."""
    write_more(graph, 6)
    return graph


def write_more(graph: Graph, count: int, branch: str = "main", prefix: str = "p") -> None:
    for number in range(count):
        write_three(graph, f"{prefix}{number}", branch)


def write_two(graph: Graph, name: str, branch: str) -> None:
    """Only people: the branch inherits all other tables."""
    write_changes(graph, branch, {PERSON: Change({name: 1})})


def age_versions(graph: Graph, seconds: float = 7200.0) -> None:
    """As if every version had been written long ago."""
    then = time.time() - seconds
    for path in graph.location.path.rglob("*.manifest"):
        os.utime(path, (then, then))


def clean(graph: Graph, keep: int = 3, grace_s: float = 0.0) -> Cleaned:
    done = graph.cleanup(keep=keep, grace_s=grace_s, force=True)
    assert [table.error for table in done.tables if table.error] == []
    return done


def files(graph: Graph) -> dict[str, str]:
    """Every file but those of locks, which say who had them last."""
    found = fingerprint(graph.location.path)
    return {path: digest for path, digest in found.items() if not path.startswith(layout.LOCKS_DIR)}


def test_the_newest_commits_stay_and_the_others_are_said_to_be_removed(graph: Graph) -> None:
    before, ids = contents(graph), ids_of(graph)
    done = clean(graph)
    assert (done.commits_removed, done.commits_left) == (4, 3)
    other = fresh(graph)
    after = contents(other)
    assert after == {commit_id: before[commit_id] for commit_id in ids[:3]}
    assert ids_of(other) == ids
    with pytest.raises(CommitRemoved, match="was removed by cleanup on 20"):
        other.snapshot_of(ids[3])
    with pytest.raises(CommitRemoved):
        other.create_branch("old", ids[5])
    assert [other.removals().removed_at(each) is not None for each in other.log().history("main")] == (
        [False] * 3 + [True] * 4
    )
    assert len(person_versions(graph)) == 3
    write_three(graph, "later")
    check_whole(graph)


def test_versions_and_files_are_gone_from_every_dataset(graph: Graph) -> None:
    size = sum(path.stat().st_size for path in graph.location.path.rglob("*") if path.is_file())
    done = clean(graph)
    freed = size - sum(path.stat().st_size for path in graph.location.path.rglob("*") if path.is_file())
    assert {table.table_key for table in done.tables} >= {layout.MANIFEST, layout.COMMITS, PERSON}
    assert sum(table.bytes for table in done.tables) >= freed > 0
    assert len(versions_on_disk(graph.door.tables, graph.door.manifest.open("main").ref)) <= 4
    assert all(table.after.versions >= 1 for table in done.tables)


def test_a_second_run_has_nothing_to_do(graph: Graph) -> None:
    clean(graph)
    before = files(graph)
    done = clean(graph)
    assert (done.tables, done.commits_removed) == ((), 0)
    assert files(graph) == before


def test_more_cannot_be_kept_than_is_left(graph: Graph) -> None:
    clean(graph)
    assert clean(graph, keep=10).commits_removed == 0
    assert len(contents(fresh(graph))) == 3


def test_a_dry_run_says_the_same_and_writes_nothing(graph: Graph) -> None:
    before = fingerprint(graph.location.path)
    planned = fresh(graph).cleanup(keep=3, grace_s=0.0, dry_run=True)
    assert fingerprint(graph.location.path) == before
    done = clean(graph)
    shown = [(table.table_key, table.branch, table.versions, table.bytes) for table in planned.tables]
    assert shown == [(table.table_key, table.branch, table.versions, table.bytes) for table in done.tables]
    assert planned.commits_removed == done.commits_removed


def test_young_commits_stay_however_many(graph: Graph) -> None:
    done = graph.cleanup(older_than_s=3600.0, grace_s=0.0)
    assert (done.commits_removed, done.commits_left) == (0, 7)
    assert graph.cleanup(older_than_s=0.0, grace_s=0.0).commits_left == 3
    assert graph.cleanup(older_than_s=0.0, grace_s=0.0, force=True).commits_left == 1


def test_policies_that_make_no_sense(graph: Graph) -> None:
    for keep in (0, -1):
        with pytest.raises(UsageError):
            graph.cleanup(keep=keep)
    with pytest.raises(RefusedError):
        graph.cleanup(keep=2)
    with pytest.raises(UsageError):
        graph.cleanup(grace_s=float("nan"))


# ---- one test for each reason to keep ----


def test_a_branch_that_has_forked_nothing_keeps_what_it_inherits(graph: Graph) -> None:
    graph.create_branch("lazy", ids_of(graph)[4])
    graph.create_branch("lazier", "lazy")
    before = {name: content(graph, name) for name in ("lazy", "lazier")}
    write_more(graph, 3, prefix="q")
    clean(graph, keep=1)
    other = fresh(graph)
    assert {name: content(other, name) for name in ("lazy", "lazier")} == before
    write_three(graph, "mine", "lazier")
    assert "mine" in content(graph, "lazier")[PERSON]
    check_whole(graph)


def test_a_commit_with_a_tag_stays_until_the_tag_goes(graph: Graph) -> None:
    before, ids = contents(graph), ids_of(graph)
    graph.create_tag("v1", ids[5])
    clean(graph)
    assert set(contents(fresh(graph))) == {*ids[:3], ids[5]}
    assert contents(fresh(graph))[ids[5]] == before[ids[5]]
    assert fresh(graph).commit("tag:v1").commit_id == ids[5]
    graph.delete_tag("v1")
    clean(graph)
    assert set(contents(fresh(graph))) == set(ids[:3])


def test_a_deleted_branch_is_given_up_with_all_it_had(graph: Graph) -> None:
    graph.create_branch("dev")
    write_more(graph, 2, "dev", "d")
    graph.delete_branch("dev")
    assert fork_names(graph.door.tables, graph.snapshot().entry(PERSON).ref) == ["dev"]
    before, ids = contents(graph), ids_of(graph)
    clean(graph)
    assert fork_names(graph.door.tables, graph.snapshot().entry(PERSON).ref) == []
    assert not (graph.location.path / layout.MANIFEST / "tree" / "dev").exists()
    assert contents(fresh(graph)) == {commit_id: before[commit_id] for commit_id in ids[:3]}
    with pytest.raises(NotFoundError):
        graph.undelete_branch("dev")
    graph.create_branch("dev")
    write_three(graph, "again", "dev")
    check_whole(graph)


def test_a_deleted_branch_stays_until_its_grace_ends(graph: Graph) -> None:
    """With what it inherits without a fork, and what was made from it."""
    ids = ids_of(graph)
    graph.create_branch("dev", ids[4])
    write_two(graph, "d", "dev")
    graph.create_branch("child", "dev")
    write_more(graph, 2, "child", "c")
    before = {name: (content(graph, name), ids_of(graph, name)) for name in ("dev", "child")}
    graph.delete_branch("child")
    graph.delete_branch("dev")
    write_more(graph, 3, prefix="q")
    age_versions(graph)
    done = clean(graph, keep=1, grace_s=3600.0)
    assert (done.branches_purged, done.branches_spared) == ((), ("child", "dev"))
    assert done.commits_removed > 0
    for name in ("dev", "child"):
        graph.undelete_branch(name)
    other = fresh(graph)
    assert {name: (content(other, name), ids_of(other, name)) for name in before} == before
    contents(other)
    write_three(graph, "mine", "child")
    check_whole(graph)
    graph.delete_branch("child")
    assert clean(graph, keep=1).branches_purged == ("child",)
    with pytest.raises(NotFoundError):
        graph.undelete_branch("child")


def test_a_removed_commit_of_a_deleted_branch_stays_removed(graph: Graph) -> None:
    graph.create_branch("dev")
    write_more(graph, 6, "dev", "d")
    clean(graph)
    old = ids_of(graph, "dev")[4]
    graph.delete_branch("dev")
    age_versions(graph)
    clean(graph, grace_s=3600.0)
    graph.undelete_branch("dev")
    with pytest.raises(CommitRemoved):
        fresh(graph).snapshot_of(old)
    check_whole(graph)


def test_a_deleted_branch_with_a_tag_stays_until_the_tag_goes(graph: Graph) -> None:
    graph.create_branch("dev")
    write_more(graph, 2, "dev", "d")
    graph.create_tag("v1", "dev")
    before = content(graph, "dev")
    graph.delete_branch("dev")
    assert clean(graph).branches_spared == ("dev",)
    graph.undelete_branch("dev")
    assert content(fresh(graph), "dev") == before
    check_whole(graph)
    graph.delete_branch("dev")
    graph.delete_tag("v1")
    assert clean(graph).branches_purged == ("dev",)


def test_the_base_of_two_branches_stays_and_they_merge(graph: Graph) -> None:
    graph.create_branch("side")
    write_more(graph, 4, "side", prefix="s")
    write_more(graph, 4, prefix="m")
    clean(graph, keep=1)
    merged = graph.merge("side", into="main")
    assert merged.warnings == ()
    assert {"s3", "m3", "p0"} <= content(graph)[PERSON]


def delete_row(graph: Graph, name: str, branch: str) -> None:
    graph.change(f'query q() {{ delete Person where name = "{name}" }}', branch=branch)


def merged_without_loss(graph: Graph, source: str, into: str, gone: str) -> set[str]:
    """Nothing is passed over, and what one side deleted does not come back."""
    merged = graph.merge(source, into=into)
    assert merged.warnings == ()
    people = set(content(fresh(graph), into)[PERSON])
    assert gone not in people
    check_whole(graph)
    return people


def test_a_deleted_branch_that_comes_back_merges_as_it_would_have_before(graph: Graph) -> None:
    """The commit it was made from is as old as it was, however young the deletion is."""
    graph.create_branch("side")
    delete_row(graph, "p0", "side")
    write_more(graph, 4, prefix="m")
    graph.delete_branch("side")
    age_versions(graph)
    assert clean(graph, keep=1, grace_s=3600.0).branches_spared == ("side",)
    graph.undelete_branch("side")
    assert "m3" in merged_without_loss(graph, "side", "main", "p0")


def test_a_branch_made_at_a_tag_merges_as_it_would_have_before(graph: Graph) -> None:
    """Also if its branch, and with it the base of that, has moved on."""
    graph.create_branch("side")
    delete_row(graph, "p0", "side")
    graph.create_tag("v1", "side")
    write_more(graph, 4, prefix="m")
    graph.merge("main", into="side")
    clean(graph, keep=1)
    graph.create_branch("hotfix", "tag:v1")
    write_more(graph, 1, "hotfix", "h")
    assert {"m3", "h0"} <= merged_without_loss(graph, "hotfix", "main", "p0")


def test_a_base_on_a_deleted_branch_stays_with_it(graph: Graph) -> None:
    """A fix that came to two branches, and was taken back on one, does not come back with a merge."""
    graph.create_branch("release")
    write_more(graph, 1, "release", "r")
    graph.create_branch("fix")
    write_more(graph, 1, "fix", "x")
    graph.merge("fix", into="main")
    taken_back = graph.merge("fix", into="release").commit_id
    graph.delete_branch("fix")
    assert taken_back is not None
    graph.revert(taken_back, "release")
    write_more(graph, 4, prefix="m")
    done = clean(graph, keep=1)
    assert (done.branches_purged, done.branches_spared) == ((), ("fix",))
    graph.maintain(keep=3, grace_s=0.0)
    assert graph.maintain(keep=3, grace_s=0.0, if_needed=True).reasons == ()
    assert {"m3", "r0"} <= merged_without_loss(graph, "main", "release", "x0")
    assert clean(graph, keep=1).branches_purged == ("fix",)


def test_a_tagged_commit_stays(graph: Graph) -> None:
    before, tagged = contents(graph), ids_of(graph)[4]
    graph.create_tag("v1", tagged)
    clean(graph, keep=1)
    assert contents(fresh(graph)) == {each: before[each] for each in (tagged, ids_of(graph)[0])}


def test_the_versions_of_a_branch_go_as_well(graph: Graph) -> None:
    graph.create_branch("side")
    write_more(graph, 6, "side", prefix="s")
    before = content(graph, "side")
    clean(graph)
    assert len(person_versions(graph, "side")) == 4, "the first one says where the fork was made"
    assert content(fresh(graph), "side") == before
    write_three(graph, "later", "side")
    check_whole(graph)


def test_what_was_superseded_within_the_grace_stays_readable(graph: Graph) -> None:
    before = contents(graph)
    done = clean(graph, keep=1, grace_s=3600.0)
    assert (done.tables, done.commits_removed) == ((), 0)
    assert contents(fresh(graph)) == before


def test_the_grace_counts_from_the_next_version(graph: Graph) -> None:
    """Versions long written, and superseded a moment ago: a reader may be at work on them."""
    age_versions(graph)
    reader = fresh(graph).at()
    write_three(graph, "later")
    done = clean(graph, keep=1, grace_s=3600.0)
    assert done.commits_left == 2
    assert len(b"".join(reader.export()).splitlines()) == 18


def test_what_a_staged_write_pins_stays_with_its_successor(graph: Graph) -> None:
    pinned = person_versions(graph)[4]
    record = StagingRecord("01STAGXXXXXXXXXXXXXXXXXXXX", LOAD_KIND, "main", "ann", pinned=((PERSON, pinned),))
    with staging(graph.door.storage, record):
        clean(graph, keep=1)
        assert {pinned, pinned + 1} <= set(person_versions(graph))
    clean(graph, keep=1)
    assert pinned not in person_versions(graph)


def test_a_staging_record_that_cannot_be_read_stops_it(graph: Graph) -> None:
    graph.door.storage.control.put(layout.staging_record("01BRKENXXXXXXXXXXXXXXXXXXX"), b"{")
    before = files(graph)
    with pytest.raises(StorageError):
        graph.cleanup(grace_s=0.0)
    assert files(graph) == before


def test_a_record_that_cannot_be_read_stops_it(graph: Graph) -> None:
    graph.door.storage.control.put(layout.CLEANUP_RECORD, b"{}")
    before = files(graph)
    with pytest.raises(CleanupRecordDamaged):
        graph.cleanup(grace_s=0.0)
    assert files(graph) == before


def test_one_changed_digit_of_the_record_is_damage(graph: Graph) -> None:
    """A higher floor would hide commits that are kept, and the next cleanup would remove them."""
    clean(graph)
    control = graph.door.storage.control
    found = control.get(layout.CLEANUP_RECORD)
    assert found is not None
    control.put(layout.CLEANUP_RECORD, re.sub(rb'"floor": (\d)', rb'"floor": 9\1', found.data))
    before = files(graph)
    for ask in (lambda: fresh(graph).snapshot_of("main~1"), lambda: fresh(graph).cleanup(grace_s=0.0)):
        with pytest.raises(CleanupRecordDamaged, match="changed after it was written"):
            ask()
    assert files(graph) == before


def test_a_record_of_earlier_versions_is_understood(graph: Graph) -> None:
    """They gave it no digest."""
    clean(graph)
    control = graph.door.storage.control
    found = control.get(layout.CLEANUP_RECORD)
    assert found is not None
    content = json.loads(found.data)
    del content["digest"]
    control.put(layout.CLEANUP_RECORD, json.dumps(content).encode())
    assert contents(fresh(graph)) == contents(graph)
    with pytest.raises(CommitRemoved):
        fresh(graph).snapshot_of("main~5")
    clean(fresh(graph), keep=2)
    assert b'"digest"' in (graph.location.path / layout.CLEANUP_RECORD).read_bytes()


def test_a_dropped_type_stays_while_a_kept_commit_has_it_and_then_goes(graph: Graph) -> None:
    place = graph.snapshot().entry("edge:WorksAt").table_path
    kept = ids_of(graph)[0]
    graph.apply_schema("\n".join(PEOPLE.splitlines()[:-1]) + "\n", allow_data_loss=False)
    clean(graph)
    assert (graph.location.path / place).exists()
    assert fresh(graph).snapshot_of(kept).entry("edge:WorksAt").row_count == 0
    write_more(graph, 3, prefix="q")
    done = clean(graph)
    assert [table.action for table in done.tables if table.action != "versions"] == ["dataset"]
    assert not (graph.location.path / place).exists()
    graph.apply_schema(PEOPLE)
    write_three(graph, "later")
    check_whole(graph)


def test_forks_that_no_branch_knows_go_and_those_of_branches_stay(graph: Graph) -> None:
    graph.create_branch("live")
    write_three(graph, "mine", "live")
    ref = graph.snapshot().entry(PERSON).ref
    create_fork(graph.door.tables, ref, "ghost", graph.snapshot().entry(PERSON).table_version, unguarded)
    done = clean(graph)
    assert [table.branch for table in done.tables if table.action == "fork"] == ["ghost"]
    assert fork_names(graph.door.tables, ref) == ["live"]
    assert "mine" in content(graph, "live")[PERSON]
    check_whole(graph)


def test_a_branch_made_anew_is_not_judged_by_the_record_of_the_old_one(graph: Graph) -> None:
    graph.create_branch("side")
    write_more(graph, 5, "side", prefix="s")
    clean(graph)
    graph.delete_branch("side")
    graph.create_branch("side")
    write_more(graph, 5, "side", prefix="t")
    assert len(contents(fresh(graph))) == 3 + 5
    assert {floor.on.name for floor in graph.removals().floors} == {"main", "side"}
    clean(graph, keep=100)
    assert {floor.on.name for floor in graph.removals().floors} == {"main"}


def test_previews_of_the_dead_go_after_the_grace(graph: Graph) -> None:
    entry = graph.snapshot().entry(PERSON)
    newest = max((graph.location.path / entry.table_path / "_versions").glob("*.manifest"))
    preview = newest.with_name("d9223372036854775809.manifest")
    preview.write_bytes(newest.read_bytes())
    clean(graph, grace_s=3600.0)
    assert preview.exists()
    clean(graph)
    assert not preview.exists()


@pytest.mark.parametrize("step", ["cleanup.decided", "cleanup.recorded", "cleanup.collected"])
def test_a_failure_at_a_step_is_made_good_by_the_next_run(step: str, graph: Graph) -> None:
    before, ids = contents(graph), ids_of(graph)
    faults.arm(f"{step}=error")
    with suppress(StorageError):
        graph.cleanup(keep=3, grace_s=0.0)
    faults.arm("")
    left = contents(fresh(graph))
    assert left in (before, {commit_id: before[commit_id] for commit_id in ids[:3]})
    clean(graph)
    assert contents(fresh(graph)) == {commit_id: before[commit_id] for commit_id in ids[:3]}
    assert len(person_versions(graph)) == 3
    check_whole(graph)
