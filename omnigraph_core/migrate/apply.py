"""Applying a schema to a branch: planned, staged and published under locks that are held throughout.

The refs lock keeps branches from coming and going and other applies out; the branch's lock, its
writers. Both are held until the files in the root say what was published. The new schema is kept
under its hash before anything moves: a head row must never name a schema that nobody has.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph_core import faults, layout
from omnigraph_core.catalog.files import keep_schema, put_back_schema_files
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.migrate.afterwards import finish
from omnigraph_core.migrate.answers import answer
from omnigraph_core.migrate.staging import MigrationStaging
from omnigraph_core.records import dataclass
from omnigraph_core.schema import Schema
from omnigraph_core.schema.evolve import MigrationPlan, plan_migration
from omnigraph_core.storage import HeldLocks, Lock
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.door import Door, ReplansUsedUp
from omnigraph_core.write.freshness import StalePlan
from omnigraph_core.write.limits import REPLANS_MAX
from omnigraph_core.write.on_record import FilesOnRecord
from omnigraph_core.write.phases import Published
from omnigraph_core.write.plan import NewSchema
from omnigraph_core.write.staging_record import SCHEMA_APPLY_KIND, StagingRecord


@dataclass(frozen=True, slots=True)
class WantedSchema:
    """A schema and the text it was written as."""

    schema: Schema
    source: str


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a branch's schema. Without a commit it was what it should be."""

    plan: MigrationPlan
    snapshot: Snapshot
    commit_id: str | None = None
    differing: tuple[str, ...] = ()
    """Branches that keep another schema than main has now."""
    warnings: tuple[str, ...] = ()

    @property
    def applied(self) -> bool:
        return self.commit_id is not None


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """How a schema is applied, and what the commit says."""

    actor: str
    message: str | None = None
    allow_data_loss: bool = False
    memory_bytes: int = 1 << 31


def apply_schema(door: Door, branch: str, wanted: WantedSchema, options: ApplyOptions) -> Applied:
    """Give the branch this schema, or raise and leave everything as it was."""
    door.manifest.snapshot(branch)
    names = [layout.REFS_LOCK, layout.branch_lock(branch)]
    with door.storage.locks.lock_all(names, doing=f"schema apply on {branch}") as held:
        done = _applied(door, branch, wanted, options, held)
    if not done.applied:
        return done
    return replace(done, warnings=done.warnings + finish(door, branch, done.plan, options.actor))


def _applied(
    door: Door, branch: str, wanted: WantedSchema, options: ApplyOptions, held: HeldLocks
) -> Applied:
    """Planned again when a late writer's leavings had to be cleared from a table first."""
    lock = next(each for each in held.locks if each.name == layout.branch_lock(branch))
    for _ in range(1 + REPLANS_MAX):
        attempt = door.attempt(branch, lock)
        plan = _planned(door, attempt, wanted, options)
        plan.require_supported()
        if plan.is_empty:
            return Applied(plan, attempt.snapshot, warnings=_put_back(door, attempt, lock))
        try:
            published = _published(door, attempt, plan, wanted, options)
        except StalePlan:
            continue
        differing = _differing(door, published) if branch == layout.MAIN_BRANCH else ()
        return Applied(plan, published.snapshot, published.commit_id, differing, published.warnings)
    raise ReplansUsedUp(f"branch '{branch}': its tables keep moving", hint="try again")


def _put_back(door: Door, attempt: Attempt, lock: Lock) -> tuple[str, ...]:
    """Who applies the schema that main has wants its files to say so."""
    control, is_main = door.storage.control, attempt.branch == layout.MAIN_BRANCH
    if is_main and put_back_schema_files(control, attempt.schema_hash, lock.check):
        return ("the schema files of the graph had been edited or lost; they are what they were again",)
    return ()


def _planned(door: Door, attempt: Attempt, wanted: WantedSchema, options: ApplyOptions) -> MigrationPlan:
    """From the schema of the head row, never from the files: these may be what is to be applied."""
    accepted = attempt.schemas.kept(attempt.schema_hash)
    plan = plan_migration(accepted, wanted.schema, allow_data_loss=options.allow_data_loss)
    if not plan.questions:
        return plan
    return plan.answered(answer(door.tables, attempt.snapshot, plan, memory_bytes=options.memory_bytes))


def _published(
    door: Door, attempt: Attempt, plan: MigrationPlan, wanted: WantedSchema, options: ApplyOptions
) -> Published:
    kept = keep_schema(door.storage.control, wanted.source, wanted.schema)
    faults.hit("schema.kept")
    versions = tuple((key, entry.table_version) for key, entry in sorted(attempt.snapshot.tables.items()))
    record = StagingRecord(new_ulid(), SCHEMA_APPLY_KIND, attempt.branch, options.actor, pinned=versions)
    with FilesOnRecord(door.storage, record) as on_record:
        staging = MigrationStaging(door, attempt, plan, on_record)
        write = staging.staged(NewSchema(kept, wanted.source), options.actor, options.message)
        faults.hit("schema.staged")
        return door.publish(write)


def _differing(door: Door, published: Published) -> tuple[str, ...]:
    mine = published.snapshot.head
    heads = {name: door.manifest.snapshot(name).head for name in door.manifest.branch_names()}
    return tuple(
        name for name, head in heads.items() if head and mine and head.schema_hash != mine.schema_hash
    )
