"""The publisher: what it checks, what it refuses, and what it makes of a lost or doubtful write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from omnigraph_core.errors import ErrorKind, InternalError, StorageError
from omnigraph_core.manifest import publisher as publisher_module
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.fenced import upsert_fenced
from omnigraph_core.manifest.limits import PUBLISH_RETRIES
from omnigraph_core.manifest.publisher import Publisher, RowLevelCasContention
from omnigraph_core.manifest.reader import BranchNotFound, BranchReplaced, Manifest, manifest_ref
from omnigraph_core.manifest.request import (
    ExpectedVersionMismatch,
    HeadChanged,
    Publish,
    Registration,
    Tombstone,
)
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.storage import Storage
from omnigraph_core.storage.locks import LockLost
from omnigraph_core.tables import durability
from omnigraph_core.tables.branches import create_fork, delete_fork
from omnigraph_core.tables.commit import unguarded
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.failures import CommitLost, CommitUnknown
from omnigraph_core.tables.fork_refs import find_ref
from tests.support.graphs import (
    BRANCHES,
    Lying,
    file_tree,
    head,
    new_manifest,
    on_branch,
    only_local,
    registration,
    update,
)

A, B, NEW = "node:A", "node:B", "edge:New"


@pytest.fixture(params=BRANCHES)
def branch(request: pytest.FixtureRequest, manifest: Manifest) -> str:
    """A graph branch: main, a branch of it, or a branch of that branch."""
    name: str = request.param
    if name != "main":
        version = manifest.open("main").version
        create_fork(manifest.tables, manifest_ref("main"), "dev", version, unguarded)
    if name == "dev-two":
        publish(manifest, Publish(Branch("dev"), head("on-dev"), updates=[update(B, 2, branch="dev")]))
        create_fork(manifest.tables, manifest_ref("dev"), "dev-two", manifest.open("dev").version, unguarded)
        publish(manifest, Publish(Branch("dev-two"), head("back"), updates=[update(B, 3, branch="dev-two")]))
    return name


@pytest.fixture
def manifest(tables: Tables) -> Manifest:
    return new_manifest(tables, A, B)


@pytest.fixture
def lie(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Lying]:
    """Replace what puts rows into the manifest by something that lies about what it did."""

    def install(**how: object) -> Lying:
        lying = Lying(upsert_fenced, **how)  # type: ignore[arg-type]
        monkeypatch.setattr(publisher_module, "upsert_fenced", lying)
        return lying

    return install


def publish(manifest: Manifest, request: Publish) -> Snapshot:
    """Publish through a publisher of its own, as another process would."""
    own = Manifest(manifest.tables)
    return Publisher(own).publish(on_branch(own, request.branch, request), unguarded)


def object_ids(manifest: Manifest, branch: str) -> list[str]:
    found: list[str] = manifest.open(branch).read(["object_id"]).column("object_id").to_pylist()
    return sorted(found)


def versions(snapshot: Snapshot) -> dict[str, int]:
    return {key: entry.table_version for key, entry in snapshot.tables.items()}


def assert_unchanged(manifest: Manifest, branch: str, before: Snapshot) -> None:
    assert Manifest(manifest.tables).snapshot(branch) == before


# ---- what a publish does ----


def test_a_publish_makes_its_tables_and_its_commit_visible_together(manifest: Manifest, branch: str) -> None:
    before = manifest.snapshot(branch)
    mine = head(1, parent="commit-genesis")
    request = Publish(
        Branch(branch),
        mine,
        registrations=[registration(NEW)],
        updates=[update(A, 2, 7), update(NEW, 1, 3, branch="dev")],
        expected_versions={A: 1, NEW: 0},
    )
    after = publish(manifest, request)
    assert after.manifest_version == before.manifest_version + 1
    assert after.head == mine
    assert versions(after) == versions(before) | {A: 2, NEW: 1}
    assert list(after.tables) == sorted(after.tables)
    entry = after.entry(A)
    assert (entry.row_count, entry.table_branch, entry.metadata.commit_id) == (7, None, "commit-1")
    assert after.entry(NEW).table_branch == "dev"
    assert after.entry(NEW).table_path == registration(NEW).table_path
    assert after.entry(B) == before.entry(B)
    assert_unchanged(manifest, branch, after)
    assert manifest.snapshot_at_version(before.manifest_version, branch) == before


def test_branches_publish_apart(manifest: Manifest, branch: str) -> None:
    others = {name: manifest.snapshot(name) for name in ["main", *manifest.branches()] if name != branch}
    publish(manifest, Publish(Branch(branch), head(1), updates=[update(A, 2)], expected_versions={A: 1}))
    assert {name: Manifest(manifest.tables).snapshot(name) for name in others} == others


def test_publishing_a_commit_again_is_success_and_writes_nothing(
    manifest: Manifest, branch: str, storage: Storage
) -> None:
    request = Publish(
        Branch(branch),
        head(1),
        updates=[update(A, 2)],
        expected_versions={A: 1},
        expected_head=_head_id(manifest, branch),
    )
    first = publish(manifest, request)
    files = file_tree(storage)
    assert publish(manifest, request) == first
    assert file_tree(storage) == files


def _head_id(manifest: Manifest, branch: str) -> str:
    found = manifest.snapshot(branch).head
    assert found is not None
    return found.commit_id


# ---- expectations ----


@pytest.mark.parametrize(
    ("table_key", "expected", "actual"), [(A, 2, 1), (A, 0, 1), (NEW, 1, 0), ("node:Gone", 1, 0)]
)
def test_another_version_than_expected_is_refused_with_its_facts(
    table_key: str, expected: int, actual: int, manifest: Manifest, branch: str, storage: Storage
) -> None:
    gone = "node:Gone"
    publish(manifest, Publish(Branch(branch), head("g"), [registration(gone)], [update(gone, 5)]))
    before = publish(manifest, Publish(Branch(branch), head("t"), tombstones=[Tombstone(gone, 6)]))
    files = file_tree(storage)
    with pytest.raises(ExpectedVersionMismatch) as caught:
        publish(
            manifest,
            Publish(
                Branch(branch), head(1), updates=[update(B, 9)], expected_versions={B: 1, table_key: expected}
            )
            if versions(before)[B] == 1
            else Publish(
                Branch(branch), head(1), updates=[update(B, 9)], expected_versions={table_key: expected}
            ),
        )
    assert caught.value.kind is ErrorKind.CONFLICT
    assert caught.value.retryable
    conflict = {"table_key": table_key, "expected": expected, "actual": actual}
    assert caught.value.details() == {"manifest_conflict": conflict}
    assert file_tree(storage) == files
    assert_unchanged(manifest, branch, before)


def test_another_head_than_expected_is_refused(manifest: Manifest, branch: str, storage: Storage) -> None:
    seen = _head_id(manifest, branch)
    publish(manifest, Publish(Branch(branch), head(1), updates=[update(A, 2)], expected_head=seen))
    files = file_tree(storage)
    with pytest.raises(HeadChanged) as caught:
        publish(manifest, Publish(Branch(branch), head(2), updates=[update(B, 9)], expected_head=seen))
    assert caught.value.retryable
    assert caught.value.details() == {
        "branch": branch,
        "expected_head": seen,
        "actual_head": "commit-1",
    }
    assert file_tree(storage) == files


# ---- rules about rows ----


def refused(manifest: Manifest, request: Publish) -> None:
    """The request is a bug of its caller: refused, and the manifest is as before."""
    before, ids = manifest.snapshot(request.branch), object_ids(manifest, request.branch)
    with pytest.raises(InternalError):
        publish(manifest, request)
    assert_unchanged(manifest, request.branch, before)
    assert object_ids(manifest, request.branch) == ids


def test_a_key_begins_anew_elsewhere(manifest: Manifest, branch: str) -> None:
    """Versions and tombstones of the table that had the name before do not count, whatever they are."""
    before = publish(manifest, Publish(Branch(branch), head(1), updates=[update(A, 5, 10)]))
    elsewhere = Registration(A, "nodes/elsewhere", replaces=5)
    unaware = Publish(Branch(branch), head(2), [Registration(A, "nodes/elsewhere")], [update(A, 2)])
    with pytest.raises(ExpectedVersionMismatch):
        Publisher(manifest).publish(on_branch(manifest, branch, unaware), unguarded)
    moved = publish(manifest, Publish(Branch(branch), head(2), [elsewhere], [update(A, 2, 7)]))
    assert (moved.entry(A).table_path, moved.entry(A).table_version) == ("nodes/elsewhere", 2)
    assert object_ids(manifest, branch).count(A) == 1
    gone = publish(manifest, Publish(Branch(branch), head(3), tombstones=[Tombstone(A, 3)]))
    assert A not in gone.tables
    back = publish(manifest, Publish(Branch(branch), head(4), [registration(A)], [update(A, 1, 8)]))
    later = publish(manifest, Publish(Branch(branch), head(5), updates=[update(A, 2, 9)]))
    refused(manifest, Publish(Branch(branch), head(6), updates=[update(A, 2, 9)]))
    for seen in (before, moved, gone, back, later):
        assert manifest.snapshot_at_version(seen.manifest_version, branch) == seen
    assert Manifest(manifest.tables).snapshot(branch) == later
    assert (later.entry(A).table_version, later.entry(A).row_count) == (2, 9)


def test_only_registered_tables_get_versions_and_tombstones(manifest: Manifest, branch: str) -> None:
    refused(manifest, Publish(Branch(branch), head(1), updates=[update(NEW, 1)]))
    refused(manifest, Publish(Branch(branch), head(1), tombstones=[Tombstone(NEW, 1)]))


def test_versions_only_grow(manifest: Manifest, branch: str) -> None:
    publish(manifest, Publish(Branch(branch), head(1), updates=[update(A, 5, 10)]))
    refused(manifest, Publish(Branch(branch), head(2), updates=[update(A, 4, 10)]))
    refused(manifest, Publish(Branch(branch), head(2), updates=[update(A, 5, 10)]))
    refused(manifest, Publish(Branch(branch), head(2), updates=[update(A, 5, 11, branch="x")]))
    refused(manifest, Publish(Branch(branch), head(2), updates=[update(A, 5, 11)]))


def test_a_fork_may_take_over_the_same_content(manifest: Manifest, branch: str) -> None:
    publish(manifest, Publish(Branch(branch), head(1), updates=[update(A, 5, 10)]))
    after = publish(manifest, Publish(Branch(branch), head(2), updates=[update(A, 5, 10, branch="mine")]))
    assert (after.entry(A).table_version, after.entry(A).table_branch) == (5, "mine")
    assert after.entry(A).metadata.commit_id == "commit-2"
    assert Manifest(manifest.tables).snapshot(branch) == after
    assert len(object_ids(manifest, branch)) == len(set(object_ids(manifest, branch)))


def test_a_tombstone_hides_a_table_until_it_is_registered_again(manifest: Manifest, branch: str) -> None:
    before = manifest.snapshot(branch)
    gone = publish(
        manifest, Publish(Branch(branch), head(1), tombstones=[Tombstone(A, 2)], expected_versions={A: 1})
    )
    assert versions(gone) == {key: v for key, v in versions(before).items() if key != A}
    assert_unchanged(manifest, branch, gone)
    refused(manifest, Publish(Branch(branch), head(2), tombstones=[Tombstone(A, 2)]))
    refused(manifest, Publish(Branch(branch), head(2), tombstones=[Tombstone(A, 1)]))
    # A version the tombstone covers would be published and stay invisible.
    refused(manifest, Publish(Branch(branch), head(2), updates=[update(A, 2)], expected_versions={A: 0}))
    back = publish(
        manifest,
        Publish(Branch(branch), head(2), [registration(A)], [update(A, 2, 4)], expected_versions={A: 0}),
    )
    assert versions(back) == versions(before) | {A: 2}
    assert back.entry(A).row_count == 4
    gone_again = publish(manifest, Publish(Branch(branch), head(3), tombstones=[Tombstone(A, 3)]))
    assert A not in gone_again.tables
    assert manifest.snapshot_at_version(back.manifest_version, branch) == back


def test_a_tombstone_that_hides_nothing_is_refused(manifest: Manifest, branch: str) -> None:
    publish(manifest, Publish(Branch(branch), head(1), updates=[update(A, 5)]))
    refused(manifest, Publish(Branch(branch), head(2), tombstones=[Tombstone(A, 4)]))


@pytest.mark.parametrize(
    "twice",
    [
        {"registrations": [registration(NEW), registration(NEW)]},
        {"updates": [update(A, 2, 1), update(A, 2, 2)]},
        {"updates": [update(A, 2, 1), update(A, 3, 2)]},
        {"tombstones": [Tombstone(A, 2), Tombstone(A, 2)]},
    ],
    ids=["registrations", "same version", "two versions", "tombstones"],
)
def test_a_table_is_named_once_in_a_publish(twice: dict[str, list[object]], manifest: Manifest) -> None:
    """Lance inserts two new rows of one key without a word, and the fence is gone for good."""
    refused(manifest, Publish(Branch("main"), head(1), **twice))  # type: ignore[arg-type]


# ---- other publishers ----


def test_disjoint_publishes_conflict_through_the_head_row(
    manifest: Manifest, branch: str, lie: Callable[..., Lying]
) -> None:
    """Without a lock the loser sees the other's commit and lands on top of it, in its own version."""
    rival = Publish(Branch(branch), head("rival"), updates=[update(B, 9)])
    before = manifest.snapshot(branch)
    lying = lie(before=lambda: publish(manifest, rival))
    after = publish(
        manifest, Publish(Branch(branch), head(1), updates=[update(A, 2)], expected_versions={A: 1})
    )
    assert lying.calls == 3
    assert versions(after) == versions(before) | {A: 2, B: 9}
    assert after.manifest_version == before.manifest_version + 2
    assert after.head == head(1)


def test_a_writer_that_saw_the_head_under_its_lock_loses_to_any_other(
    manifest: Manifest, branch: str, lie: Callable[..., Lying]
) -> None:
    rival = Publish(Branch(branch), head("rival"), updates=[update(B, 9)])
    lie(before=lambda: publish(manifest, rival))
    mine = Publish(Branch(branch), head(1), updates=[update(A, 2)], expected_head=_head_id(manifest, branch))
    with pytest.raises(HeadChanged):
        publish(manifest, mine)
    after = manifest.snapshot(branch)
    assert (after.entry(A).table_version, after.entry(B).table_version) == (1, 9)
    assert after.head == head("rival")


def test_losing_the_same_table_is_an_expected_version_mismatch(
    manifest: Manifest, branch: str, lie: Callable[..., Lying]
) -> None:
    rival = Publish(Branch(branch), head("rival"), updates=[update(A, 2, 1)], expected_versions={A: 1})
    lie(before=lambda: publish(manifest, rival))
    with pytest.raises(ExpectedVersionMismatch) as caught:
        publish(manifest, replace(rival, head=head(1)))
    assert (caught.value.expected, caught.value.actual) == (1, 2)
    assert manifest.snapshot(branch).head == head("rival")
    assert len(object_ids(manifest, branch)) == len(set(object_ids(manifest, branch)))


def test_a_compaction_in_between_costs_a_round_and_nothing_else(
    manifest: Manifest, branch: str, lie: Callable[..., Lying], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        publish(manifest, Publish(Branch(branch), head(number), updates=[update(A, 2 + number)]))
    compacted: list[bool] = []
    lying = lie(before=lambda: compacted.append(Publisher(manifest).compact(branch, "op", unguarded)))
    after = publish(
        manifest, Publish(Branch(branch), head("x"), updates=[update(A, 50)], expected_versions={A: 21})
    )
    assert compacted == [True]
    assert lying.calls == 2
    assert after.entry(A).table_version == 50
    assert_unchanged(manifest, branch, after)
    assert len(object_ids(manifest, branch)) == len(set(object_ids(manifest, branch)))


def test_a_publish_asleep_loses_also_when_versions_above_its_base_are_cleaned_away(
    manifest: Manifest, branch: str, lie: Callable[..., Lying], storage: Storage
) -> None:
    """Lance looks for conflicts from the base upwards and stops at the first version that is missing."""
    base = manifest.open(branch)

    def others_publish_and_clean() -> None:
        with pytest.MonkeyPatch.context() as honest:
            honest.setattr(publisher_module, "upsert_fenced", upsert_fenced)
            for number in range(2):
                publish(manifest, Publish(Branch(branch), head(number), updates=[update(A, 20 + number)]))
        storage.control.delete_many([manifest_path(base.ref, base.version + 1)])

    lying = lie(before=others_publish_and_clean)
    with pytest.raises(ExpectedVersionMismatch):
        publish(
            manifest, Publish(Branch(branch), head("x"), updates=[update(A, 50)], expected_versions={A: 1})
        )
    assert lying.calls == 1
    assert Manifest(manifest.tables).snapshot(branch).head == head(1)
    assert len(object_ids(manifest, branch)) == len(set(object_ids(manifest, branch)))


def test_losing_every_round_is_contention(
    manifest: Manifest, branch: str, lie: Callable[..., Lying], storage: Storage
) -> None:
    before = manifest.snapshot(branch)
    lying = lie(error=CommitLost("lost"), lands=False)
    asked: list[None] = []
    request = on_branch(manifest, branch, Publish(Branch(branch), head(1), updates=[update(A, 2)]))
    with pytest.raises(RowLevelCasContention) as caught:
        Publisher(manifest).publish(request, lambda: asked.append(None))
    assert (lying.calls, len(asked)) == (1 + PUBLISH_RETRIES, 1 + PUBLISH_RETRIES) == (6, 6)
    assert caught.value.retryable
    assert caught.value.kind is ErrorKind.CONFLICT
    assert_unchanged(manifest, branch, before)


def test_losing_five_rounds_and_winning_the_sixth_is_success(
    manifest: Manifest, branch: str, lie: Callable[..., Lying]
) -> None:
    lie(error=CommitLost("lost"), lands=False, times=PUBLISH_RETRIES)
    after = publish(
        manifest, Publish(Branch(branch), head(1), updates=[update(A, 2)], expected_versions={A: 1})
    )
    assert after.entry(A).table_version == 2
    assert_unchanged(manifest, branch, after)


def test_a_round_that_landed_after_all_is_recognised_by_the_next(
    manifest: Manifest, branch: str, lie: Callable[..., Lying]
) -> None:
    before = manifest.snapshot(branch)
    lying = lie(error=CommitLost("they say"), lands=True)
    after = publish(
        manifest, Publish(Branch(branch), head(1), updates=[update(A, 2)], expected_versions={A: 1})
    )
    assert lying.calls == 1
    assert after.manifest_version == before.manifest_version + 1
    assert after.entry(A).table_version == 2


# ---- doubtful outcomes ----


def test_a_publish_whose_answer_was_lost_counts_as_landed(
    manifest: Manifest, branch: str, lie: Callable[..., Lying]
) -> None:
    before = manifest.snapshot(branch)
    lie(error=StorageError("connection reset"), lands=True)
    after = publish(
        manifest, Publish(Branch(branch), head(1), updates=[update(A, 2)], expected_versions={A: 1})
    )
    assert after.head == head(1)
    assert after.manifest_version == before.manifest_version + 1
    assert_unchanged(manifest, branch, after)


def test_a_publish_that_failed_for_good_says_so(
    manifest: Manifest, branch: str, lie: Callable[..., Lying]
) -> None:
    before = manifest.snapshot(branch)
    lie(error=StorageError("disk on fire"), lands=False)
    with pytest.raises(StorageError, match="disk on fire") as caught:
        publish(manifest, Publish(Branch(branch), head(1), updates=[update(A, 2)]))
    assert not isinstance(caught.value, CommitUnknown)
    assert_unchanged(manifest, branch, before)


def test_when_nobody_can_say_whether_it_landed_the_error_says_so(
    manifest: Manifest, lie: Callable[..., Lying], monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object) -> None:
        raise StorageError("still down")

    lie(error=StorageError("connection reset"), before=lambda: monkeypatch.setattr(Manifest, "open", down))
    with pytest.raises(CommitUnknown, match="connection reset") as caught:
        publish(manifest, Publish(Branch("main"), head(1), updates=[update(A, 2)]))
    assert caught.value.retryable


@pytest.mark.parametrize("failure", [OSError("reset"), ValueError("odd"), RuntimeError("panicked")])
def test_whatever_lance_raises_after_landing_is_settled(
    failure: Exception, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lance import LanceDataset

    lying = Lying(LanceDataset.commit, error=failure, times=1)
    monkeypatch.setattr(LanceDataset, "commit", lying)
    after = publish(
        manifest, Publish(Branch("main"), head(1), updates=[update(A, 2)], expected_versions={A: 1})
    )
    assert (lying.calls, after.head) == (1, head(1))


@only_local
@pytest.mark.parametrize("how", ["plain", "again", "called lost", "answer lost"])
def test_a_publish_that_returns_is_synced(
    how: str, manifest: Manifest, lie: Callable[..., Lying], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that finds itself published already: whoever did it may have died before syncing.

    Only on a disk: what S3 has confirmed is durable.
    """
    synced: list[str] = []
    request = Publish(Branch("main"), head(1), updates=[update(A, 2)], expected_versions={A: 1})
    if how == "again":
        publish(manifest, request)
    if how == "called lost":
        lie(error=CommitLost("they say"), lands=True)
    if how == "answer lost":
        lie(error=StorageError("reset"), lands=True)
    monkeypatch.setattr(durability, "sync_files", lambda storage, paths: synced.extend(paths))
    after = publish(manifest, request)
    version_file = durability.manifest_path(manifest_ref("main"), after.manifest_version)
    assert [path for path in synced if "/_versions/" in path] == [version_file]
    data = [path for path in file_tree(manifest.tables.storage) if path.startswith("__manifest/data/")]
    assert len([path for path in synced if path in data]) >= 1


def test_a_lost_lock_stops_the_publish(manifest: Manifest, branch: str, storage: Storage) -> None:
    def lost() -> None:
        raise LockLost("branch.main", "test")

    files = file_tree(storage)
    request = on_branch(manifest, branch, Publish(Branch(branch), head(1), updates=[update(A, 2)]))
    with pytest.raises(LockLost):
        Publisher(manifest).publish(request, lost)
    assert file_tree(storage) == files


# ---- branches that are not what they were ----


def remove_branch(tables: Tables, name: str) -> None:
    found = find_ref(tables, manifest_ref("main"), name)
    assert found is not None
    delete_fork(tables, manifest_ref("main"), found, unguarded)


def test_a_branch_created_again_under_its_old_name_is_another(manifest: Manifest, tables: Tables) -> None:
    main = manifest_ref("main")
    version = manifest.open("main").version
    create_fork(tables, main, "dev", version, unguarded)
    request = on_branch(manifest, "dev", Publish(Branch("dev"), head(1), updates=[update(A, 2)]))
    remove_branch(tables, "dev")
    with pytest.raises(BranchNotFound) as missing:
        Publisher(manifest).publish(request, unguarded)
    assert missing.value.details() == {"branch": "dev"}
    create_fork(tables, main, "dev", version, unguarded)
    before = manifest.snapshot("dev")
    with pytest.raises(BranchReplaced) as caught:
        Publisher(manifest).publish(request, unguarded)
    assert caught.value.kind is ErrorKind.CONFLICT
    assert_unchanged(manifest, "dev", before)


def test_a_reader_that_knew_the_old_branch_reads_the_new_one(manifest: Manifest, tables: Tables) -> None:
    """Same name and same versions: only the identity keeps the cached state apart."""
    main = manifest_ref("main")
    version = manifest.open("main").version
    for rows in (1, 2):
        create_fork(tables, main, "dev", version, unguarded)
        publish(manifest, Publish(Branch("dev"), head(rows), updates=[update(A, 2, rows)]))
        found = manifest.snapshot("dev")
        assert (found.entry(A).row_count, found.head) == (rows, head(rows))
        assert manifest.snapshot_at_version(found.manifest_version, "dev") == found
        remove_branch(tables, "dev")
        with pytest.raises(BranchNotFound):
            manifest.snapshot("dev")
