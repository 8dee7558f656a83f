"""The stamp: older manifests become current step by step, newer ones are left alone."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import omnigraph_core
from omnigraph_core import faults
from omnigraph_core.errors import ErrorKind, StorageError
from omnigraph_core.faults import InjectedFault
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.publisher import Publisher
from omnigraph_core.manifest.reader import Manifest, manifest_ref
from omnigraph_core.manifest.request import Publish
from omnigraph_core.manifest.rows import (
    OBJECT_ID,
    VersionMetadata,
    head_row,
    manifest_schema,
    rows_table,
    table_row,
    tombstone_row,
    version_row,
)
from omnigraph_core.manifest.stamp import (
    INTERNAL_SCHEMA_VERSION,
    STAMP_KEY,
    StampFromFuture,
    migrate,
    read_stamp,
)
from omnigraph_core.storage import Storage
from omnigraph_core.storage.locks import LockLost
from omnigraph_core.tables.branches import create_fork
from omnigraph_core.tables.commit import unguarded
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import CommitLost
from omnigraph_core.tables.fence import PRIMARY_KEY_METADATA, merge_fenced
from omnigraph_core.tables.fork_refs import list_forks
from omnigraph_core.tables.metadata import field_metadata, stage_metadata
from tests.support import warm
from tests.support.graphs import commit, file_tree, head, new_manifest, on_branch, operation, update
from tests.support.processes import clean_environment

A = "node:A"
LEGACY_RUNS = ("__run__01B", "__run__01A")
PRIMARY_KEY = PRIMARY_KEY_METADATA.decode()

old_stamp = pytest.mark.parametrize("stamp", [1, 2])


def old_manifest(tables: Tables, stamp: int) -> Manifest:
    """A manifest as an old writer left it, made with Lance alone: a table, a branch, two runs."""
    schema = manifest_schema()
    if stamp == 1:
        schema = pa.schema([field.remove_metadata() for field in schema])
    else:
        schema = schema.with_metadata({STAMP_KEY: str(stamp)})
    rows = [table_row(A, "nodes/a"), version_row(A, 5, None, 3, VersionMetadata("nodes/a/v5"))]
    dataset = lance.write_dataset(
        pa.Table.from_pylist([dict(row) for row in rows], schema=schema),
        tables.uri(manifest_ref("main")),
        enable_stable_row_ids=True,
        data_storage_version="2.2",
        storage_options=tables.storage.lance_options,
    )
    for name in ("dev", *LEGACY_RUNS):
        dataset.create_branch(name)
    return Manifest(tables)


def is_annotated(table: Table) -> bool:
    return field_metadata(table, OBJECT_ID).get(PRIMARY_KEY) == "true"


def assert_current(manifest: Manifest, branch: str = "main") -> None:
    table = Tables(manifest.tables.storage).open(manifest_ref(branch))
    assert read_stamp(table) == INTERNAL_SCHEMA_VERSION == 3
    assert is_annotated(table)
    assert list(manifest.branches()) == ["dev"]
    assert table.lance.has_stable_row_ids


def assert_fenced(tables: Tables, branch: str) -> None:
    """Of two writers of one new key who saw the same version, exactly one wins."""
    first = tables.open(manifest_ref(branch))
    second = tables.open(manifest_ref(branch), first.version)
    rows = rows_table([tombstone_row("node:Raced", 7)])
    merge_fenced(tables, first, OBJECT_ID, rows)
    with pytest.raises(CommitLost):
        merge_fenced(tables, second, OBJECT_ID, rows)
    assert tables.open(manifest_ref(branch)).count_rows("table_key = 'node:Raced'") == 1


def test_a_new_manifest_is_current_and_migrating_it_writes_nothing(tables: Tables, storage: Storage) -> None:
    manifest = new_manifest(tables, A)
    table = manifest.open("main")
    assert read_stamp(table) == INTERNAL_SCHEMA_VERSION
    assert is_annotated(table)
    assert table.lance.config()["table_version_management"] == "true"
    files = file_tree(storage)
    assert migrate(tables, table, operation(), unguarded) is table
    assert file_tree(storage) == files
    assert_fenced(tables, "main")


def test_without_the_annotation_there_is_no_fence(tables: Tables) -> None:
    """Why stamp 2 exists, and proof that `assert_fenced` can fail."""
    old_manifest(tables, 1)
    with pytest.raises(pytest.fail.Exception):
        assert_fenced(tables, "main")
    assert tables.open(manifest_ref("main")).count_rows("table_key = 'node:Raced'") == 2


@old_stamp
def test_an_old_manifest_becomes_current_and_keeps_its_tables(stamp: int, tables: Tables) -> None:
    manifest = old_manifest(tables, stamp)
    before = manifest.snapshot()
    table = manifest.open("main")
    migrated = migrate(tables, table, operation(), unguarded)
    assert migrated.version == table.version + INTERNAL_SCHEMA_VERSION - stamp
    assert_current(manifest)
    after = Manifest(tables).snapshot()
    assert after.tables == before.tables
    assert after.entry(A).table_version == 5
    assert_fenced(tables, "main")
    for name in LEGACY_RUNS:
        assert not tables.exists(manifest_ref(name))


@old_stamp
def test_each_branch_migrates_for_itself(stamp: int, tables: Tables) -> None:
    manifest = old_manifest(tables, stamp)
    dev = manifest.open("dev")
    migrate(tables, manifest.open("main"), operation(), unguarded)
    assert read_stamp(tables.open(manifest_ref("dev"))) == stamp
    migrate(tables, dev, operation(), unguarded)
    assert_current(manifest, "dev")
    assert_fenced(tables, "dev")
    assert_fenced(tables, "main")


@old_stamp
@pytest.mark.parametrize("branch", ["main", "dev"])
def test_a_publish_migrates_first(stamp: int, branch: str, tables: Tables) -> None:
    manifest = old_manifest(tables, stamp)
    assert manifest.snapshot(branch).head is None
    request = Publish(Branch(branch), head(1), updates=[update(A, 6)], expected_versions={A: 5})
    after = Publisher(manifest).publish(on_branch(manifest, branch, request), unguarded)
    assert (after.entry(A).table_version, after.head) == (6, head(1))
    assert Manifest(tables).snapshot(branch) == after
    assert_current(manifest, branch)


@old_stamp
@pytest.mark.parametrize(
    "step", ["manifest.migrated_to_2", "manifest.migrated_to_3", "tables.fork_ref_deleted"]
)
def test_a_migration_that_died_goes_on_where_it_was(stamp: int, step: str, tables: Tables) -> None:
    manifest = old_manifest(tables, stamp)
    faults.arm(f"{step}=error")
    died = stamp == 1 or step != "manifest.migrated_to_2"
    try:
        migrate(tables, manifest.open("main"), operation(), unguarded)
        assert not died
    except InjectedFault:
        assert died
    faults.arm("")
    again = Manifest(tables)
    reached = {"manifest.migrated_to_2": 2 if died else 3, "manifest.migrated_to_3": 3}.get(step, 2)
    assert read_stamp(again.open("main")) == reached
    assert again.snapshot().entry(A).table_version == 5
    migrate(tables, again.open("main"), operation(), unguarded)
    assert_current(manifest)
    assert_fenced(tables, "main")


def test_a_killed_migration_goes_on_where_it_was(
    tables: Tables, storage: Storage, environment: dict[str, str]
) -> None:
    program = f"""
import sys
from pathlib import Path
from omnigraph_core import faults
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.manifest.stamp import migrate
from omnigraph_core.settings import load_settings
from omnigraph_core.storage import open_storage, parse_location
from omnigraph_core.tables.dataset import Tables
tables = Tables(open_storage(parse_location({storage.location.uri!r}, Path("/")), load_settings()))
faults.arm(sys.argv[1] + "=kill")
migrate(tables, Manifest(tables).open("main"), "op", lambda: None)
"""
    manifest = old_manifest(tables, 1)
    root = Path(omnigraph_core.__file__).parents[1]
    for step, stamp in [("manifest.migrated_to_2", 2), ("manifest.migrated_to_3", 3)]:
        command = [sys.executable, "-c", program, step]
        child = clean_environment(**environment)
        killed = warm.run(command, cwd=root, env=child, timeout=240, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert read_stamp(Tables(storage).open(manifest_ref("main"))) == stamp
    assert_current(manifest)
    assert_fenced(tables, "main")


def test_an_annotation_that_is_there_already_is_no_obstacle(tables: Tables) -> None:
    """A crash of an older binary may have left the annotation without the stamp."""
    manifest = old_manifest(tables, 1)
    commit(
        tables, stage_metadata(manifest.open("main"), operation(), field=(OBJECT_ID, {PRIMARY_KEY: "true"}))
    )
    migrate(tables, manifest.open("main"), operation(), unguarded)
    assert_current(manifest)
    assert_fenced(tables, "main")


def test_another_primary_key_is_refused(tables: Tables, storage: Storage) -> None:
    manifest = old_manifest(tables, 1)
    commit(
        tables, stage_metadata(manifest.open("main"), operation(), field=("table_key", {PRIMARY_KEY: "true"}))
    )
    files = file_tree(storage)
    with pytest.raises(StorageError, match="table_key"):
        migrate(tables, manifest.open("main"), operation(), unguarded)
    assert file_tree(storage) == files


def test_a_lost_lock_stops_the_migration(tables: Tables, storage: Storage) -> None:
    manifest = old_manifest(tables, 1)
    files = file_tree(storage)

    def lost() -> None:
        raise LockLost("refs", "test")

    with pytest.raises(LockLost):
        migrate(tables, manifest.open("main"), operation(), lost)
    assert file_tree(storage) == files


def test_runs_that_hang_together_are_swept_children_first(tables: Tables) -> None:
    manifest = old_manifest(tables, 2)
    main = manifest_ref("main")
    create_fork(tables, main.on("__run__01A"), "__run__01C", 1, unguarded)
    create_fork(tables, main.on("__run__01C"), "__run__01B-child", 1, unguarded)
    migrate(tables, manifest.open("main"), operation(), unguarded)
    assert_current(manifest)


def test_a_run_that_a_living_branch_stands_on_stays(tables: Tables) -> None:
    """Its files are the branch's files; a graph must not become unwritable over it either."""
    manifest = old_manifest(tables, 2)
    main = manifest_ref("main")
    create_fork(tables, main.on("__run__01A"), "kept", 1, unguarded)
    create_fork(tables, main.on("kept"), "grandchild", 1, unguarded)
    migrate(tables, manifest.open("main"), operation(), unguarded)
    assert read_stamp(tables.open(main)) == 3
    assert list(list_forks(tables, main)) == ["__run__01A", "dev", "grandchild", "kept"]
    assert Manifest(tables).snapshot("kept").entry(A).table_version == 5


# ---- reading ----


@old_stamp
@pytest.mark.parametrize("branch", ["main", "dev"])
def test_reading_an_old_manifest_leaves_it_as_it_is(
    stamp: int, branch: str, tables: Tables, storage: Storage
) -> None:
    manifest = old_manifest(tables, stamp)
    files = file_tree(storage)
    snapshot = manifest.snapshot(branch)
    assert snapshot.entry(A).table_version == 5
    assert manifest.snapshot_at_version(snapshot.manifest_version, branch) == snapshot
    assert set(manifest.branches()) == {"dev", *LEGACY_RUNS}
    assert file_tree(storage) == files
    assert read_stamp(tables.open(manifest_ref(branch))) == stamp


# ---- the future ----


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_a_stamp_from_the_future_is_neither_read_nor_written(
    branch: str, tables: Tables, storage: Storage
) -> None:
    manifest = new_manifest(tables, A)
    create_fork(tables, manifest_ref("main"), "dev", manifest.open("main").version, unguarded)
    table = commit(tables, stage_metadata(manifest.open(branch), operation(), schema={STAMP_KEY: "4"}))
    files = file_tree(storage)
    request = on_branch(manifest, branch, Publish(Branch(branch), head(1), updates=[update(A, 2)]))
    for attempt in (
        lambda: manifest.snapshot(branch),
        lambda: manifest.snapshot_at_version(table.version, branch),
        lambda: manifest.open(branch),
        lambda: Publisher(manifest).publish(request, unguarded),
        lambda: Publisher(manifest).compact(branch, operation(), unguarded),
        lambda: migrate(tables, table, operation(), unguarded),
    ):
        with pytest.raises(StampFromFuture) as caught:
            attempt()
        assert caught.value.kind is ErrorKind.STORAGE
        assert caught.value.hint == "upgrade omnigraph first"
        assert caught.value.details() == {"internal_schema_version": 4, "supported": 3}
    assert file_tree(storage) == files


@pytest.mark.parametrize("text", ["", "three", "-1", "0", "3.0"])
def test_a_stamp_that_is_no_number_is_not_taken_for_a_missing_one(
    text: str, tables: Tables, storage: Storage
) -> None:
    manifest = new_manifest(tables, A)
    commit(tables, stage_metadata(manifest.open("main"), operation(), schema={STAMP_KEY: text}))
    files = file_tree(storage)
    with pytest.raises(StorageError, match=STAMP_KEY):
        manifest.snapshot()
    with pytest.raises(StorageError, match=STAMP_KEY):
        Publisher(manifest).publish(Publish(Branch("main"), head(1), updates=[update(A, 2)]), unguarded)
    assert file_tree(storage) == files


def test_the_head_row_is_fenced_like_any_other(tables: Tables) -> None:
    manifest = new_manifest(tables, A)
    first = manifest.open("main")
    second = tables.open(first.ref, first.version)
    merge_fenced(tables, first, OBJECT_ID, rows_table([head_row(head(1))]))
    with pytest.raises(CommitLost):
        merge_fenced(tables, second, OBJECT_ID, rows_table([head_row(head(2))]))
    assert manifest.snapshot().head == head(1)
