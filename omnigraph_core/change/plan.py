"""From a validated change set to a write plan: every table staged, nothing visible."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

import pyarrow as pa

from omnigraph_core.ids import new_ulid
from omnigraph_core.records import dataclass
from omnigraph_core.rules.changeset import Change, ChangeSet
from omnigraph_core.rules.committed import Committed
from omnigraph_core.rules.parts import WHOLE
from omnigraph_core.tables.stage import stage_append, stage_overwrite, stage_upsert
from omnigraph_core.tables.staged import StagedWrite, discard_files
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.door import Door
from omnigraph_core.write.plan import TableWrite, WritePlan, WriterKind
from omnigraph_core.write.writable import WritableTable

EMPTY: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Intent:
    """What a caller says about a write apart from its content."""

    kind: WriterKind
    actor: str | None
    message: str | None = None
    if_commit: str | None = None
    strict: bool = False
    inputs: Sequence[Mapping[str, object]] = ()
    """What the rows were read from: name, sha256, bytes."""
    about: Mapping[str, object] = EMPTY
    """What else the commit says about itself, such as the operation that it takes back."""

    def with_strict(self, strict: bool) -> Intent:
        return replace(self, strict=strict)


Stage = Callable[[WritableTable, Change, str], StagedWrite]
"""Stages the change of one table for an operation."""


@dataclass(frozen=True, slots=True)
class Staging:
    """How the rows of a plan are written: by `stage`, some tables at a time; `stop` cuts it short."""

    stage: Stage
    tables_at_once: int = 1
    stop: Callable[[], None] = lambda: None


def plan_changes(
    door: Door,
    attempt: Attempt,
    changes: ChangeSet,
    committed: Committed,
    intent: Intent,
    staging: Staging | None = None,
) -> WritePlan:
    """Stage every table; what was staged is removed again if another table fails.

    Without `staging`, the rows of the change set are all there is to write.
    """
    staging = staging or Staging(partial(stage_rows, door))
    operation_id = new_ulid()
    writes = _staged(door, attempt, changes, operation_id, staging)
    written = {write.ref.key for write in writes}
    return WritePlan(
        operation_id=operation_id,
        kind=intent.kind,
        attempt=attempt,
        actor=intent.actor,
        tables=writes,
        reads={key: version for key, version in committed.reads.items() if key not in written},
        strict=intent.strict,
        if_commit=intent.if_commit,
        message=intent.message,
        details=_details(changes, writes, intent),
    )


def _staged(
    door: Door, attempt: Attempt, changes: ChangeSet, operation_id: str, staging: Staging
) -> list[TableWrite]:
    done: list[TableWrite] = []

    def work(writable: WritableTable, change: Change) -> TableWrite:
        staged = staging.stage(writable, change, operation_id)
        write = writable.planned(door.storage, staged)
        done.append(write)
        return write

    try:
        # All are opened before any is written: one that has moved costs nothing that was written.
        writables = [door.open_for_write(attempt, change.key) for change in changes]
        if staging.tables_at_once == 1 or len(writables) == 1:
            return [work(*pair) for pair in zip(writables, changes, strict=True)]
        return _side_by_side(work, writables, list(changes), staging)
    except BaseException:
        discard_files(door.storage, [staged for write in done for staged in write.staged])
        raise


def _side_by_side(
    work: Callable[[WritableTable, Change], TableWrite],
    writables: Sequence[WritableTable],
    changes: Sequence[Change],
    staging: Staging,
) -> list[TableWrite]:
    """All results, or the first failure once nothing is running any more."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(staging.tables_at_once, thread_name_prefix="stage") as pool:
        try:
            return list(pool.map(work, writables, changes))
        except BaseException:
            staging.stop()
            raise


def stage_rows(door: Door, writable: WritableTable, change: Change, operation_id: str) -> StagedWrite:
    """Stage the change of a table whose rows are all at hand."""
    storage, table, rows = door.storage, writable.table, change.part((), WHOLE).rows
    if change.replaces:
        return stage_overwrite(storage, table, rows, operation_id, proven=True)
    if change.only_adds:
        return stage_append(storage, table, rows, operation_id)
    removed = pa.chunked_array([change.removed])
    return stage_upsert(storage, table, rows, operation_id, removed=removed, proven=True)


def _details(changes: ChangeSet, writes: Sequence[TableWrite], intent: Intent) -> str:
    """The `details` of the commit: counts per table key, and what was read."""
    counts = {}
    for change, write in zip(changes, writes, strict=True):
        counts[change.key] = counts_of([write.staged[0]])
    details: dict[str, object] = {"counts": counts}
    if intent.inputs:
        details["inputs"] = [dict(each) for each in intent.inputs]
    return _compact({**details, **intent.about})


def with_about(details: str | None, intent: Intent) -> str | None:
    """The details of a commit with what else it says about itself."""
    content = {**json.loads(details or "{}"), **intent.about}
    return _compact(content) if content else None


def _compact(content: Mapping[str, object]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def counts_of(staged: Sequence[StagedWrite]) -> dict[str, int]:
    """What writes do to the rows of a table, for the details of a commit."""
    numbers = {
        "inserted": sum(each.rows_inserted for each in staged),
        "updated": sum(each.rows_updated for each in staged),
        "deleted": sum(each.rows_deleted for each in staged),
    }
    return {name: number for name, number in numbers.items() if number}
