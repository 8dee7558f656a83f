"""`repair`: versions that another program made become part of the graph, or are undone.

Nothing else writes to a table whose HEAD nobody published: every write to it is refused
until someone has decided. Adopting publishes HEAD as it is; no data moves. What OmniGraph
itself left unpublished is never adopted but undone, as the next write would.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum

from omnigraph_core.ids import new_ulid
from omnigraph_core.maintenance.checks.rows import check_rows
from omnigraph_core.maintenance.drift import Classification, TableDrift, drift_of, healed, own_tables
from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.manifest.commit import Commit, Operation
from omnigraph_core.manifest.seal import details_of
from omnigraph_core.records import dataclass
from omnigraph_core.schema import Schema
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.tables.durability import Barrier
from omnigraph_core.write.actors import FORCED_REPAIR_ACTOR, REPAIR_ACTOR
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.door import Door
from omnigraph_core.write.phases import Published
from omnigraph_core.write.plan import TableWrite, WritePlan, WriterKind

_REPAIRED = "repaired"  # In the details of a commit: the versions it adopted, by table.


class Action(StrEnum):
    """What was done about a table; the text is part of the JSON answer."""

    NO_OP = "no_op"
    PREVIEW = "preview"
    HEALED = "healed"
    REFUSED = "refused"
    FORCED = "forced"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class RepairedTable:
    """One table: its published version, its HEAD, and what was done."""

    table_key: str
    published_version: int
    head_version: int
    classification: Classification
    action: Action
    operations: tuple[str, ...] = ()
    reason: str | None = None
    """Why it was refused."""


@dataclass(frozen=True, slots=True)
class Repaired:
    branch: str
    tables: tuple[RepairedTable, ...]
    commit_id: str | None = None
    manifest_version: int | None = None
    """Where it was published, if it was."""
    breaks: tuple[str, ...] = ()
    """Rules of the schema that rows of suspicious versions break, adopted or not."""

    @property
    def has_refused(self) -> bool:
        return any(table.action is Action.REFUSED for table in self.tables)


def repair(
    door: Door, branch: str, memory_bytes: int, *, confirm: bool, force: bool, message: str | None = None
) -> Repaired:
    """Look at every table of a branch; with `confirm`, decide about those that have drifted.

    Only rewrites are adopted without more ado. With `force` anything is, as long as the
    table can still be read by the branch's schema; what it breaks is named before and after.
    """
    with door.locked(branch, "repair") as lock:
        attempt = Attempt(healed(door, branch, lock), door.schemas, lock)
        found = [drift_of(door, entry) for entry in own_tables(attempt.snapshot)]
        breaks = _broken(door, attempt, found, memory_bytes)
        if not confirm:
            return Repaired(branch, tuple(_judged(each, _previewed(each)) for each in found), breaks=breaks)
        tables = {each.table_key: _decided(each, attempt.schema, force=force) for each in found}
        for each in found:
            if tables[each.table_key].action is Action.RESTORED:
                door.undo_late_write(attempt.snapshot, _published(each), each.head, lock)
                attempt = Attempt(healed(door, branch, lock), door.schemas, lock)
        done = _adopt(door, attempt, [(each, tables[each.table_key]) for each in found], message)
        if done is None:
            return Repaired(branch, tuple(tables.values()), breaks=breaks)
        version = done.snapshot.manifest_version
        return Repaired(branch, tuple(tables.values()), done.commit_id, version, breaks)


def newest_forced(commits: Iterable[Commit]) -> int:
    """The newest version of any table that was adopted by force; 0 if there is none.

    It may be an older version that another program restored: rows in it can have been updated in
    a version that has other rows under their ids.
    """
    found = (details_of(each) for each in commits if each.operation == Operation.REPAIR)
    tables = (table for details in found for table in details.get(_REPAIRED, {}).values())
    harmless = Classification.VERIFIED_MAINTENANCE
    return max((table["to"] for table in tables if table["classification"] != harmless), default=0)


def _broken(door: Door, attempt: Attempt, found: Sequence[TableDrift], memory_bytes: int) -> tuple[str, ...]:
    """What would be wrong with the branch if rows that nobody has checked became part of it."""
    unchecked = [
        each
        for each in found
        if each.classification in (Classification.SUSPICIOUS, Classification.UNVERIFIABLE)
        and _fits(each, attempt.schema)
    ]
    if not unchecked:
        return ()
    entries = {
        each.table_key: replace(each.entry, table_version=each.head.version, row_count=each.head.count_rows())
        for each in unchecked
    }
    state = replace(attempt.snapshot, tables={**attempt.snapshot.tables, **entries})
    seen = Examination.of_one(door, state, attempt.schema, memory_bytes)
    return tuple(f"{each.where}: {each.message}" for each in check_rows(seen))


def _previewed(drift: TableDrift) -> Action:
    return Action.NO_OP if drift.classification is Classification.NO_DRIFT else Action.PREVIEW


def _decided(drift: TableDrift, schema: Schema, *, force: bool) -> RepairedTable:
    if drift.classification is Classification.NO_DRIFT:
        return _judged(drift, Action.NO_OP)
    if drift.classification is Classification.LATE_WRITE:
        return _judged(drift, Action.RESTORED)
    if drift.classification is Classification.VERIFIED_MAINTENANCE:
        return _judged(drift, Action.HEALED)
    if not force:
        return _judged(drift, Action.REFUSED, "rows may have changed; adopting them takes force")
    if not _fits(drift, schema):
        return _judged(drift, Action.REFUSED, "its columns are no longer those of the type")
    return _judged(drift, Action.FORCED)


def _judged(drift: TableDrift, action: Action, reason: str | None = None) -> RepairedTable:
    return RepairedTable(
        drift.table_key,
        drift.entry.table_version,
        drift.head.version,
        drift.classification,
        action,
        drift.operations,
        reason,
    )


def _fits(drift: TableDrift, schema: Schema) -> bool:
    """Has the table exactly the columns that reads and writes of its type expect?"""
    entity = next((each for each in schema.types() if each.table_key == drift.table_key), None)
    if entity is None:
        return False
    wanted = {field.name: (field.type, field.nullable) for field in table_schema(entity)}
    return {field.name: (field.type, field.nullable) for field in drift.head.schema} == wanted


def _published(drift: TableDrift) -> TableWrite:
    version = drift.entry.table_version
    return TableWrite(drift.entry.ref, version, version, drift.entry.row_count, ())


def _adopted(drift: TableDrift) -> TableWrite:
    """HEAD as it is: no transaction of ours, so nothing moves."""
    head, entry = drift.head, drift.entry
    return TableWrite(entry.ref, head.version, entry.table_version, head.count_rows(), ())


def _adopt(
    door: Door, attempt: Attempt, found: Sequence[tuple[TableDrift, RepairedTable]], message: str | None
) -> Published | None:
    """Publish the HEADs that were decided for, after making safe what another program may not have."""
    chosen = [each for each in found if each[1].action in (Action.HEALED, Action.FORCED)]
    if not chosen:
        return None
    barrier = Barrier(door.storage)
    for drift, _ in chosen:
        barrier.add_version(drift.head, door.tables.open(drift.entry.ref, drift.entry.table_version))
    barrier.sync()
    forced = any(table.action is Action.FORCED for _, table in chosen)
    versions = {
        table.table_key: {
            "from": table.published_version,
            "to": table.head_version,
            "classification": table.classification.value,
        }
        for _, table in chosen
    }
    plan = WritePlan(
        operation_id=new_ulid(),
        kind=WriterKind.REPAIR,
        attempt=attempt,
        actor=FORCED_REPAIR_ACTOR if forced else REPAIR_ACTOR,
        is_own_actor=True,
        message=message,
        tables=[_adopted(drift) for drift, _ in chosen],
        strict=True,
        details=json.dumps({_REPAIRED: versions}, ensure_ascii=False, separators=(",", ":")),
    )
    return door.publish(plan)
