"""Changes of columns: what we stage, and what Lance itself refuses, accepts, and would accept wrongly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.dataset import LanceOperation
from lance.fragment import LanceFragment

from omnigraph_core.errors import InternalError, StorageError
from omnigraph_core.schema.arrow import BLOB_METADATA, BLOB_STORAGE
from omnigraph_core.storage import Storage
from omnigraph_core.tables import evolve
from omnigraph_core.tables.columns import StoredColumn, lance_schema, new_column, stored_columns
from omnigraph_core.tables.commit import stage_restore
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.evolve import ColumnChange, stage_columns
from omnigraph_core.tables.failures import CommitLost, HeadMoved
from omnigraph_core.tables.indexes import IndexKind, IndexSpec, list_indexes, stage_indexes
from omnigraph_core.tables.purge import holds_dropped, stage_purge
from omnigraph_core.tables.stage import stage_append, stage_delete, stage_overwrite, stage_upsert
from omnigraph_core.tables.staged import StagedWrite, StageKind, prepare
from tests.support.graphs import (
    BRANCH,
    LINEAGES,
    MAIN,
    PEOPLE_SCHEMA,
    PERSON,
    ages,
    commit,
    file_tree,
    ids,
    operation,
    people,
    people_table,
    row_ids,
)

pytestmark = pytest.mark.mostly_local

ID = ColumnChange(pa.field("id", pa.string(), nullable=False), "id")
AGE = ColumnChange(pa.field("age", pa.int64()), "age")


def added(name: str, type_: pa.DataType, fill: object = None, *, nullable: bool = True) -> ColumnChange:
    value = None if fill is None else pa.scalar(fill, type_)
    return ColumnChange(pa.field(name, type_, nullable=nullable), None, value)


def kept(old: str, new: str, type_: pa.DataType, *, nullable: bool = True) -> ColumnChange:
    return ColumnChange(pa.field(new, type_, nullable=nullable), old)


def evolved(tables: Tables, table: Table, *wanted: ColumnChange) -> Table:
    for staged in stage_columns(tables.storage, table, [ID, *wanted], operation()):
        table = commit(tables, staged)
    table.lance.validate()
    return table


def column(table: Table, name: str) -> dict[str, object]:
    return {row["id"]: row[name] for row in table.read(["id", name]).to_pylist()}


@pytest.fixture(params=LINEAGES)
def table(request: pytest.FixtureRequest, tables: Tables) -> Table:
    """With deletions, replaced rows and, on branches, files of the parents."""
    return people_table(tables, request.param)


@pytest.mark.remotely
def test_columns_come_go_and_change_names_without_moving_a_row(table: Table, tables: Tables) -> None:
    before, rows, files = ages(table), row_ids(table), set(file_tree(tables.storage))
    vector = pa.list_(pa.field("item", pa.float32()), 4)
    blob = ColumnChange(pa.field("blob", BLOB_STORAGE, metadata=BLOB_METADATA), None)
    wide = evolved(tables, table, kept("age", "years", pa.int64()), added("vector", vector), blob)
    assert wide.version == table.version + 1
    assert column(wide, "years") == before
    assert set(column(wide, "vector").values()) == {None}
    assert row_ids(wide) == rows
    assert not [path for path in set(file_tree(tables.storage)) - files if "/data/" in path]
    narrow = evolved(tables, wide, kept("years", "age", pa.int64()))
    assert (narrow.schema.names, ages(narrow)) == (["id", "age"], before)
    assert row_ids(narrow) == rows


DEFAULTS = [
    (pa.string(), "it's `so`", "it's `so`"),
    (pa.bool_(), False, False),
    (pa.int32(), -5, -5),
    (pa.uint64(), 2**64 - 1, 2**64 - 1),
    (pa.float32(), 0.1, pa.scalar(0.1, pa.float32()).as_py()),
    (pa.float64(), 1e-300, 1e-300),
    (pa.date32(), date(1, 1, 1), date(1, 1, 1)),
    (pa.date64(), date(9999, 12, 31), date(9999, 12, 31)),
]


@pytest.mark.parametrize(("type_", "given", "expected"), DEFAULTS, ids=lambda each: str(each))
def test_a_new_column_is_filled(type_: pa.DataType, given: object, expected: object, tables: Tables) -> None:
    table = people_table(tables, BRANCH)
    filled = evolved(tables, table, AGE, added("order", type_, given, nullable=False))
    assert set(column(filled, "order").values()) == {expected}
    assert ages(filled) == ages(table)


@pytest.mark.remotely
def test_one_value_for_all_rows_is_written_once_and_copied(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lance leaves deleted rows without it: their fragment is no model for others of its size."""
    table = create_table(tables, PERSON, PEOPLE_SCHEMA, operation(), people({"ann": 1, "bob": 2}))
    for names in (("cid", "dan"), ("eva", "fay"), ("gus",)):
        rows = people(dict.fromkeys(names, 5))
        table = commit(tables, stage_append(tables.storage, table, rows, operation()))
    table = commit(tables, stage_delete(tables.storage, table, operation(), ids=ids("ann")))
    computed, merge_columns = [], LanceFragment.merge_columns

    def counting(fragment: LanceFragment, *given: object) -> object:
        computed.append(fragment.fragment_id)
        return merge_columns(fragment, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(LanceFragment, "merge_columns", counting)
    files = set(file_tree(tables.storage))
    told: list[str] = []
    wanted = [ID, AGE, added("mood", pa.string(), "fine", nullable=False)]
    (staged,) = stage_columns(tables.storage, table, wanted, operation(), told.extend)
    new = {path for path in set(file_tree(tables.storage)) - files if "/data/" in path}
    assert new == {file.path for file in staged.files} == set(told)
    filled = commit(tables, staged)
    filled.lance.validate()
    assert (computed, len(new)) == ([1, 3], 4)
    assert column(filled, "mood") == dict.fromkeys(["bob", "cid", "dan", "eva", "fay", "gus"], "fine")
    assert filled.count_rows("mood = 'fine'") == 6


WIDENED = [
    (pa.int32(), pa.int64(), [2**31 - 1, None, -(2**31)]),
    (pa.int32(), pa.float64(), [2**31 - 1, None, -1]),
    (pa.uint32(), pa.uint64(), [2**32 - 1, None, 0]),
    (pa.float32(), pa.float64(), [0.5, None, -0.0]),
    (pa.date32(), pa.date64(), [date(1970, 1, 2), None, date(1, 1, 1)]),
    (pa.list_(pa.field("item", pa.int32())), pa.list_(pa.field("item", pa.int64())), [[1, None], None, []]),
]


@pytest.mark.parametrize(("old", "new", "values"), WIDENED, ids=lambda each: str(each))
def test_a_column_is_widened(
    old: pa.DataType, new: pa.DataType, values: list[object], tables: Tables
) -> None:
    table = evolved(tables, people_table(tables), added("fromX", old))
    rows = pa.table([["a", "b", "c"], pa.array(values, old)], schema=table.schema)
    table = commit(tables, stage_overwrite(tables.storage, table, rows, operation()))
    wide = evolved(tables, table, kept("fromX", "fromX", new))
    assert list(column(wide, "fromX").values()) == pa.array(values, old).cast(new).to_pylist()


@pytest.mark.remotely
def test_names_are_handed_on_in_two_transactions(table: Table, tables: Tables) -> None:
    """While one column is widened and another takes its name; swapped ones, too."""
    before = ages(table)
    table = evolved(tables, table, AGE, added("b", pa.int32(), 2), added("c", pa.string(), "c"))
    changes = kept("b", "c", pa.int64()), kept("c", "age", pa.string()), added("b", pa.string(), "new")
    staged = stage_columns(tables.storage, table, [ID, kept("age", "x", pa.int64()), *changes], operation())
    assert len(staged) == 2
    for write in staged:
        table = commit(tables, write)
    assert column(table, "x") == before
    assert {name: set(column(table, name).values()) for name in ("age", "b", "c")} == {
        "age": {"c"},
        "b": {"new"},
        "c": {2},
    }
    swapped = evolved(tables, table, kept("b", "age", pa.string()), kept("age", "b", pa.string()))
    assert set(column(swapped, "age").values()) == {"new"}


def test_required_and_back(table: Table, tables: Tables) -> None:
    filled = evolved(tables, table, AGE, added("b", pa.int32(), 2))
    required = evolved(tables, filled, AGE, kept("b", "b", pa.int32(), nullable=False))
    assert required.version == filled.version + 1
    assert not required.schema.field("b").nullable
    relaxed = evolved(tables, required, AGE, kept("b", "b", pa.int32()), added("c", pa.int32(), 3))
    assert relaxed.schema.field("b").nullable
    assert set(column(relaxed, "c").values()) == {3}


def test_a_required_column_without_values_needs_an_empty_table(tables: Tables) -> None:
    table = people_table(tables)
    wanted = added("b", pa.int32(), nullable=False)
    with pytest.raises((InternalError, StorageError)):
        evolved(tables, table, AGE, wanted)
    empty = commit(tables, stage_overwrite(tables.storage, table, people({}), operation()))
    assert evolved(tables, empty, AGE, wanted).schema.names == ["id", "age", "b"]


def test_the_files_of_a_change_are_the_new_ones_and_go_when_it_fails(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the table would be deleted with an abandoned plan."""
    table = people_table(tables, BRANCH)
    before = file_tree(tables.storage)
    (staged,) = stage_columns(tables.storage, table, [ID, AGE, added("b", pa.int32(), 1)], operation())
    assert staged.files
    assert not {file.path for file in staged.files} & set(before)
    assert len(staged.files) == len(table.fragment_rows())
    seen = file_tree(tables.storage)
    monkeypatch.setattr(evolve, "_faults", lambda *given: ["it rains"])
    with pytest.raises(InternalError, match="it rains"):
        stage_columns(tables.storage, table, [ID, AGE, added("c", pa.int32(), 1)], operation())
    assert {path for path in file_tree(tables.storage) if "/data/" in path} == {
        path for path in seen if "/data/" in path
    }


def test_restoring_brings_columns_and_indexes_back(table: Table, tables: Tables) -> None:
    spec = IndexSpec("age", IndexKind.BTREE)
    table = commit(tables, stage_indexes(tables.storage, table, operation(), build=[spec]))
    before, rows = ages(table), row_ids(table)
    dropped = evolved(tables, table, added("b", pa.int32(), 1))
    assert list_indexes(dropped) == {}
    back = commit(tables, stage_restore(dropped, table.version, operation(), undoes="x"))
    assert (ages(back), row_ids(back), back.schema) == (before, rows, table.schema)
    assert list(list_indexes(back)) == list(list_indexes(table))


def test_dropped_values_leave_the_newest_files(table: Table, tables: Tables) -> None:
    storage, rows = tables.storage, row_ids(table)
    filled = evolved(tables, table, AGE, added("b", pa.string(), "precious"))
    dropped = evolved(tables, filled, kept("b", "c", pa.string()))
    assert holds_dropped(dropped)
    for write in stage_purge(storage, dropped, operation()):
        dropped = commit(tables, write)
    assert not holds_dropped(dropped)
    assert stage_purge(storage, dropped, operation()) == []
    assert row_ids(dropped) == rows
    assert set(column(dropped, "c").values()) == {"precious"}


# ---- Lance's own rules, which ours stand on ----


def merged(table: Table, columns: list[StoredColumn], *, pruned: bool = True) -> StagedWrite:
    fragments = [fragment.metadata for fragment in table.lance.get_fragments()]
    live = {id_ for each in columns for id_ in each.ids}
    if pruned:
        fragments = [
            replace(each, files=[file for file in each.files if live & set(file.fields)])
            for each in fragments
        ]
    change = LanceOperation.Merge(fragments, lance_schema(table, columns))
    return prepare(table.ref, StageKind.COLUMNS, table.version, change, operation())


def projected(table: Table, columns: list[StoredColumn]) -> StagedWrite:
    change = LanceOperation.Project(lance_schema(table, columns))
    return prepare(table.ref, StageKind.COLUMNS, table.version, change, operation())


def stored(table: Table) -> tuple[StoredColumn, StoredColumn]:
    found = stored_columns(table.lance.lance_schema)
    return found["id"], found["age"]


REFUSED_BY_MERGE: dict[str, Callable[[StoredColumn, StoredColumn], list[StoredColumn]]] = {
    "another type": lambda key, age: [key, new_column(pa.field("age", pa.string()), age.ids[0])],
    "required": lambda key, age: [key, age.called("age", nullable=False)],
    "an id that was used": lambda key, age: [key, age, new_column(pa.field("b", pa.string()), 0)],
    "a name of another": lambda key, age: [key, new_column(pa.field("age", pa.int64()), 9)],
    "a name handed on": lambda key, age: [age.called("id", nullable=True)],
}


@pytest.mark.parametrize("name", REFUSED_BY_MERGE)
def test_merge_refuses(name: str, tables: Tables) -> None:
    table = people_table(tables)
    with pytest.raises(StorageError):
        commit(tables, merged(table, REFUSED_BY_MERGE[name](*stored(table))))
    assert tables.open(PERSON).version == table.version


def test_merge_refuses_a_missing_fragment(tables: Tables) -> None:
    table = people_table(tables)
    staged = merged(table, list(stored(table)))
    change = LanceOperation.Merge(
        staged.transaction.operation.fragments[1:], staged.transaction.operation.schema
    )
    with pytest.raises(StorageError):
        commit(tables, prepare(PERSON, StageKind.COLUMNS, table.version, change, operation()))


def test_project_checks_nothing_and_the_preview_does(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """The id of a dropped column shows its values under another name; we look before we commit."""
    table = people_table(tables)
    key, age = stored(table)
    taken = new_column(pa.field("b", pa.int64()), age.ids[0])
    shown = commit(tables, projected(table, [key, taken]))
    assert column(shown, "b") == ages(table)
    wrong = projected(shown, [key, new_column(pa.field("c", pa.int64()), age.ids[0])])
    monkeypatch.setattr(evolve, "_writes", lambda *given: iter([wrong]))
    with pytest.raises(InternalError, match="dropped"):
        stage_columns(tables.storage, shown, [ID, added("c", pa.int64())], operation())


def test_a_file_of_its_own_must_go_with_its_column(tables: Tables) -> None:
    table = evolved(tables, people_table(tables), AGE, added("b", pa.int32(), 1))
    corrupt = commit(tables, merged(table, list(stored(table)), pruned=False))
    with pytest.raises(OSError, match=r"(?i)corrupt|no fields|field"):
        corrupt.lance.validate()


WRITERS: dict[str, Callable[[Storage, Table], StagedWrite]] = {
    "append": lambda storage, table: stage_append(storage, table, people({"new": 1}), operation()),
    "upsert": lambda storage, table: stage_upsert(storage, table, people({"ann": 9}), operation()),
    "delete": lambda storage, table: stage_delete(storage, table, operation(), ids=ids("ann")),
    "overwrite": lambda storage, table: stage_overwrite(storage, table, people({"new": 1}), operation()),
}


def commit_late(tables: Tables, staged: StagedWrite) -> None:
    """As a writer does that looked at HEAD, slept, and commits."""
    base = tables.open(staged.ref, staged.read_version)
    LanceDataset.commit(base.lance, staged.transaction, max_retries=0)


@pytest.mark.parametrize("lineage", [MAIN, BRANCH])
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("first", ["the columns", "the rows"])
def test_merge_and_a_writer_of_rows_keep_each_other_out(
    first: str, writer: str, lineage: str, tables: Tables
) -> None:
    """Even if each has looked at HEAD before the other moved it. A lock is lost while one sleeps."""
    table = people_table(tables, lineage)
    rows = WRITERS[writer](tables.storage, table)
    (columns,) = stage_columns(tables.storage, table, [ID, AGE, added("b", pa.int32())], operation())
    early, late = (columns, rows) if first == "the columns" else (rows, columns)
    commit(tables, early)
    with pytest.raises((HeadMoved, CommitLost)):
        commit(tables, late)
    with pytest.raises(OSError, match=r"(?i)conflict|incompatible|concurrent"):
        commit_late(tables, late)


def test_a_restore_keeps_a_paused_change_out(table: Table, tables: Tables) -> None:
    (columns,) = stage_columns(tables.storage, table, [ID, AGE, added("b", pa.int32())], operation())
    commit(tables, stage_restore(table, table.version, operation(), undoes="x"))
    with pytest.raises(OSError, match=r"(?i)conflict|incompatible|concurrent"):
        commit_late(tables, columns)


def test_the_same_change_does_not_land_twice(table: Table, tables: Tables) -> None:
    (columns,) = stage_columns(tables.storage, table, [ID, AGE, added("b", pa.int32())], operation())
    commit(tables, columns)
    with pytest.raises(OSError, match=r"(?i)conflict|incompatible|concurrent"):
        commit_late(tables, columns)
