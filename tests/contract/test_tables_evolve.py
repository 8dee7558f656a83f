"""Changes of columns: what we stage, and what Lance itself refuses, accepts, and would accept wrongly."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from lance.fragment import LanceFragment

from omnigraph_core.errors import InternalError, StorageError
from omnigraph_core.schema.arrow import BLOB_METADATA, BLOB_STORAGE
from omnigraph_core.tables import evolve
from omnigraph_core.tables.commit import stage_restore
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.evolve import ColumnChange, stage_columns
from omnigraph_core.tables.indexes import IndexKind, IndexSpec, list_indexes, stage_indexes
from omnigraph_core.tables.limits import CAST_ROWS
from omnigraph_core.tables.purge import holds_dropped, stage_purge
from omnigraph_core.tables.stage import stage_append, stage_delete, stage_overwrite
from tests.support.graphs import (
    BRANCH,
    LINEAGES,
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

    def counting(fragment: LanceFragment, *given: Any, **options: Any) -> object:
        computed.append(fragment.fragment_id)
        return merge_columns(fragment, *given, **options)

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


def test_a_column_of_many_rows_is_widened_beside_deleted_ones(tables: Tables) -> None:
    """They are computed in batches, and a deleted row takes no place in a batch but one in the file."""
    table = evolved(tables, people_table(tables), AGE, added("number", pa.int32()))
    numbers = range(2 * CAST_ROWS + 100)
    names = pa.array([f"n{number:05}" for number in numbers])
    rows = pa.table([names, [7] * len(numbers), pa.array(numbers, pa.int32())], schema=table.schema)
    table = commit(tables, stage_overwrite(tables.storage, table, rows, operation()))
    gone = {number for number in numbers if number % 3 == 0 or CAST_ROWS - 5 < number < CAST_ROWS + 5}
    table = commit(
        tables,
        stage_delete(tables.storage, table, operation(), ids=ids(*(f"n{number:05}" for number in gone))),
    )
    wide = evolved(tables, table, AGE, kept("number", "number", pa.int64()))
    assert column(wide, "number") == {f"n{number:05}": number for number in numbers if number not in gone}


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
