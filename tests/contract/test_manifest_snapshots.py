"""Snapshots: the same however they are read, whatever was compacted, and read without a trace."""

from __future__ import annotations

import random

import pytest

from omnigraph_core.errors import NotFoundError, StorageError
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.publisher import Publisher
from omnigraph_core.manifest.reader import BranchNotFound, Manifest, manifest_ref
from omnigraph_core.manifest.request import Publish, Tombstone, Update
from omnigraph_core.manifest.rows import VersionMetadata
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.storage import Storage
from omnigraph_core.tables.branches import create_fork
from omnigraph_core.tables.commit import unguarded
from omnigraph_core.tables.control_rewrite import tail_to_rewrite
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.failures import VersionNotFound
from omnigraph_core.tables.limits import FRAGMENTS_MAX
from omnigraph_core.tables.stage import stage_append, stage_delete, stage_upsert
from tests.support.graphs import (
    PERSON,
    commit,
    file_tree,
    head,
    ids,
    new_manifest,
    on_branch,
    operation,
    people,
    people_table,
    registration,
    update,
)

KEYS = [f"node:T{number}" for number in range(6)]
PUBLISHES = 200


@pytest.fixture(params=["main", "dev"])
def branch(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def graph_on(tables: Tables, branch: str, *table_keys: str) -> Manifest:
    manifest = new_manifest(tables, *table_keys)
    if branch != "main":
        create_fork(tables, manifest_ref("main"), branch, manifest.open("main").version, unguarded)
    return manifest


def random_change(chance: random.Random, state: Snapshot, known: dict[str, int], number: int) -> Publish:
    """Updates, drops, returns and fork take-overs of a few tables; `known` is the highest version ever."""
    updates: list[Update] = []
    tombstones: list[Tombstone] = []
    registrations = []
    for key in chance.sample(KEYS, chance.randint(0, 3)):
        live = state.tables.get(key)
        roll = chance.random()
        if live is not None and roll < 0.15:
            known[key] += chance.randint(0, 1)
            tombstones.append(Tombstone(key, known[key]))
        elif live is not None and roll < 0.3 and live.table_branch is None:
            updates.append(update(key, live.table_version, live.row_count, branch="x"))
        else:
            known[key] = known.get(key, 0) + chance.randint(1, 3)
            registrations += [registration(key)] if live is None else []
            updates.append(update(key, known[key], chance.randint(0, 999)))
    return Publish(Branch(state.branch), head(number), registrations, updates, tombstones)


def expected_after(state: Snapshot, request: Publish) -> dict[str, tuple[int, str | None, int]]:
    tables = {k: (e.table_version, e.table_branch, e.row_count) for k, e in state.tables.items()}
    tables |= {u.table_key: (u.version, u.branch, u.row_count) for u in request.updates}
    return {k: v for k, v in tables.items() if k not in {t.table_key for t in request.tombstones}}


@pytest.mark.parametrize("seed", [7])
def test_hundreds_of_publishes_read_the_same_in_every_way(seed: int, branch: str, tables: Tables) -> None:
    """The publisher, a reader that follows, one that looks rarely, and one that reads it all."""
    chance = random.Random(seed)
    manifest = graph_on(tables, branch, *KEYS[:3])
    following, rare = Manifest(tables), Manifest(tables)
    publisher = Publisher(manifest)
    known = dict.fromkeys(KEYS[:3], 1)
    state = manifest.snapshot(branch)
    history = {state.manifest_version: state}
    fragments: list[int] = []
    compactions = 0
    publishes = PUBLISHES if tables.storage.location.is_local else PUBLISHES // 4
    for number in range(publishes):
        request = random_change(chance, state, known, number)
        expected = expected_after(state, request)
        state = publisher.publish(on_branch(manifest, branch, request), unguarded)
        found = {k: (e.table_version, e.table_branch, e.row_count) for k, e in state.tables.items()}
        assert found == expected, f"seed {seed}, publish {number}"
        assert state.head == request.head
        assert following.snapshot(branch) == state
        assert manifest.snapshot_at_version(state.manifest_version, branch) == state
        if chance.random() < 0.1:
            assert rare.snapshot(branch) == state
        history[state.manifest_version] = state
        if publisher.compact(branch, operation(), unguarded):
            compactions += 1
            rewritten = manifest.snapshot(branch)
            assert (rewritten.tables, rewritten.head) == (state.tables, state.head)
            assert following.snapshot(branch) == rewritten == Manifest(tables).snapshot(branch)
            history[rewritten.manifest_version] = state = rewritten
        fragments.append(len(manifest.open(branch).fragment_rows()))
    assert compactions >= publishes // (FRAGMENTS_MAX * 2)
    assert max(fragments) <= FRAGMENTS_MAX + 1
    table = manifest.open(branch)
    table.lance.validate()
    object_ids = table.read(["object_id"]).column("object_id").to_pylist()
    assert len(object_ids) == len(set(object_ids))
    assert list(history) == list(range(min(history), table.version + 1))
    for version, snapshot in history.items():
        assert manifest.snapshot_at_version(version, branch) == snapshot


def test_a_reader_that_knows_more_reads_an_old_version_right(branch: str, tables: Tables) -> None:
    manifest = graph_on(tables, branch, *KEYS)
    looked_at = manifest.branch(branch)
    before = manifest.snapshot(branch)
    request = on_branch(manifest, branch, Publish(Branch(branch), head(1), updates=[update(KEYS[0], 2)]))
    after = Publisher(manifest).publish(request, unguarded)
    old = manifest.open(branch, before.manifest_version)
    assert manifest.state_of(old, looked_at).snapshot(looked_at) == before
    assert manifest.snapshot(branch) == after


def test_compacting_few_fragments_does_nothing(tables: Tables, storage: Storage) -> None:
    manifest = graph_on(tables, "main", *KEYS)
    files = file_tree(storage)
    assert not Publisher(manifest).compact("main", operation(), unguarded)
    assert file_tree(storage) == files


def test_a_compaction_that_loses_to_a_publish_leaves_nothing(
    branch: str, tables: Tables, storage: Storage
) -> None:
    manifest = graph_on(tables, branch, *KEYS)
    publisher = Publisher(manifest)
    for number in range(FRAGMENTS_MAX + 2):
        publisher.publish(
            on_branch(
                manifest, branch, Publish(Branch(branch), head(number), updates=[update(KEYS[0], number + 2)])
            ),
            unguarded,
        )
    rival = on_branch(manifest, branch, Publish(Branch(branch), head("rival"), updates=[update(KEYS[1], 2)]))
    at_commit: list[set[str]] = []

    def publish_first() -> None:
        staged = file_tree(storage).keys()
        published = Publisher(Manifest(tables)).publish(rival, unguarded)
        assert published.head == head("rival")
        at_commit.append(file_tree(storage).keys() - staged)

    before = file_tree(storage).keys()
    assert not publisher.compact(branch, operation(), publish_first)
    assert manifest.snapshot(branch).head == head("rival")
    left = file_tree(storage).keys() - before - at_commit[0]
    assert {path for path in left if "/data/" in path} == set()
    assert publisher.compact(branch, operation(), unguarded)
    assert manifest.snapshot(branch).head == head("rival")


def test_which_fragments_are_rewritten() -> None:
    few = dict.fromkeys(range(FRAGMENTS_MAX), 5)
    assert tail_to_rewrite(few) == []
    many = {0: 1_000_000, **dict.fromkeys(range(1, FRAGMENTS_MAX + 1), 5)}
    assert tail_to_rewrite(many) == list(range(1, FRAGMENTS_MAX + 1))
    grown = {0: 30, **dict.fromkeys(range(1, FRAGMENTS_MAX + 1), 5)}
    assert tail_to_rewrite(grown) == list(range(FRAGMENTS_MAX + 1))


@pytest.mark.parametrize("rows", [1, 2, 50])
def test_rewriting_is_bounded_in_fragments_and_in_rows_rewritten(rows: int) -> None:
    """10,000 publishes: never more than the limit, and each row is rewritten a few times at most."""
    fragments: dict[int, int] = {}
    rewritten = 0
    for number in range(10_000):
        fragments[number * 2] = rows
        if tail := tail_to_rewrite(fragments):
            merged = sum(fragments.pop(fragment) for fragment in tail)
            fragments[number * 2 + 1] = merged
            rewritten += merged
        assert len(fragments) <= FRAGMENTS_MAX + 1
    assert rewritten <= 12 * 10_000 * rows


# ---- entities and old versions, on real tables ----


def real_update(table: Table) -> Update:
    ref = table.ref
    metadata = VersionMetadata(manifest_path(ref, table.version))
    return Update(ref.key, table.version, ref.branch, table.count_rows(), metadata)


def two_commits(tables: Tables, branch: str) -> tuple[Manifest, list[Snapshot]]:
    """A graph of people on a branch, with two commits after the first."""
    manifest = graph_on(tables, branch)
    storage = tables.storage
    publisher = Publisher(manifest)
    table = people_table(tables, "main" if branch == "main" else "branch")
    start = Publish(Branch(branch), head(0), [registration(PERSON.key)], [real_update(table)])
    snapshots = [publisher.publish(on_branch(manifest, branch, start), unguarded)]
    table = commit(tables, stage_upsert(storage, table, people({"ann": 100, "o'x": 1}), operation()))
    request = Publish(Branch(branch), head(1), updates=[real_update(table)])
    snapshots.append(publisher.publish(on_branch(manifest, branch, request), unguarded))
    table = commit(tables, stage_delete(storage, table, operation(), ids=ids("ann")))
    table = commit(tables, stage_append(storage, table, people({"zoe": 5}), operation()))
    request = Publish(Branch(branch), head(2), updates=[real_update(table)])
    snapshots.append(publisher.publish(on_branch(manifest, branch, request), unguarded))
    return manifest, snapshots


def test_a_table_that_is_not_there_is_named(tables: Tables) -> None:
    manifest = graph_on(tables, "main", *KEYS)
    with pytest.raises(NotFoundError, match="node:Robot"):
        manifest.snapshot().entry("node:Robot")
    with pytest.raises(BranchNotFound):
        manifest.snapshot("nowhere")
    with pytest.raises(BranchNotFound):
        manifest.snapshot_at_version(1, "nowhere")
    with pytest.raises(BranchNotFound):
        manifest.open("nowhere")
    with pytest.raises(VersionNotFound):
        manifest.snapshot_at_version(99)


def test_a_snapshot_cannot_be_changed(tables: Tables) -> None:
    snapshot = graph_on(tables, "main", *KEYS).snapshot()
    with pytest.raises(TypeError):
        snapshot.tables["node:X"] = snapshot.entry(KEYS[0])  # type: ignore[index]


def test_readers_leave_no_trace(tables: Tables, branch: str, storage: Storage) -> None:
    manifest, snapshots = two_commits(tables, branch)
    files = file_tree(storage)
    for reader in (manifest, Manifest(tables), Manifest(Tables(storage))):
        reader.branches()
        assert reader.snapshot(branch) == snapshots[-1]
        for snapshot in snapshots:
            assert reader.snapshot_at_version(snapshot.manifest_version, branch) == snapshot
            entry = snapshot.entry(PERSON.key)
            content = reader.tables.open(entry.ref, entry.table_version)
            assert content.read().num_rows == entry.row_count
            assert content.latest_version() == snapshots[-1].entry(PERSON.key).table_version
    assert file_tree(storage) == files


@pytest.mark.parametrize("text", ["not json", "[1]", '{"manifest_path": '])
def test_a_damaged_row_is_a_storage_error(text: str) -> None:
    with pytest.raises(StorageError, match="__manifest"):
        VersionMetadata.from_json(text)


def test_metadata_of_older_and_newer_writers_is_read() -> None:
    assert VersionMetadata.from_json(None) == VersionMetadata("")
    newer = '{"manifest_path": "p", "manifest_size": 7, "something_new": [1]}'
    assert VersionMetadata.from_json(newer) == VersionMetadata("p", 7)
