"""`commit_exact`: exactly one version, or a reason that is true."""

from __future__ import annotations

import sys
from collections.abc import Callable

import lance
import pytest
from lance import LanceDataset

from omnigraph_core.errors import ErrorKind, StorageError
from omnigraph_core.storage import Storage
from omnigraph_core.storage.locks import LockLost
from omnigraph_core.tables import commit as commit_module
from omnigraph_core.tables.commit import commit_exact, find_operation, stage_restore
from omnigraph_core.tables.create import TableExists, create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import (
    CommitLost,
    CommitUnknown,
    ForeignCommit,
    HeadMoved,
    TableLost,
    TableNotFound,
)
from omnigraph_core.tables.stage import stage_append, stage_delete, stage_overwrite, stage_upsert
from tests.support import warm
from tests.support.graphs import (
    LINEAGES,
    PEOPLE_SCHEMA,
    PERSON,
    Lying,
    ages,
    commit,
    file_tree,
    ids,
    only_local,
    operation,
    people,
    people_table,
)
from tests.support.processes import clean_environment


@pytest.fixture(params=LINEAGES)
def table(request: pytest.FixtureRequest, tables: Tables) -> Table:
    return people_table(tables, request.param)


@pytest.fixture
def lie(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Lying]:
    """Replace Lance's commit by one that lies about what it did."""

    def install(**how: object) -> Lying:
        lying = Lying(LanceDataset.commit, **how)  # type: ignore[arg-type]
        monkeypatch.setattr(LanceDataset, "commit", lying)
        return lying

    return install


def outsider_commit(storage: Storage, table: Table, **new: int) -> None:
    """Somebody writes to the dataset without OmniGraph."""
    dataset = lance.dataset(table.lance.uri, storage_options=storage.lance_options)
    lance.write_dataset(people(new), dataset, mode="append")


# ---- the guard ----


def test_a_guard_that_raises_keeps_everything_as_it_was(
    table: Table, tables: Tables, storage: Storage
) -> None:
    staged = stage_upsert(storage, table, people({"ann": 9, "new": 1}), operation())
    before = file_tree(storage)

    def lost() -> None:
        raise LockLost("branch.main", "test")

    with pytest.raises(LockLost):
        commit_exact(tables, staged, lost)
    assert file_tree(storage) == before
    assert tables.open(table.ref).version == table.version
    assert commit(tables, staged).version == table.version + 1


def test_the_guard_is_asked_after_head_was_compared(table: Table, tables: Tables, storage: Storage) -> None:
    """What the guard lets happen must still be noticed, so it comes last before the commit."""
    staged = stage_append(storage, table, people({"new": 1}), operation())
    asked: list[int] = []
    commit_exact(tables, staged, lambda: asked.append(table.latest_version()))
    assert asked == [table.version]
    with pytest.raises(HeadMoved):
        commit_exact(tables, staged, lambda: asked.append(-1))
    assert asked == [table.version]


def test_committing_the_same_write_twice_lands_once(table: Table, tables: Tables, storage: Storage) -> None:
    staged = stage_append(storage, table, people({"new": 1}), operation())
    landed = commit(tables, staged)
    with pytest.raises(HeadMoved):
        commit(tables, staged)
    assert ages(tables.open(table.ref)) == ages(landed) == ages(table) | {"new": 1}


# ---- unknown outcomes ----

FAILURES = [OSError("connection reset by peer"), ValueError("strange"), RuntimeError("task panicked")]

any_failure = pytest.mark.parametrize("failure", FAILURES, ids=lambda error: type(error).__name__)


@any_failure
def test_a_commit_whose_answer_was_lost_counts_as_landed(
    failure: Exception, table: Table, tables: Tables, storage: Storage, lie: Callable[..., Lying]
) -> None:
    staged = stage_upsert(storage, table, people({"ann": 9}), operation())
    lie(error=failure, lands=True)
    landed = commit(tables, staged)
    assert landed.version == table.version + 1
    assert landed.transaction(landed.version).uuid == staged.transaction_uuid
    assert ages(landed) == ages(table) | {"ann": 9}


@any_failure
def test_a_commit_that_failed_for_good_is_a_storage_error(
    failure: Exception, table: Table, tables: Tables, storage: Storage, lie: Callable[..., Lying]
) -> None:
    """On S3 nothing is for good while the request may still be on its way."""
    staged = stage_upsert(storage, table, people({"ann": 9}), operation())
    lie(error=failure, lands=False)
    with pytest.raises(StorageError, match=str(failure)) as caught:
        commit(tables, staged)
    assert isinstance(caught.value, CommitUnknown) is not storage.location.is_local
    assert storage.location.is_local or "has not landed, but still may" in str(caught.value)
    assert tables.open(table.ref).version == table.version


@only_local
def test_a_full_disk_is_named(
    table: Table, tables: Tables, storage: Storage, lie: Callable[..., Lying]
) -> None:
    """Only where the disk is ours; a full S3 server answers with a status."""
    staged = stage_append(storage, table, people({"new": 9}), operation())
    lie(error=OSError("LanceError(IO): No space left on device (os error 28), /home/x/y.rs:1"), lands=False)
    with pytest.raises(StorageError, match="no space left on the device") as caught:
        commit(tables, staged)
    assert caught.value.kind is ErrorKind.STORAGE
    assert "rs:1" not in str(caught.value)


def test_the_answer_of_a_server_is_not_repeated(
    table: Table, tables: Tables, storage: Storage, lie: Callable[..., Lying]
) -> None:
    """It may quote what was sent: credentials, too."""
    staged = stage_append(storage, table, people({"new": 9}), operation())
    body = "<Error><Code>InvalidToken</Code><Token-0>our-token</Token-0></Error>"
    lie(error=OSError(f"LanceError(IO): 400 Bad Request: {body}, /home/x/y.rs:1"), lands=False)
    with pytest.raises(StorageError, match=r"400 Bad Request: InvalidToken$") as caught:
        commit(tables, staged)
    assert "our-token" not in str(caught.value)
    assert "rs:1" not in str(caught.value)


def test_a_failed_commit_under_a_foreign_one_is_not_taken_for_ours(
    table: Table, tables: Tables, storage: Storage, lie: Callable[..., Lying]
) -> None:
    staged = stage_append(storage, table, people({"new": 1}), operation())
    lie(error=OSError("timeout"), lands=False, before=lambda: outsider_commit(storage, table, foreign=1))
    with pytest.raises(StorageError, match="timeout"):
        commit(tables, staged)
    assert ages(tables.open(table.ref)) == ages(table) | {"foreign": 1}


def test_when_nobody_can_say_whether_it_landed_the_error_says_so(
    table: Table, tables: Tables, storage: Storage, lie: Callable[..., Lying], monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = stage_append(storage, table, people({"new": 1}), operation())
    lie(error=OSError("timeout"), lands=True)
    monkeypatch.setattr(commit_module, "find_operation", Lying(find_operation, error=OSError("still down")))
    with pytest.raises(CommitUnknown, match="timeout") as caught:
        commit(tables, staged)
    assert caught.value.retryable


def test_a_commit_that_landed_but_cannot_be_read_back_is_not_called_a_failure(
    table: Table, tables: Tables, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain storage error would say that nothing was committed."""
    staged = stage_append(storage, table, people({"new": 1}), operation())
    real = Table.transaction
    monkeypatch.setattr(Table, "transaction", Lying(real, error=StorageError("down"), lands=False))
    with pytest.raises(CommitUnknown, match="down"):
        commit(tables, staged)
    monkeypatch.setattr(Table, "transaction", real)
    assert find_operation(tables.open(table.ref), staged.operation_id, table.version) == table.version + 1


# ---- somebody else writes ----


def test_a_conflict_in_lance_is_a_lost_commit(
    table: Table, tables: Tables, storage: Storage, lie: Callable[..., Lying]
) -> None:
    rival = stage_upsert(storage, table, people({"ann": 1000}), operation())
    staged = stage_upsert(storage, table, people({"ann": 9}), operation())
    lying = lie(before=lambda: commit(tables, rival))
    with pytest.raises(CommitLost) as caught:
        commit(tables, staged)
    assert lying.calls == 2
    assert caught.value.retryable
    assert ages(tables.open(table.ref)) == ages(table) | {"ann": 1000}
    assert tables.open(table.ref).version == table.version + 1


@pytest.mark.once_remotely
@pytest.mark.parametrize("fence", ["overwrite", "restore"])
@pytest.mark.parametrize("late", ["append", "upsert", "delete"])
def test_restore_and_overwrite_keep_a_paused_writer_out(
    fence: str, late: str, table: Table, tables: Tables, storage: Storage, lie: Callable[..., Lying]
) -> None:
    staged = {
        "append": lambda: stage_append(storage, table, people({"new": 9}), operation()),
        "upsert": lambda: stage_upsert(storage, table, people({"ann": 9}), operation()),
        "delete": lambda: stage_delete(storage, table, operation(), ids=ids("ann")),
    }[late]()
    if fence == "restore":
        barrier = stage_restore(table, table.version, operation(), undoes="late")
    else:
        barrier = stage_overwrite(storage, table, people(ages(table)), operation())
    lie(before=lambda: commit(tables, barrier))
    with pytest.raises(CommitLost):
        commit(tables, staged)
    assert ages(tables.open(table.ref)) == ages(table)


def test_landing_on_top_of_an_unseen_commit_is_reported(
    table: Table, tables: Tables, storage: Storage, lie: Callable[..., Lying]
) -> None:
    """Lance rebases an append even without retries; only comparing the version afterwards tells."""
    op = operation()
    staged = stage_append(storage, table, people({"new": 1}), op)
    lie(before=lambda: outsider_commit(storage, table, foreign=1))
    with pytest.raises(ForeignCommit) as caught:
        commit(tables, staged)
    assert caught.value.kind is ErrorKind.INTERNAL
    head = tables.open(table.ref)
    assert ages(head) == ages(table) | {"new": 1, "foreign": 1}
    assert find_operation(head, op, since=table.version) == table.version + 2


def test_another_process_committing_in_between_is_noticed(
    table: Table, tables: Tables, storage: Storage, lie: Callable[..., Lying], environment: dict[str, str]
) -> None:
    program = (
        "import lance, pyarrow as pa, sys\n"
        "dataset = lance.dataset(sys.argv[1])\n"
        "rows = pa.table({'id': ['foreign'], 'age': [1]}).cast(dataset.schema)\n"
        "lance.write_dataset(rows, dataset, mode='append')\n"
    )
    staged = stage_append(storage, table, people({"new": 1}), operation())
    command = [sys.executable, "-c", program, tables.uri(table.ref)]
    child = clean_environment(**environment)
    lie(before=lambda: warm.run(command, env=child, check=True, timeout=240))
    with pytest.raises(ForeignCommit):
        commit(tables, staged)
    assert ages(tables.open(table.ref)) == ages(table) | {"new": 1, "foreign": 1}


def test_a_lost_answer_on_top_of_an_unseen_commit_is_reported_too(
    table: Table, tables: Tables, storage: Storage, lie: Callable[..., Lying]
) -> None:
    staged = stage_append(storage, table, people({"new": 1}), operation())
    lie(error=OSError("timeout"), before=lambda: outsider_commit(storage, table, foreign=1), times=1)
    with pytest.raises(ForeignCommit):
        commit(tables, staged)


def test_operations_are_found_beyond_a_compaction_of_an_indexed_table(
    tables: Tables, storage: Storage
) -> None:
    """pylance cannot build the transaction of an index-remapping compaction on its own."""
    table = people_table(tables)
    op = operation()
    table = commit(tables, stage_append(storage, table, people({"new": 1}), op))
    outsider = lance.dataset(tables.uri(PERSON), storage_options=storage.lance_options)
    outsider.create_scalar_index("id", "BTREE")
    outsider.optimize.compact_files()
    head = tables.open(PERSON)
    assert head.version > table.version + 1
    assert find_operation(head, op, since=1) == table.version
    assert find_operation(head, "nobody's", since=1) is None


# ---- opening and creating ----


def test_creating_twice_is_refused_and_changes_nothing(tables: Tables, storage: Storage) -> None:
    create_table(tables, PERSON, PEOPLE_SCHEMA, operation(), people({"ann": 1}))
    before = file_tree(storage)
    with pytest.raises(TableExists):
        create_table(tables, PERSON, PEOPLE_SCHEMA, operation(), people({"bob": 1}))
    assert file_tree(storage) == before


def test_losing_a_race_of_creators_is_a_conflict(
    tables: Tables, storage: Storage, lie: Callable[..., Lying]
) -> None:
    lie(before=lambda: create_table(Tables(storage), PERSON, PEOPLE_SCHEMA, operation(), people({"ann": 1})))
    with pytest.raises(TableExists):
        create_table(tables, PERSON, PEOPLE_SCHEMA, operation(), people({"bob": 1}))
    assert ages(tables.open(PERSON)) == {"ann": 1}


def test_a_new_table_has_stable_row_ids_and_the_pinned_format(tables: Tables) -> None:
    table = create_table(tables, PERSON, PEOPLE_SCHEMA, "first")
    assert table.version == 1
    assert table.lance.has_stable_row_ids
    assert table.lance.data_storage_version == "2.2"
    assert table.schema == PEOPLE_SCHEMA
    assert find_operation(table, "first", since=0) == 1


def test_what_is_missing_is_named(tables: Tables) -> None:
    with pytest.raises(TableNotFound):
        tables.open(PERSON)
    with pytest.raises(TableLost):
        tables.open(PERSON, 3)
    people_table(tables)
    with pytest.raises(TableLost) as caught:
        tables.open(PERSON, 99)
    assert caught.value.details()["table_key"] == "node:Person"
    with pytest.raises(TableNotFound):
        tables.open(PERSON.on("nowhere"))


def test_a_bad_predicate_is_a_typed_error(tables: Tables) -> None:
    table = people_table(tables)
    with pytest.raises(StorageError, match="node:Person"):
        table.read(where="no_such_column = 1")
    with pytest.raises(StorageError):
        table.count_rows("((")


def test_an_open_table_does_not_change_under_its_reader(tables: Tables, storage: Storage) -> None:
    table = people_table(tables)
    content = ages(table)
    commit(tables, stage_overwrite(storage, table, people({"x": 1}), operation()))
    assert ages(table) == content
    assert table.latest_version() == table.version + 1
