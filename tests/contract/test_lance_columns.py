"""What Lance itself does with changes of columns: what it refuses, accepts, and accepts wrongly.

Ours stand on these facts, so a Lance that behaves otherwise must be noticed here. Where it accepts
what is wrong, our look at the result before any commit is shown to refuse it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa
import pytest
from lance import LanceDataset
from lance.dataset import LanceOperation

from omnigraph_core.errors import InternalError, StorageError
from omnigraph_core.storage import Storage
from omnigraph_core.tables import evolve
from omnigraph_core.tables.columns import StoredColumn, lance_schema, new_column, stored_columns
from omnigraph_core.tables.commit import stage_restore
from omnigraph_core.tables.compaction import IndexWork, stage_compaction
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.evolve import ColumnChange, stage_columns
from omnigraph_core.tables.failures import CommitLost, HeadMoved
from omnigraph_core.tables.indexes import IndexKind, IndexSpec, find_index, list_indexes, stage_indexes
from omnigraph_core.tables.purge import stage_purge
from omnigraph_core.tables.stage import stage_append, stage_delete, stage_overwrite, stage_upsert
from omnigraph_core.tables.staged import StagedWrite, StageKind, prepare
from tests.support.graphs import BRANCH, MAIN, PERSON, ages, commit, ids, operation, people, people_table

pytestmark = pytest.mark.mostly_local

ID = ColumnChange(pa.field("id", pa.string(), nullable=False), "id")
AGE = ColumnChange(pa.field("age", pa.int64()), "age")
B = ColumnChange(pa.field("b", pa.int64()), None)
CONFLICT = r"(?i)conflict|incompatible|concurrent"

Columns = Callable[[StoredColumn, StoredColumn], list[StoredColumn]]


def merged(
    table: Table, columns: list[StoredColumn], *, pruned: bool = True, preserves: bool = False
) -> StagedWrite:
    fragments = [fragment.metadata for fragment in table.lance.get_fragments()]
    live = {id_ for each in columns for id_ in each.ids}
    if pruned:
        fragments = [
            replace(each, files=[file for file in each.files if live & set(file.fields)])
            for each in fragments
        ]
    change = LanceOperation.Merge(fragments, lance_schema(table, columns), preserves)
    return prepare(table.ref, StageKind.COLUMNS, table.version, change, operation())


def projected(table: Table, columns: list[StoredColumn], *, preserves: bool = False) -> StagedWrite:
    change = LanceOperation.Project(lance_schema(table, columns), preserves)
    return prepare(table.ref, StageKind.COLUMNS, table.version, change, operation())


def stored(table: Table) -> tuple[StoredColumn, StoredColumn]:
    found = stored_columns(table.lance.lance_schema)
    return found["id"], found["age"]


def column(table: Table, name: str) -> dict[str, object]:
    return {row["id"]: row[name] for row in table.read(["id", name]).to_pylist()}


def evolved(tables: Tables, table: Table, *wanted: ColumnChange) -> Table:
    for staged in stage_columns(tables.storage, table, [ID, *wanted], operation()):
        table = commit(tables, staged)
    return table


def commit_late(tables: Tables, staged: StagedWrite) -> None:
    """As a writer does that looked at HEAD, slept, and commits."""
    base = tables.open(staged.ref, staged.read_version)
    LanceDataset.commit(base.lance, staged.transaction, max_retries=0)


# ---- what it refuses ----

REFUSED_BY_MERGE: dict[str, Columns] = {
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


# ---- what it accepts and we do not ----

TEXT, NUMBER = pa.string(), pa.int64()
ACCEPTED: dict[str, tuple[Callable[..., StagedWrite], Columns, list[ColumnChange]]] = {
    "merge: required, without values": (
        merged,
        lambda key, age: [key, age, new_column(pa.field("b", NUMBER, nullable=False), 9)],
        [AGE, ColumnChange(pa.field("b", NUMBER, nullable=False), None)],
    ),
    "merge: one id twice": (
        merged,
        lambda key, age: [key, age, age.called("b", nullable=True)],
        [AGE, B],
    ),
    "project: another type": (
        projected,
        lambda key, age: [key, new_column(pa.field("age", TEXT), age.ids[0])],
        [AGE],
    ),
    "project: one id twice": (
        projected,
        lambda key, age: [key, age, age.called("b", nullable=True)],
        [AGE, B],
    ),
    "project: one name twice": (
        projected,
        lambda key, age: [key, age, new_column(pa.field("age", NUMBER), 9)],
        [AGE],
    ),
    "project: an id of another column": (
        projected,
        lambda key, age: [key, age.called("b", nullable=True)],
        [B],
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_lance_accepts_wrongly_is_refused_by_our_look_at_it(
    name: str, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, columns, wanted = ACCEPTED[name]
    table = people_table(tables)
    wrong = make(table, columns(*stored(table)))
    with monkeypatch.context() as patched:
        patched.setattr(evolve, "_writes", lambda *given: iter([wrong]))
        with pytest.raises((InternalError, StorageError)):
            stage_columns(tables.storage, table, [ID, *wanted], operation())
    commit(tables, wrong)
    assert tables.open(PERSON).version == table.version + 1


def test_project_adds_columns(tables: Tables) -> None:
    table = people_table(tables)
    wide = commit(tables, projected(table, [*stored(table), new_column(pa.field("b", NUMBER), 9)]))
    assert set(column(wide, "b").values()) == {None}


def test_project_lets_a_column_with_nulls_be_required(tables: Tables) -> None:
    """Which is why the data is asked first: the nulls can no longer be read, nor counted."""
    table = evolved(tables, people_table(tables), AGE, B)
    assert table.count_rows("b IS NULL") == table.count_rows()
    found = stored_columns(table.lance.lance_schema)
    columns = [found["id"], found["age"], found["b"].called("b", nullable=False)]
    wrong = commit(tables, projected(table, columns))
    assert wrong.count_rows("b IS NULL") == 0
    with pytest.raises((OSError, ValueError, StorageError)):
        wrong.read(["b"])


def test_the_id_of_a_dropped_column_shows_its_values(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    table = people_table(tables)
    key, age = stored(table)
    taken = new_column(pa.field("b", NUMBER), age.ids[0])
    shown = commit(tables, projected(table, [key, taken]))
    assert column(shown, "b") == ages(table)
    wrong = projected(shown, [key, new_column(pa.field("c", NUMBER), age.ids[0])])
    monkeypatch.setattr(evolve, "_writes", lambda *given: iter([wrong]))
    with pytest.raises(InternalError, match="dropped"):
        stage_columns(tables.storage, shown, [ID, ColumnChange(pa.field("c", NUMBER), None)], operation())


def test_a_file_of_its_own_must_go_with_its_column(tables: Tables) -> None:
    filled = ColumnChange(pa.field("b", NUMBER), None, pa.scalar(1, NUMBER))
    table = evolved(tables, people_table(tables), AGE, filled)
    corrupt = commit(tables, merged(table, list(stored(table)), pruned=False))
    with pytest.raises(OSError, match=r"(?i)corrupt|no fields|field"):
        corrupt.lance.validate()


# ---- ids ----


def test_lance_hands_out_an_id_again_and_we_do_not(tables: Tables) -> None:
    """Dropped and rewritten, a column leaves no trace of its id. A writer of its day is kept out by more
    than that: by HEAD, and by Lance itself."""
    table = evolved(tables, people_table(tables), AGE, B)
    (taken,) = stored_columns(table.lance.lance_schema)["b"].ids
    rows = pa.table([["late"], [1], [2]], schema=table.schema)
    late = stage_append(tables.storage, table, rows, operation())
    dropped = evolved(tables, table, AGE)
    for write in stage_purge(tables.storage, dropped, operation()):
        dropped = commit(tables, write)
    twin = LanceDataset.commit("memory://twin", LanceOperation.Overwrite(dropped.lance.lance_schema, []))
    twin.add_columns(pa.field("c", NUMBER))
    assert {field.name(): field.id() for field in twin.lance_schema.fields()}["c"] == taken
    again = evolved(tables, dropped, AGE, ColumnChange(pa.field("c", NUMBER), None))
    assert min(stored_columns(again.lance.lance_schema)["c"].ids) > taken
    with pytest.raises((HeadMoved, CommitLost)):
        commit(tables, late)
    with pytest.raises(OSError, match=CONFLICT):
        commit_late(tables, late)


def test_an_index_of_a_column_that_was_dropped_meanwhile_serves_no_other(tables: Tables) -> None:
    """Lance lets it land. It stays listed, and is nobody's: no column ever gets that id again."""
    table = people_table(tables)
    spec = IndexSpec("age", IndexKind.BTREE)
    late = stage_indexes(tables.storage, table, operation(), build=[spec])
    evolved(tables, table)
    with pytest.raises((HeadMoved, CommitLost)):
        commit(tables, late)
    commit_late(tables, late)
    stale = tables.open(PERSON)
    assert [index.column for index in list_indexes(stale).values()] == [None]
    filled = ColumnChange(pa.field("age", NUMBER), None, pa.scalar(7, NUMBER))
    again = evolved(tables, stale, filled)
    assert find_index(again, spec) is None
    assert again.count_rows("age = 7") == again.count_rows() == table.count_rows()
    built = commit(tables, stage_indexes(tables.storage, again, operation(), build=[spec]))
    assert find_index(built, spec) is not None
    assert built.count_rows("age = 7") == table.count_rows()


# ---- two that were staged on one version ----

Writer = Callable[[Storage, Table], StagedWrite]


def _compaction(storage: Storage, table: Table) -> StagedWrite:
    (rewrite,) = stage_compaction(storage, table, lambda shown: IndexWork(), operation(), drops_indexes=False)
    return rewrite


WRITERS: dict[str, Writer] = {
    "append": lambda storage, table: stage_append(storage, table, people({"new": 1}), operation()),
    "upsert": lambda storage, table: stage_upsert(storage, table, people({"ann": 9}), operation()),
    "delete": lambda storage, table: stage_delete(storage, table, operation(), ids=ids("ann")),
    "overwrite": lambda storage, table: stage_overwrite(storage, table, people({"new": 1}), operation()),
    "compaction": _compaction,
    "index": lambda storage, table: stage_indexes(
        storage, table, operation(), build=[IndexSpec("id", IndexKind.BTREE)]
    ),
}


def _wide(table: Table) -> list[StoredColumn]:
    return [*stored(table), new_column(pa.field("b", NUMBER), 9)]


CHANGES: Mapping[str, Callable[[Table], StagedWrite]] = {
    "merge": lambda table: merged(table, _wide(table)),
    "merge that preserves": lambda table: merged(table, _wide(table), preserves=True),
    "project": lambda table: projected(table, list(stored(table))),
    "project that preserves": lambda table: projected(table, list(stored(table)), preserves=True),
}
# What lands after each of them, although it was staged before. The flag gives the fence away.
LANDS: Mapping[str, set[str]] = {
    "merge": {"index"},
    "merge that preserves": {"index", "append"},
    "project": {"index", "delete", "compaction"},
    "project that preserves": {"index", "delete", "compaction", "append", "upsert"},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("writer", WRITERS)
def test_what_lands_after_a_change_of_columns(change: str, writer: str, tables: Tables) -> None:
    table = people_table(tables)
    late = WRITERS[writer](tables.storage, table)
    commit(tables, CHANGES[change](table))
    if writer in LANDS[change]:
        commit_late(tables, late)
        assert tables.open(PERSON).version == table.version + 2
    else:
        with pytest.raises(OSError, match=CONFLICT):
            commit_late(tables, late)


def test_our_own_changes_keep_the_fence(tables: Tables) -> None:
    """Whatever they are made of: the flag that gives it away is never set."""
    table = evolved(tables, people_table(tables), AGE, ColumnChange(B.field, None, pa.scalar(1, NUMBER)))
    required = ColumnChange(pa.field("b", NUMBER, nullable=False), "b")
    handed_on = [
        ColumnChange(pa.field("b", NUMBER), "age"),
        ColumnChange(pa.field("age", NUMBER), None, pa.scalar(1, NUMBER)),
    ]
    kinds = set()
    for wanted in ([AGE], [AGE, required], handed_on):
        for staged in stage_columns(tables.storage, table, [ID, *wanted], operation()):
            kinds.add(type(staged.transaction.operation).__name__)
            assert not staged.transaction.operation.preserves_nullability
    assert kinds == {"Merge", "Project"}


@pytest.mark.parametrize("lineage", [MAIN, BRANCH])
@pytest.mark.parametrize("writer", [name for name in WRITERS if name != "index"])
@pytest.mark.parametrize("first", ["the columns", "the rows"])
def test_merge_and_a_writer_of_rows_keep_each_other_out(
    first: str, writer: str, lineage: str, tables: Tables
) -> None:
    """Even if each has looked at HEAD before the other moved it. A lock is lost while one sleeps."""
    table = people_table(tables, lineage)
    rows = WRITERS[writer](tables.storage, table)
    (columns,) = stage_columns(tables.storage, table, [ID, AGE, B], operation())
    early, late = (columns, rows) if first == "the columns" else (rows, columns)
    commit(tables, early)
    with pytest.raises((HeadMoved, CommitLost)):
        commit(tables, late)
    with pytest.raises(OSError, match=CONFLICT):
        commit_late(tables, late)


@pytest.mark.parametrize("lineage", [MAIN, BRANCH])
@pytest.mark.parametrize("change", CHANGES)
def test_a_restore_keeps_a_paused_change_out(change: str, lineage: str, tables: Tables) -> None:
    table = people_table(tables, lineage)
    late = CHANGES[change](table)
    commit(tables, stage_restore(table, table.version, operation(), undoes="x"))
    with pytest.raises(OSError, match=CONFLICT):
        commit_late(tables, late)


@pytest.mark.parametrize("lineage", [MAIN, BRANCH])
def test_the_same_change_does_not_land_twice(lineage: str, tables: Tables) -> None:
    table = people_table(tables, lineage)
    (columns,) = stage_columns(tables.storage, table, [ID, AGE, B], operation())
    commit(tables, columns)
    with pytest.raises(OSError, match=CONFLICT):
        commit_late(tables, columns)
