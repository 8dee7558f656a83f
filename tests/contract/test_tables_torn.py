"""Torn files: a HEAD that a power cut left half-written is recognised and set aside."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph_core.errors import StorageError
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import manifest_path, own_files
from omnigraph_core.tables.stage import stage_append, stage_delete
from omnigraph_core.tables.torn import (
    is_torn,
    open_newest_whole,
    set_aside_torn,
    torn_from,
    versions_on_disk,
)
from tests.support.graphs import (
    LINEAGES,
    ages,
    commit,
    ids,
    operation,
    people,
    people_table,
    write_raw,
)


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Local only: on object storage a PUT is whole or absent."""
    return str(tmp_path / "g")


@pytest.fixture(params=LINEAGES)
def table(request: pytest.FixtureRequest, tables: Tables) -> Table:
    return people_table(tables, request.param)


def tear(storage: Storage, path: str, keep: int) -> None:
    found = storage.control.get(path)
    assert found is not None
    assert len(found.data) > keep
    write_raw(storage, path, found.data[:keep])


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_a_torn_manifest_is_set_aside(keep: int, table: Table, tables: Tables, storage: Storage) -> None:
    newer = commit(tables, stage_append(storage, table, people({"new": 1}), operation()))
    path = manifest_path(newer.ref, newer.version)
    whole = storage.control.get(path)
    assert whole is not None
    tear(storage, path, keep if keep >= 0 else len(whole.data) - 1)
    fresh = Tables(storage)
    with pytest.raises(StorageError):
        fresh.open(table.ref)
    assert open_newest_whole(fresh, table.ref).version == table.version
    calls: list[str] = []
    assert set_aside_torn(fresh, table.ref, table.version, lambda: calls.append("asked")) == [newer.version]
    assert calls == ["asked"]
    after = fresh.open(table.ref)
    assert ages(after) == ages(table)
    again = commit(fresh, stage_append(storage, after, people({"again": 2}), operation()))
    assert again.version == newer.version
    assert ages(again) == {**ages(table), "again": 2}


@pytest.mark.parametrize("keep", [None, 0, 10])
def test_a_version_with_a_torn_data_file_is_set_aside(
    keep: int | None, table: Table, tables: Tables, storage: Storage
) -> None:
    staged = stage_append(storage, table, people({"new": 1}), operation())
    newer = commit(tables, staged)
    for file in staged.files:
        if keep is None:
            storage.control.delete(file.path)
        else:
            tear(storage, file.path, keep)
    assert is_torn(tables, newer.ref, newer.version)
    assert set_aside_torn(Tables(storage), table.ref, table.version, lambda: None) == [newer.version]
    assert ages(Tables(storage).open(table.ref)) == ages(table)


def test_a_version_with_a_lost_deletion_file_is_set_aside(
    table: Table, tables: Tables, storage: Storage
) -> None:
    staged = stage_delete(storage, table, operation(), ids=ids("ann"))
    newer = commit(tables, staged)
    storage.control.delete(staged.files[0].path)
    assert set_aside_torn(Tables(storage), table.ref, table.version, lambda: None) == [newer.version]


def test_whole_versions_stay(table: Table, tables: Tables, storage: Storage) -> None:
    newer = commit(tables, stage_append(storage, table, people({"new": 1}), operation()))
    assert not is_torn(tables, newer.ref, newer.version)
    assert set_aside_torn(tables, table.ref, table.version, lambda: None) == []
    assert versions_on_disk(tables, table.ref)[0] == newer.version


def test_what_was_published_is_never_set_aside(table: Table, tables: Tables, storage: Storage) -> None:
    tear(storage, manifest_path(table.ref, table.version), 0)
    assert set_aside_torn(Tables(storage), table.ref, table.version, lambda: None) == []
    assert versions_on_disk(tables, table.ref)[0] == table.version


def test_without_the_lock_nothing_is_moved(table: Table, tables: Tables, storage: Storage) -> None:
    newer = commit(tables, stage_append(storage, table, people({"new": 1}), operation()))
    tear(storage, manifest_path(newer.ref, newer.version), 0)

    def lost() -> None:
        raise StorageError("the lock is lost")

    with pytest.raises(StorageError, match="the lock is lost"):
        set_aside_torn(Tables(storage), table.ref, table.version, lost)
    assert versions_on_disk(tables, table.ref)[0] == newer.version


def test_own_files_are_those_of_the_lineage(table: Table) -> None:
    assert all(path.startswith(table.ref.directory + "/") for path in own_files(table))


def test_what_cannot_be_opened_for_another_reason_is_not_torn(
    table: Table, tables: Tables, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of file descriptors, say: an acknowledged version must not be set aside for that."""
    newer = commit(tables, stage_append(storage, table, people({"new": 1}), operation()))

    def fail(*_: object, **__: object) -> None:
        raise OSError("Too many open files")

    monkeypatch.setattr("lance.dataset", fail)
    with pytest.raises(StorageError, match="Too many open files"):
        set_aside_torn(Tables(storage), table.ref, table.version, lambda: None)
    monkeypatch.undo()
    assert versions_on_disk(tables, table.ref)[0] == newer.version


def test_a_rotten_manifest_is_an_error_and_no_panic(table: Table, tables: Tables, storage: Storage) -> None:
    path = manifest_path(table.ref, table.version)
    found = storage.control.get(path)
    assert found is not None
    rotten = bytearray(found.data)
    rotten[16:-16] = bytes(byte ^ 0xFF for byte in rotten[16:-16])
    write_raw(storage, path, bytes(rotten))
    with pytest.raises(StorageError):
        Tables(storage).open(table.ref).read()


def two_newer(table: Table, tables: Tables, storage: Storage) -> tuple[Table, Table]:
    """Two versions of one write, as a write that folds makes them."""
    first = commit(tables, stage_append(storage, table, people({"new": 1}), operation()))
    return first, commit(tables, stage_append(storage, first, people({"newer": 2}), operation()))


@pytest.mark.parametrize("fate", ["torn", "lost"])
def test_what_builds_on_a_torn_version_is_set_aside_with_it(
    fate: str, table: Table, tables: Tables, storage: Storage
) -> None:
    """Both were synced side by side, and the power failed: the newer one is whole, the older is not."""
    first, second = two_newer(table, tables, storage)
    path = manifest_path(first.ref, first.version)
    if fate == "torn":
        tear(storage, path, 0)
    else:
        storage.control.delete(path)
    fresh = Tables(storage)
    assert fresh.open(table.ref).version == second.version
    assert torn_from(fresh, table.ref, table.version) == first.version
    moved = [second.version] if fate == "lost" else [second.version, first.version]
    assert set_aside_torn(fresh, table.ref, table.version, lambda: None) == moved
    assert ages(Tables(storage).open(table.ref)) == ages(table)


def test_a_torn_version_takes_nothing_below_it_along(table: Table, tables: Tables, storage: Storage) -> None:
    first, second = two_newer(table, tables, storage)
    tear(storage, manifest_path(second.ref, second.version), 0)
    assert set_aside_torn(Tables(storage), table.ref, table.version, lambda: None) == [second.version]
    assert Tables(storage).open(table.ref).version == first.version
