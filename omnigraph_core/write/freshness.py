"""Is a plan still true? Asked once, under the lock, right before its first commit."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_core.errors import ConflictError, PreconditionError, StorageError
from omnigraph_core.manifest.reader import BranchReplaced
from omnigraph_core.manifest.request import ExpectedVersionMismatch
from omnigraph_core.manifest.snapshot import Snapshot, SubTableEntry
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import verify_files
from omnigraph_core.tables.torn import set_aside_torn
from omnigraph_core.write.plan import TableWrite, WritePlan


class StalePlan(ConflictError):
    """Something this plan read or wrote has moved; planning it again may well succeed."""

    retryable = True

    def __init__(self, table_key: str, expected: int, actual: int) -> None:
        super().__init__(
            f"table '{table_key}' moved from version {expected} to {actual} while this write was prepared"
        )
        self.table_key, self.expected, self.actual = table_key, expected, actual

    def details(self) -> Mapping[str, object]:
        conflict = {"table_key": self.table_key, "expected": self.expected, "actual": self.actual}
        return {"manifest_conflict": conflict}


class CommitPreconditionFailed(PreconditionError):
    """The commit that the caller expects as head is not the head."""

    def __init__(self, branch: str, expected: str, actual: str | None) -> None:
        super().__init__(
            f"branch '{branch}' is at {actual}, not at {expected}", hint="look at what changed, then decide"
        )
        self.expected, self.actual = expected, actual

    def details(self) -> Mapping[str, object]:
        return {"precondition_failure": {"expected": self.expected, "actual": self.actual}}


class SchemaChanged(ConflictError):
    """The schema was migrated while this write was prepared."""

    retryable = True


class Drift(ConflictError):
    """A table has versions nobody published: something writes to it behind our back."""

    def __init__(self, table: TableWrite, head: int) -> None:
        table_key, published = table.ref.key, table.base_version
        super().__init__(
            f"table '{table_key}' has Lance HEAD version {head} ahead of manifest version {published}",
            hint="run `omnigraph repair` before writing",
        )
        self.table, self.table_key, self.head, self.published = table, table_key, head, published

    def details(self) -> Mapping[str, object]:
        return {"table_key": self.table_key, "head": self.head, "published": self.published}


def check_head(if_commit: str | None, current: Snapshot) -> None:
    """The head the caller named, if any, must be the head."""
    actual = current.head.commit_id if current.head else None
    if if_commit is not None and if_commit != actual:
        raise CommitPreconditionFailed(current.branch, if_commit, actual)


def check_assumptions(plan: WritePlan, current: Snapshot) -> None:
    """Everything the plan read or wrote must be where it was; strict writes say so differently."""
    if current.on != plan.base.on:
        raise BranchReplaced(f"branch '{plan.branch}' was deleted and recreated in the meantime")
    if current.head is not None and current.head.schema_hash != plan.attempt.schema_hash:
        raise SchemaChanged("the schema changed while this write was prepared")
    expected = {table.renamed_from or table.ref.key: table.published_version for table in plan.tables}
    expected |= {entry.table_key: entry.replaces for entry in plan.registrations}
    expected |= dict(plan.reads)
    for table_key, version in sorted(expected.items()):
        entry = current.tables.get(table_key)
        actual = entry.table_version if entry else 0
        if actual != version or _is_another(plan.base.tables.get(table_key), entry):
            raise (ExpectedVersionMismatch if plan.strict else StalePlan)(table_key, version, actual)


def _is_another(before: SubTableEntry | None, now: SubTableEntry | None) -> bool:
    """Has another table the key, and the very same version number?"""
    return before is not None and now is not None and before.table_path != now.table_path


def check_tables(tables: Tables, plan: WritePlan, guard: Guard) -> None:
    """HEAD of every table is where the plan staged on it, and its files are whole."""
    for table in plan.tables:
        if table.staged:
            _check_head(tables, table, guard)
        for write in table.staged:
            verify_files(tables.storage, write)


def _check_head(tables: Tables, table: TableWrite, guard: Guard) -> None:
    """A torn version is above the one we staged on: either HEAD cannot be read, or it has moved.

    It may have moved to a whole version above a torn one; both are set aside.
    """
    if _head_version(tables, table.ref) == table.base_version:
        return
    set_aside_torn(tables, table.ref, table.base_version, guard)
    head = tables.open(table.ref).version
    if head != table.base_version:
        raise Drift(table, head)


def _head_version(tables: Tables, ref: TableRef) -> int | None:
    try:
        return tables.open(ref).version
    except StorageError:
        return None
