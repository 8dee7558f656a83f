"""Keys that were looked up are remembered with the version of the table, and versions with the try."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from omnigraph_core.storage import Storage
from omnigraph_core.tables import keys
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.keys import find_keys
from omnigraph_core.tables.pinned import PinnedTables
from omnigraph_core.tables.stage import stage_append, stage_upsert
from tests.support.graphs import PERSON, ages, commit, ids, operation, people, people_table, row_ids

NAMES = ["ann", "bob", "cid", "dan", "eva", "fay", "nobody", "none"]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The filter of every scan from here on."""
    asked: list[str | None] = []
    original = Table.scan

    def scan(self: Table, columns: object = None, where: str | None = None, **options: object) -> object:
        asked.append(where)
        return original(self, columns, where, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Table, "scan", scan)
    return asked


def found(table: Table, wanted: list[str]) -> dict[str, int]:
    rows = find_keys(table, pa.chunked_array([wanted], pa.string())).to_pylist()
    answer = {row["id"]: row["_rowid"] for row in rows}
    assert len(answer) == len(rows)
    return answer


def test_what_is_known_is_not_looked_up_again(tables: Tables, reads: list[str | None]) -> None:
    table = people_table(tables)
    known = row_ids(table)
    reads.clear()
    assert found(table, ["ann", "nobody", "eva"]) == {"ann": known["ann"], "eva": known["eva"]}
    assert found(table, ["nobody", "ann"]) == {"ann": known["ann"]}
    assert len(reads) == 1
    assert found(table, ["ann", "bob"]) == {"ann": known["ann"], "bob": known["bob"]}
    assert reads[1:] == ["id IN ('bob')"]


@pytest.mark.parametrize("most", [0, 3, 6, 100])
def test_the_answer_does_not_depend_on_what_was_asked_before(
    most: int, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "REMEMBERED_KEYS_MAX", most)
    table = people_table(tables)
    known, draw = row_ids(table), random.Random(most)
    for _ in range(25):
        wanted = draw.sample(NAMES, draw.randint(0, len(NAMES)))
        assert found(table, wanted) == {name: known[name] for name in wanted if name in known}
        assert table.known_keys is None or len(table.known_keys.keys) <= max(most, 0)


def test_a_version_knows_nothing_of_the_one_before(tables: Tables, storage: Storage) -> None:
    table = people_table(tables)
    assert found(table, ["new", "ann"]).keys() == {"ann"}
    added = commit(tables, stage_append(storage, table, people({"new": 9}), operation()))
    assert found(added, ["new", "ann"]).keys() == {"new", "ann"}
    assert found(table, ["new", "ann"]).keys() == {"ann"}


def test_an_upsert_by_remembered_keys_is_exact(tables: Tables, storage: Storage) -> None:
    table = people_table(tables)
    before, kept = ages(table), row_ids(table)
    find_keys(table, ids("ann", "eva", "new"))
    staged = stage_upsert(
        storage, table, people({"ann": 70, "new": 71, "bob": 72}), operation(), removed=ids("eva")
    )
    after = commit(tables, staged)
    changed = {name: age for name, age in before.items() if name != "eva"} | {"ann": 70, "new": 71, "bob": 72}
    assert ages(after) == changed
    assert {name: row_ids(after)[name] for name in ("ann", "bob")} == {n: kept[n] for n in ("ann", "bob")}


def test_pinned_tables_open_a_version_once_and_look_for_head_every_time(
    tables: Tables, storage: Storage
) -> None:
    table = people_table(tables)
    pinned = PinnedTables(tables)
    assert pinned.open(PERSON, table.version) is pinned.open(PERSON, table.version)
    assert pinned.open(PERSON).version == table.version
    added = commit(tables, stage_append(storage, table, people({"new": 9}), operation()))
    assert pinned.open(PERSON).version == added.version
    assert pinned.open(PERSON, table.version).version == table.version
    assert PinnedTables(tables).open(PERSON, table.version) is not pinned.open(PERSON, table.version)
