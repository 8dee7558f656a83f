"""What follows a schema apply when it is done: favours that must not fail it.

Whoever allows data to be lost wants the bytes gone. A dropped column's stay in the files of the
others, so the fragments that hold them are written anew. From then on only versions of old
commits have them, and they go with these at the next cleanup.
"""

from __future__ import annotations

from collections.abc import Collection

from omnigraph_core import faults
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.ids import new_ulid
from omnigraph_core.indexes.ensure import ensure_indexes
from omnigraph_core.schema.evolve import MigrationPlan, Mode
from omnigraph_core.tables.purge import stage_purge
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.door import Door
from omnigraph_core.write.forks import needs_fork
from omnigraph_core.write.plan import TableWrite, WritePlan, WriterKind


def finish(door: Door, branch: str, plan: MigrationPlan, actor: str) -> tuple[str, ...]:
    """Rewrite what was dropped for good, and build the indexes that are wanted now; returns warnings."""
    warnings = []
    stepped = {f"{step.owner.kind}:{step.owner.name}" for step in plan.steps}
    touched = stepped & {image.entity.table_key for image in plan.images if image.origin is not None}
    purged = {image.entity.table_key for image in plan.images if image.dropped}
    try:
        if plan.mode is Mode.HARD and purged:
            purge_dropped(door, branch, purged, actor)
    except OmnigraphError as error:
        warnings.append(f"dropped values are still in the newest files, until these are rewritten: {error}")
    try:
        ensure_indexes(door, branch, touched, actor)
    except OmnigraphError as error:
        warnings.append(f"the schema is applied, but its indexes were not built: {error}")
    return tuple(warnings)


def purge_dropped(door: Door, branch: str, table_keys: Collection[str], actor: str) -> None:
    """Write the fragments of these tables anew that hold values of dropped columns.

    It changes no answer, so it makes no commit. Tables that a branch shares with its parent have
    had no column dropped.
    """

    def build(attempt: Attempt) -> WritePlan | None:
        operation_id = new_ulid()
        writes = []
        for entity in attempt.schema.types():
            entry = attempt.snapshot.tables.get(entity.table_key)
            if entity.table_key not in table_keys or entry is None or needs_fork(entry, branch):
                continue
            table = door.tables.open(entry.ref, entry.table_version)
            staged = stage_purge(door.storage, table, operation_id)
            if staged:
                version, rows = entry.table_version, entry.row_count
                writes.append(TableWrite(entry.ref, version, version, rows, tuple(staged)))
        if not writes:
            return None
        faults.hit("schema.purge_staged")
        return WritePlan(
            operation_id=operation_id,
            kind=WriterKind.OPTIMIZE,
            attempt=attempt,
            actor=actor,
            tables=writes,
            makes_commit=False,
        )

    door.write(branch, build)
