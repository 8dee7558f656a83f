"""Shapes of schemas and their migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_core.shapes.json_object import JsonObject

if TYPE_CHECKING:
    from omnigraph_core.catalog.files import Catalog
    from omnigraph_core.migrate.apply import Applied
    from omnigraph_core.schema.evolve import MigrationPlan


def schema(catalog: Catalog) -> JsonObject:
    return {"schema_source": catalog.source, "schema_hash": catalog.schema_hash}


def schema_plan(plan: MigrationPlan, uri: str, branch: str) -> JsonObject:
    return {"uri": uri, "branch": branch, **_migration(plan)}


def schema_applied(done: Applied, uri: str, actor: str) -> JsonObject:
    """`applied` is false when the branch had the schema already; then there is no commit."""
    return {
        "uri": uri,
        "branch": done.snapshot.shown_branch,
        "applied": done.applied,
        **_migration(done.plan),
        "manifest_version": done.snapshot.manifest_version,
        "commit": done.commit_id,
        "actor_id": actor,
        "differing_branches": list(done.differing),
        "warnings": list(done.warnings),
    }


def schema_diff(plan: MigrationPlan, old: str, new: str) -> JsonObject:
    """The difference of two schemas; `old` and `new` say where they came from."""
    return {"from": old, "to": new, "equal": plan.is_empty, **_migration(plan)}


def _migration(plan: MigrationPlan) -> JsonObject:
    """`steps` is the fixed form; `details` says of each step, in the same order, what people ask."""
    told = plan.to_json()
    return {
        "supported": told["supported"],
        "step_count": told["step_count"],
        "steps": told["steps"],
        "details": told["details"],
    }
