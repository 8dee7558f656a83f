"""Comparing any two versions of one dataset, on any lineages, against dictionaries."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from omnigraph_core.errors import StorageError
from omnigraph_core.storage import Storage
from omnigraph_core.tables import compaction, fold, fragments, row_set
from omnigraph_core.tables import compare as comparing
from omnigraph_core.tables.branches import create_fork
from omnigraph_core.tables.commit import stage_restore, unguarded
from omnigraph_core.tables.compaction import IndexWork, stage_compaction
from omnigraph_core.tables.compare import Compared, compare, still_there
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.fold import stage_fold
from omnigraph_core.tables.lineage import common_columns, parting
from omnigraph_core.tables.row_set import RowSet, all_rows, no_rows, rows_of
from omnigraph_core.tables.stage import stage_append, stage_delete, stage_overwrite, stage_upsert
from tests.support.graphs import (
    BRANCH_OF_BRANCH,
    PEOPLE_SCHEMA,
    PERSON,
    People,
    ages,
    commit,
    ids,
    operation,
    people,
    people_table,
)

pytestmark = pytest.mark.mostly_local

NAMES = [f"p{number}" for number in range(60)]
WEIGHTS = {
    "upsert": 8,
    "append": 4,
    "delete": 4,
    "compact": 2,
    "overwrite": 1,
    "restore": 1,
    "fork": 2,
    "copy": 1,
}


def no_indexes(table: Table) -> IndexWork:
    return IndexWork()


def content(rows: RowSet) -> People:
    """The rows by id; asserts that both ways to read them agree."""
    columns = ["id", "age"]
    found = {row["id"]: row["age"] for row in rows.read(columns).to_pylist()}
    in_order = [row for part in rows.by_id(columns) for row in part.to_pylist()]
    assert len(in_order) == len(found) == rows.rows
    assert [(row["id"], row["age"]) for row in in_order] == sorted(found.items())
    return found


def difference(found: Compared) -> tuple[People, People]:
    """What really differs: rows that are in both with equal content do not."""
    gone, come = content(found.gone), content(found.come)
    same = {name for name in gone.keys() & come.keys() if gone[name] == come[name]}
    return (
        {n: a for n, a in gone.items() if n not in same},
        {n: a for n, a in come.items() if n not in same},
    )


def expected(a: People, b: People) -> tuple[People, People]:
    return (
        {name: age for name, age in a.items() if name not in b or b[name] != age},
        {name: age for name, age in b.items() if name not in a or a[name] != age},
    )


@dataclass
class History:
    """Every version there ever was, with what it held."""

    tables: Tables
    random: random.Random
    heads: list[Table] = field(default_factory=list)
    versions: list[tuple[Table, People]] = field(default_factory=list)

    def landed(self, place: int, table: Table, expected: People) -> None:
        self.heads[place] = table
        assert ages(table) == expected
        self.versions.append((table, expected))

    def some(self, limit: int) -> list[str]:
        return self.random.sample(NAMES, self.random.randint(0, limit))

    def aged(self, names: list[str]) -> People:
        return {name: self.random.choice([None, self.random.randint(0, 9)]) for name in names}

    def step(self, kind: str) -> None:
        place = self.random.randrange(len(self.heads))
        table = self.heads[place]
        storage, now = self.tables.storage, ages(table)
        if kind == "fork":
            origin, held = self.random.choice(self.versions)
            fork = create_fork(self.tables, origin.ref, f"f{len(self.heads)}", origin.version, unguarded)
            self.heads.append(fork)
            self.landed(len(self.heads) - 1, fork, held)
            return
        if kind == "compact":
            staged = stage_compaction(storage, table, no_indexes, operation(), drops_indexes=True)
            for each in staged:
                table = commit(self.tables, each)
            self.landed(place, table, now)
            return
        if kind == "restore":
            held_at, held = self.random.choice([v for v in self.versions if v[0].ref == table.ref])
            restored = commit(self.tables, stage_restore(table, held_at.version, operation(), undoes="it"))
            self.landed(place, restored, held)
            return
        write, after = self._write(table, kind, now)
        folded = stage_fold(storage, table, write)
        table = commit(self.tables, write)
        if folded is not None:
            table = commit(self.tables, folded)
        self.landed(place, table, after)

    def _write(self, table: Table, kind: str, now: People) -> tuple[Any, People]:
        storage = self.tables.storage
        if kind == "copy":
            # Rows of another lineage, as a merge brings them.
            other = self.random.choice(self.versions)[1]
            copied = {name: other[name] for name in self.some(20) if name in other}
            return stage_upsert(storage, table, people(copied), operation()), now | copied
        if kind == "upsert":
            changes = self.aged(self.some(8))
            return stage_upsert(storage, table, people(changes), operation()), now | changes
        if kind == "delete":
            gone = self.some(8)
            left = {name: age for name, age in now.items() if name not in gone}
            return stage_delete(storage, table, operation(), ids=ids(*gone)), left
        if kind == "overwrite":
            changes = self.aged(self.some(40))
            return stage_overwrite(storage, table, people(changes), operation()), changes
        new = self.aged([name for name in self.some(10) if name not in now])
        return stage_append(storage, table, people(new), operation()), now | new


@pytest.mark.parametrize("seed", range(3))
def test_any_two_versions_compare_like_dictionaries(
    seed: int, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragments, "ROWS_PER_FRAGMENT", 15)
    monkeypatch.setattr(compaction, "ROWS_PER_FRAGMENT", 15)
    monkeypatch.setattr(fold, "FOLD_FRAGMENTS", 4)
    chooser = random.Random(f"compare {seed}")
    history = History(tables, chooser)
    start = history.aged(NAMES[:40])
    table = create_table(tables, PERSON, PEOPLE_SCHEMA, operation(), people(start))
    history.heads.append(table)
    history.landed(0, table, start)
    done = []
    for _ in range(40):
        (kind,) = chooser.choices(list(WEIGHTS), list(WEIGHTS.values()))
        done.append(kind)
        history.step(kind)
    for _ in range(80):
        (a, was), (b, is_) = chooser.choices(history.versions, k=2)
        monkeypatch.setattr(row_set, "ADDRESSES_IN_FILTER_MAX", chooser.choice([0, 1000]))
        monkeypatch.setattr(row_set, "SORTED_ROWS_MAX", chooser.choice([3, 4096]))
        monkeypatch.setattr(comparing, "CARRIED_ROWS_MIN", chooser.choice([0, 512]))
        found = difference(compare(tables, a, b))
        assert found == expected(was, is_), (seed, a.ref, a.version, b.ref, b.version, done)
        check_still_there(tables, a, b)


def check_still_there(tables: Tables, a: Table, b: Table) -> None:
    """Rows in the same files are the same rows, at the addresses that are told."""
    columns = ["id", "age"]
    rows = all_rows(a).read(columns)
    kept = still_there(tables, a, b, rows, [("id", "id"), ("age", "age")])
    there = {row["_rowaddr"]: row for row in all_rows(b).read(columns).to_pylist()}
    assert all(there[row["_rowaddr"]] == row for row in kept.to_pylist())
    if a.ref == b.ref and a.version == b.version:
        assert kept.num_rows == rows.num_rows


def test_rows_that_nobody_touched_are_still_there(tables: Tables, storage: Storage) -> None:
    main = create_table(tables, PERSON, PEOPLE_SCHEMA, operation(), people({"ann": 1, "bob": 2, "cy": 3}))
    fork = create_fork(tables, PERSON, "dev", main.version, unguarded)
    later = commit(tables, stage_upsert(storage, fork, people({"ann": 9, "dee": 4}), operation()))
    rows = all_rows(main).read(["id"])
    kept = still_there(tables, main, later, rows, [("id", "id"), ("age", "age")])
    assert kept.column("id").to_pylist() == ["bob", "cy"]
    for staged in stage_compaction(storage, later, no_indexes, operation(), drops_indexes=True):
        later = commit(tables, staged)
    assert still_there(tables, main, later, rows, [("id", "id")]).num_rows == 0


@pytest.mark.remotely
def test_a_branch_of_a_branch_against_main(tables: Tables) -> None:
    """On S3, too: deletion files of a fork lie with its parents."""
    deep = people_table(tables, BRANCH_OF_BRANCH)
    main, dev = tables.open(PERSON), tables.open(PERSON.on("dev"))
    for a in (deep, main, dev):
        for b in (deep, main, dev):
            assert difference(compare(tables, a, b)) == expected(ages(a), ages(b))


def test_a_small_change_is_a_small_difference(tables: Tables, storage: Storage) -> None:
    """Not the rows around it, also when compaction moved all of them."""
    table = create_table(
        tables, PERSON, PEOPLE_SCHEMA, operation(), people({f"x{number}": number for number in range(3000)})
    )
    changed = commit(tables, stage_upsert(storage, table, people({"x7": 70, "new": 1}), operation()))
    changed = commit(tables, stage_delete(storage, changed, operation(), ids=ids("x9")))
    found = compare(tables, table, changed)
    assert (found.gone.rows, found.come.rows) == (2, 2)
    for staged in stage_compaction(storage, changed, no_indexes, operation(), drops_indexes=True):
        changed = commit(tables, staged)
    found = compare(tables, table, changed)
    assert (found.gone.rows, found.come.rows) == (2, 2)
    assert compare(tables, changed, changed).is_empty


def test_a_row_that_two_lineages_changed_in_versions_of_the_same_number(
    tables: Tables, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its row id and the version of its last update say nothing then."""
    main = create_table(tables, PERSON, PEOPLE_SCHEMA, operation(), people({"ann": 1, "bob": 2, "cy": 3}))
    fork = create_fork(tables, PERSON, "dev", main.version, unguarded)
    heads = []
    for table, age in ((main, 10), (fork, 20)):
        head = commit(tables, stage_upsert(storage, table, people({"ann": age}), operation()))
        for staged in stage_compaction(storage, head, no_indexes, operation(), drops_indexes=True):
            head = commit(tables, staged)
        heads.append(head)
    monkeypatch.setattr(comparing, "CARRIED_ROWS_MIN", 0)
    found = difference(compare(tables, *heads))
    assert found == ({"ann": 10}, {"ann": 20})
    assert compare(tables, *heads).gone.rows == 1


def test_many_deleted_rows_of_a_fragment(tables: Tables, storage: Storage) -> None:
    """Lance keeps many deletions in another kind of file than few."""
    table = create_table(
        tables,
        PERSON,
        PEOPLE_SCHEMA,
        operation(),
        people({f"x{number:05}": number for number in range(20_000)}),
    )
    less = commit(tables, stage_delete(storage, table, operation(), where="age % 3 > 0"))
    kinds = {each.metadata.deletion_file.file_type for each in less.lance.get_fragments()}
    assert kinds == {"bitmap"}
    least = commit(tables, stage_delete(storage, less, operation(), ids=ids("x00003")))
    assert difference(compare(tables, less, least)) == ({"x00003": 3}, {})
    assert compare(tables, table, less).gone.rows == 13_333
    assert difference(compare(tables, less, table)) == expected(ages(less), ages(table))


def test_row_sets(tables: Tables) -> None:
    table = people_table(tables)
    assert content(all_rows(table)) == ages(table)
    assert content(no_rows(table)) == {}
    assert content(rows_of(table, ids("ann", "nobody"))) == {"ann": 1}


def test_where_lineages_part(tables: Tables, storage: Storage) -> None:
    main = create_table(tables, PERSON, PEOPLE_SCHEMA, operation(), people({"ann": 1}))
    one = create_fork(tables, PERSON, "one", 1, unguarded)
    main = commit(tables, stage_append(storage, main, people({"bob": 2}), operation()))
    two = create_fork(tables, PERSON, "two", 2, unguarded)
    deep = create_fork(tables, PERSON.on("two"), "deep", 2, unguarded)
    two = commit(tables, stage_append(storage, two, people({"cy": 3}), operation()))
    two = commit(tables, stage_append(storage, two, people({"dee": 4}), operation()))
    side = create_fork(tables, PERSON.on("two"), "side", 3, unguarded)
    assert parting(tables, main, one).version == 1
    assert parting(tables, one, deep).version == 1
    assert parting(tables, main, deep).version == 2
    assert (parting(tables, side, deep).version, parting(tables, side, deep).depth) == (2, 1)
    assert parting(tables, two, side).version == 3
    assert parting(tables, two, two).version == 4


def with_column(table: Table, tables: Tables, name: str) -> Table:
    table.lance.add_columns(pa.schema([pa.field(name, pa.int64())]))
    return tables.open(table.ref)


def test_columns_are_matched_by_field_identity_as_far_as_lineages_share_it(tables: Tables) -> None:
    main = create_table(tables, PERSON, PEOPLE_SCHEMA, operation(), people({"ann": 1}))
    fork = create_fork(tables, PERSON, "dev", main.version, unguarded)
    fork.lance.alter_columns({"path": "age", "name": "years"})
    fork = with_column(tables.open(fork.ref), tables, "height")
    grown = with_column(main, tables, "weight")
    assert common_columns(tables, main, fork) == (("id", "id"), ("age", "years"))
    # Both lineages gave the same field id to another column.
    assert common_columns(tables, grown, fork) == (("id", "id"), ("age", "years"))
    both = with_column(tables.open(fork.ref), tables, "weight")
    assert common_columns(tables, both, grown) == (("id", "id"), ("years", "age"), ("weight", "weight"))


@pytest.mark.parametrize("damage", ["gone", "short"])
def test_a_lost_deletion_file_is_damage(damage: str, tables: Tables, storage: Storage) -> None:
    table = create_table(tables, PERSON, PEOPLE_SCHEMA, operation(), people({"ann": 1, "bob": 2}))
    less = commit(tables, stage_delete(storage, table, operation(), ids=ids("ann")))
    (name,) = storage.control.list(f"{PERSON.path}/_deletions")
    path = storage.location.path / PERSON.path / "_deletions" / name
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(StorageError, match="_deletions"):
        compare(tables, table, less)
