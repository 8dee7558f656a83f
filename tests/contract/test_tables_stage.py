"""Every `stage_*`, on main, on a branch and on a branch of a branch: nothing moves by staging,
committing moves HEAD by exactly one, and the files are accounted for to the byte."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from omnigraph_core.storage import Storage
from omnigraph_core.tables.branches import create_fork
from omnigraph_core.tables.commit import (
    find_operation,
    stage_restore,
    transaction_properties,
    unguarded,
)
from omnigraph_core.tables.control_rewrite import stage_control_rewrite
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import HeadMoved
from omnigraph_core.tables.metadata import field_metadata, schema_metadata, stage_metadata
from omnigraph_core.tables.stage import (
    stage_append,
    stage_delete,
    stage_overwrite,
    stage_upsert,
)
from omnigraph_core.tables.staged import (
    KIND_PROPERTY,
    OPERATION_PROPERTY,
    UNDOES_PROPERTY,
    StagedFileMissing,
    StagedWrite,
    discard_files,
    verify_files,
)
from tests.support.graphs import (
    BRANCH,
    BRANCH_OF_BRANCH,
    LINEAGES,
    MAIN,
    PERSON,
    People,
    ages,
    commit,
    file_tree,
    ids,
    operation,
    people,
    people_table,
    row_ids,
    write_raw,
)

Stage = Callable[[Storage, Table, str], StagedWrite]


@dataclass(frozen=True)
class Case:
    """One way to stage, what it makes of the people, and the counts it must report."""

    stage: Stage
    after: Callable[[People], People]
    counts: Callable[[People], tuple[int, int, int]]
    keeps_row_ids: bool = True


def without(before: People, *names: str) -> People:
    return {name: age for name, age in before.items() if name not in names}


def rewrite_all(storage: Storage, table: Table, op: str) -> StagedWrite:
    return stage_control_rewrite(storage, table, list(table.fragment_rows()), op)


CASES = {
    "append": Case(
        lambda s, t, op: stage_append(s, t, people({"new": 1, "newer": None}), op),
        lambda before: {**before, "new": 1, "newer": None},
        lambda before: (2, 0, 0),
    ),
    "append nothing": Case(
        lambda s, t, op: stage_append(s, t, people({}), op),
        lambda before: before,
        lambda before: (0, 0, 0),
    ),
    "upsert": Case(
        lambda s, t, op: stage_upsert(s, t, people({"new": 1, "hal": 80, "ann": 10, "eva": 55}), op),
        lambda before: {**before, "new": 1, "hal": 80, "ann": 10, "eva": 55},
        lambda before: (1, 3, 0),
    ),
    "upsert of everybody": Case(
        lambda s, t, op: stage_upsert(s, t, people(dict.fromkeys(ages(t), 0)), op),
        lambda before: dict.fromkeys(before, 0),
        lambda before: (0, len(before), 0),
    ),
    "upsert of new ones": Case(
        lambda s, t, op: stage_upsert(s, t, people({"new": 1}), op),
        lambda before: {**before, "new": 1},
        lambda before: (1, 0, 0),
    ),
    "upsert and removal": Case(
        lambda s, t, op: stage_upsert(
            s, t, people({"new": 1, "hal": 80}), op, removed=ids("ann", "nobody", "eva")
        ),
        lambda before: {**without(before, "ann", "eva"), "new": 1, "hal": 80},
        lambda before: (1, 1, 2),
    ),
    "removal of everybody else": Case(
        lambda s, t, op: stage_upsert(s, t, people({"new": 1}), op, removed=ids(*ages(t))),
        lambda before: {"new": 1},
        lambda before: (1, 0, len(before)),
    ),
    "removal alone": Case(
        lambda s, t, op: stage_upsert(s, t, people({}), op, removed=ids("ann", "ann", "hal", "nobody")),
        lambda before: without(before, "ann", "hal"),
        lambda before: (0, 0, 2),
    ),
    "overwrite": Case(
        lambda s, t, op: stage_overwrite(s, t, people({"ann": 7, "new": 8}), op),
        lambda before: {"ann": 7, "new": 8},
        lambda before: (2, 0, len(before)),
        keeps_row_ids=False,
    ),
    "overwrite with nothing": Case(
        lambda s, t, op: stage_overwrite(s, t, people({}), op),
        lambda before: {},
        lambda before: (0, 0, len(before)),
        keeps_row_ids=False,
    ),
    "delete by predicate": Case(
        lambda s, t, op: stage_delete(s, t, op, where="age >= 6 AND age < 30"),
        lambda before: {name: age for name, age in before.items() if not 6 <= (age or 0) < 30},
        lambda before: (0, 0, sum(6 <= (age or 0) < 30 for age in before.values())),
    ),
    "delete by ids": Case(
        lambda s, t, op: stage_delete(s, t, op, ids=ids("ann", "hal", "nobody")),
        lambda before: without(before, "ann", "hal"),
        lambda before: (0, 0, 2),
    ),
    "delete of everybody": Case(
        lambda s, t, op: stage_delete(s, t, op, where="true"),
        lambda before: {},
        lambda before: (0, 0, len(before)),
    ),
    "delete of nobody": Case(
        lambda s, t, op: stage_delete(s, t, op, ids=ids("nobody")),
        lambda before: before,
        lambda before: (0, 0, 0),
    ),
    "control rewrite": Case(rewrite_all, lambda before: before, lambda before: (0, 0, 0)),
    "metadata": Case(
        lambda s, t, op: stage_metadata(t, op, config={"k": "v"}, schema={"s": "1"}),
        lambda before: before,
        lambda before: (0, 0, 0),
    ),
}
RESTORE = "restore"
WITH_FILES = (
    "append", "upsert", "upsert and removal", "overwrite", "delete by predicate", "delete by ids",
    "control rewrite",
)  # fmt: skip

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@pytest.fixture(params=LINEAGES)
def table(request: pytest.FixtureRequest, tables: Tables) -> Table:
    return people_table(tables, request.param)


def validate(table: Table) -> None:
    """Lance's own check of files, fragments and row ids."""
    table.lance.validate()


@every_case
def test_staging_writes_exactly_the_named_files_and_moves_nothing(
    case: Case, table: Table, tables: Tables, storage: Storage
) -> None:
    before, content = file_tree(storage), ages(table)
    staged = case.stage(storage, table, operation())
    after = file_tree(storage)
    assert {path: after.get(path) for path in before} == before
    assert sorted(file.path for file in staged.files) == sorted(after.keys() - before.keys())
    assert {file.path: file.size for file in staged.files} == {
        file.path: storage.control.size(file.path) for file in staged.files
    }
    assert tables.open(table.ref).version == table.version == staged.read_version
    assert ages(tables.open(table.ref)) == content
    verify_files(storage, staged)


@every_case
def test_committing_moves_head_by_one_and_keeps_row_ids(
    case: Case, table: Table, tables: Tables, storage: Storage
) -> None:
    content, known_row_ids = ages(table), row_ids(table)
    expected = case.after(dict(content))
    staged = case.stage(storage, table, operation())
    landed = commit(tables, staged)
    assert landed.version == table.version + 1
    fresh = Tables(storage).open(table.ref)
    assert fresh.version == table.version + 1
    assert ages(landed) == ages(fresh) == expected
    assert (staged.rows_inserted, staged.rows_updated, staged.rows_deleted) == case.counts(content)
    kept = {name: row_id for name, row_id in known_row_ids.items() if name in expected}
    found = row_ids(fresh)
    if case.keeps_row_ids:
        assert {name: found[name] for name in kept} == kept
    new = [row_id for name, row_id in found.items() if not case.keeps_row_ids or name not in kept]
    assert not set(new) & set(known_row_ids.values())
    assert len(set(found.values())) == len(found)
    assert fresh.lance.has_stable_row_ids
    assert fresh.schema == table.schema
    validate(fresh)
    assert ages(tables.open(table.ref, table.version)) == content


@every_case
def test_a_commit_in_between_is_refused(case: Case, table: Table, tables: Tables, storage: Storage) -> None:
    staged = case.stage(storage, table, operation())
    other = commit(tables, stage_append(storage, table, people({"zoe": 9}), operation()))
    with pytest.raises(HeadMoved) as caught:
        commit(tables, staged)
    assert caught.value.retryable
    assert caught.value.details() == {
        "table_key": PERSON.key,
        "expected": table.version,
        "actual": table.version + 1,
    }
    assert tables.open(table.ref).version == other.version
    assert ages(tables.open(table.ref)) == ages(other)


@every_case
def test_the_transaction_proves_its_operation(
    case: Case, table: Table, tables: Tables, storage: Storage
) -> None:
    op = operation()
    staged = case.stage(storage, table, op)
    assert find_operation(tables.open(table.ref), op, since=table.version - 1) is None
    landed = commit(tables, staged)
    later = commit(tables, stage_append(storage, landed, people({"later": 1}), operation()))
    assert find_operation(later, op, since=table.version) == landed.version
    assert find_operation(later, op, since=landed.version) is None
    assert find_operation(later, "somebody else's", since=table.version) is None
    assert later.transaction(landed.version).uuid == staged.transaction_uuid
    properties = transaction_properties(later, landed.version)
    assert properties[OPERATION_PROPERTY] == op
    assert properties[KIND_PROPERTY] == staged.kind.value


@every_case
def test_discarding_leaves_the_files_as_they_were(case: Case, table: Table, storage: Storage) -> None:
    before = file_tree(storage)
    discard_files(storage, [case.stage(storage, table, operation())])
    assert file_tree(storage) == before
    validate(table)


@pytest.mark.parametrize("name", WITH_FILES)
@pytest.mark.parametrize("damage", ["missing", "short"])
def test_a_damaged_staged_file_is_noticed(name: str, damage: str, table: Table, storage: Storage) -> None:
    staged = CASES[name].stage(storage, table, operation())
    assert staged.files
    for file in staged.files:
        found = storage.control.get(file.path)
        assert found is not None
        storage.control.delete(file.path)
        if damage == "short":
            write_raw(storage, file.path, found.data[:-1])
        with pytest.raises(StagedFileMissing) as caught:
            verify_files(storage, staged)
        assert caught.value.details() == {"table_key": PERSON.key, "path": file.path}
        write_raw(storage, file.path, found.data)
    verify_files(storage, staged)


@every_case
@pytest.mark.parametrize("lineage", [BRANCH, BRANCH_OF_BRANCH])
def test_a_branch_never_touches_its_parents(
    case: Case, lineage: str, tables: Tables, storage: Storage
) -> None:
    table = people_table(tables, lineage)
    inside = table.ref.directory + "/"
    before = {path: text for path, text in file_tree(storage).items() if not path.startswith(inside)}
    commit(tables, case.stage(storage, table, operation()))
    after = {path: text for path, text in file_tree(storage).items() if not path.startswith(inside)}
    assert after == before


# ---- restore: the content is that of a version, so it has tests of its own ----


def test_restore_brings_back_a_version_as_a_new_one(table: Table, tables: Tables, storage: Storage) -> None:
    content, known_row_ids = ages(table), row_ids(table)
    broken = commit(tables, stage_overwrite(storage, table, people({"x": 1}), operation()))
    broken = commit(tables, stage_append(storage, broken, people({"y": 1}), operation()))
    before, op = file_tree(storage), operation()
    staged = stage_restore(broken, table.version, op, undoes="the-bad-one")
    assert file_tree(storage) == before
    assert staged.files == ()
    landed = commit(tables, staged)
    assert landed.version == broken.version + 1
    assert ages(landed) == content
    assert row_ids(landed) == known_row_ids
    assert find_operation(landed, op, since=broken.version) == landed.version
    assert transaction_properties(landed, landed.version)[UNDOES_PROPERTY] == "the-bad-one"
    validate(landed)


def test_row_ids_are_not_handed_out_twice_after_a_restore(
    table: Table, tables: Tables, storage: Storage
) -> None:
    added = commit(tables, stage_append(storage, table, people({"x": 1}), operation()))
    restored = commit(tables, stage_restore(added, table.version, operation(), undoes="it"))
    again = commit(tables, stage_append(storage, restored, people({"y": 1}), operation()))
    assert row_ids(again)["y"] != row_ids(added)["x"]
    assert len(set(row_ids(again).values())) == len(row_ids(again))


def test_a_restore_that_has_not_seen_a_commit_is_refused(
    table: Table, tables: Tables, storage: Storage
) -> None:
    staged = stage_restore(table, table.version - 1, operation(), undoes="it")
    acknowledged = commit(tables, stage_append(storage, table, people({"zoe": 9}), operation()))
    with pytest.raises(HeadMoved):
        commit(tables, staged)
    assert ages(tables.open(table.ref)) == ages(acknowledged)


# ---- metadata ----


def test_metadata_of_dataset_schema_and_field_changes_in_one_version(table: Table, tables: Tables) -> None:
    first = commit(tables, stage_metadata(table, operation(), schema={"a": "1", "b": "2"}))
    staged = stage_metadata(
        first, operation(), config={"owner": "us"}, schema={"b": "3"}, field=("age", {"unit": "years"})
    )
    second = commit(tables, staged)
    assert second.version == table.version + 2
    assert schema_metadata(second) == {"a": "1", "b": "3"}
    assert field_metadata(second, "age") == {"unit": "years"}
    assert field_metadata(second, "id") == {}
    assert second.lance.config()["owner"] == "us"
    assert schema_metadata(tables.open(table.ref, table.version)) == {}


# ---- control rewrite ----


def test_a_control_rewrite_of_some_fragments_leaves_the_others(
    table: Table, tables: Tables, storage: Storage
) -> None:
    fragments = list(table.fragment_rows())
    assert len(fragments) >= 3
    known_row_ids, content = row_ids(table), ages(table)
    landed = commit(tables, stage_control_rewrite(storage, table, fragments[1:], operation()))
    assert set(landed.fragment_rows()) & set(fragments) == {fragments[0]}
    assert len(landed.fragment_rows()) == 2
    assert row_ids(landed) == known_row_ids
    assert ages(landed) == content


def test_a_table_can_be_forked_after_every_kind_of_write(tables: Tables, storage: Storage) -> None:
    table = people_table(tables, MAIN)
    for number, case in enumerate(CASES.values()):
        if set(ages(table)) >= {"ann", "hal", "eva"} and "new" not in ages(table):
            table = commit(tables, case.stage(storage, table, operation()))
        fork = create_fork(tables, PERSON, f"b{number}", table.version, unguarded)
        assert (fork.version, ages(fork), row_ids(fork)) == (table.version, ages(table), row_ids(table))
        table = commit(
            tables, stage_overwrite(storage, table, people({"ann": 1, "hal": 2, "eva": 3}), operation())
        )
