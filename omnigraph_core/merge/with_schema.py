"""Merges that change the schema of their branch: staged and published like a schema apply, with rows.

One publish carries columns, rows, registrations and the head row's schema hash; so a reader, and
recovery after a crash, see all of it or nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from omnigraph_core import faults, layout
from omnigraph_core.catalog.files import keep_schema, source_at
from omnigraph_core.change.plan import Intent, with_about
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.ids import new_ulid
from omnigraph_core.indexes.ensure import ensure_indexes
from omnigraph_core.merge.ground import Ground
from omnigraph_core.migrate.staging import MigrationStaging
from omnigraph_core.rules.changeset import ChangeSet
from omnigraph_core.schema import schema_hash
from omnigraph_core.schema.render import render
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.door import Door, ReplansUsedUp
from omnigraph_core.write.freshness import StalePlan
from omnigraph_core.write.limits import REPLANS_MAX
from omnigraph_core.write.on_record import FilesOnRecord
from omnigraph_core.write.phases import Published
from omnigraph_core.write.plan import NewSchema, WritePlan
from omnigraph_core.write.staging_record import SCHEMA_APPLY_KIND, StagingRecord

Build = Callable[[Attempt, FilesOnRecord], WritePlan | None]
"""Makes the plan of one try; its files are on record until a sidecar names them."""


def planned_with_schema(
    door: Door,
    attempt: Attempt,
    ground: Ground,
    changes: ChangeSet,
    intent: Intent,
    on_record: FilesOnRecord,
) -> WritePlan:
    """The write that makes ours the merge; the schema is kept under its hash before anything moves."""
    assert ground.plan is not None
    control, wanted = door.storage.control, ground.schema
    source = source_at(control, schema_hash(wanted)) or render(wanted)
    kept = keep_schema(control, source, wanted)
    faults.hit("schema.kept")
    staging = MigrationStaging(door, attempt, ground.plan, on_record, changes.tables, ground.roots())
    plan = staging.staged(NewSchema(kept, source), intent.actor or "", intent.message)
    faults.hit("schema.staged")
    return replace(
        plan,
        kind=intent.kind,
        actor=intent.actor,
        strict=intent.strict,
        if_commit=intent.if_commit,
        details=with_about(plan.details, intent),
    )


def write_under_refs(door: Door, branch: str, build: Build, actor: str | None) -> Published:
    """Plan and publish under the refs lock and the branch's, as a schema apply does."""
    names = [layout.REFS_LOCK, layout.branch_lock(branch)]
    with door.storage.locks.lock_all(names, doing=f"merge into {branch}") as held:
        lock = next(each for each in held.locks if each.name == layout.branch_lock(branch))
        published = _published(door, door.attempt(branch, lock), build, actor)
        for _ in range(REPLANS_MAX):
            if published is not None:
                break
            published = _published(door, door.attempt(branch, lock), build, actor)
    if published is None:
        raise ReplansUsedUp(f"branch '{branch}': its tables keep moving", hint="try again")
    return replace(published, warnings=(*published.warnings, *_indexed(door, branch, published, actor)))


def _published(door: Door, attempt: Attempt, build: Build, actor: str | None) -> Published | None:
    """None if it has to be planned again: what was read is gone, or a late writer's leavings were cleared."""
    versions = tuple((key, entry.table_version) for key, entry in sorted(attempt.snapshot.tables.items()))
    record = StagingRecord(new_ulid(), SCHEMA_APPLY_KIND, attempt.branch, actor, pinned=versions)
    with FilesOnRecord(door.storage, record) as on_record:
        try:
            plan = build(attempt, on_record)
            return Published(None, attempt.snapshot) if plan is None else door.publish(plan)
        except StalePlan:
            return None


def _indexed(door: Door, branch: str, published: Published, actor: str | None) -> tuple[str, ...]:
    """Build the indexes that are wanted now; a favour that must not fail the merge."""
    try:
        ensure_indexes(door, branch, set(published.snapshot.tables), actor or "")
    except OmnigraphError as error:
        return (f"the merge is done, but its indexes were not built: {error}",)
    return ()
