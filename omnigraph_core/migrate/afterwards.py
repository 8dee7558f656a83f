"""What follows a schema apply when it is done: favours that must not fail it."""

from __future__ import annotations

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.indexes.ensure import ensure_indexes
from omnigraph_core.schema.evolve import MigrationPlan
from omnigraph_core.write.door import Door


def finish(door: Door, branch: str, plan: MigrationPlan, actor: str) -> tuple[str, ...]:
    """Build the indexes that are wanted now; returns warnings."""
    stepped = {f"{step.owner.kind}:{step.owner.name}" for step in plan.steps}
    touched = stepped & {image.entity.table_key for image in plan.images if image.origin is not None}
    try:
        ensure_indexes(door, branch, touched, actor)
    except OmnigraphError as error:
        return (f"the schema is applied, but its indexes were not built: {error}",)
    return ()
