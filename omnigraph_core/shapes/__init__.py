"""Every JSON shape OmniGraph answers with: domain object in, JSON-ready dict out.

The command line prints these as JSON; a server could send the same. Keys are only
ever added, and docs/json.md lists them all. The functions are pure, and domain types are
imported for the type checker alone, so that importing this package costs next to nothing.
"""

from omnigraph_core.shapes.diffs import diff_counts, diff_head, entity_change, schema_difference
from omnigraph_core.shapes.graphs import (
    adopted,
    failure,
    initialized,
    relocated,
    snapshot,
    spark_package,
    status,
    version,
)
from omnigraph_core.shapes.history import (
    blame,
    branch_created,
    branch_deleted,
    branch_list,
    branch_renamed,
    branch_undeleted,
    commit,
    commit_list,
    origin,
    tag,
    tag_created,
    tag_deleted,
    tag_list,
    unknown_changes,
)
from omnigraph_core.shapes.json_object import JsonObject
from omnigraph_core.shapes.looks import described, entities, entity
from omnigraph_core.shapes.operations import operation, operation_log, undone
from omnigraph_core.shapes.reads import blob, lint_report, query_head, query_metadata, query_plan, value
from omnigraph_core.shapes.schemas import schema, schema_applied, schema_diff, schema_plan
from omnigraph_core.shapes.upkeep import (
    cleaned,
    findings,
    maintained,
    optimized,
    pending_write,
    recovery,
    recovery_list,
    recovery_run,
    repaired,
    topology_built,
    warm_servers,
)
from omnigraph_core.shapes.writes import changed, loaded, merged, merged_branch_deleted

__all__ = [
    "JsonObject",
    "adopted",
    "blame",
    "blob",
    "branch_created",
    "branch_deleted",
    "branch_list",
    "branch_renamed",
    "branch_undeleted",
    "changed",
    "cleaned",
    "commit",
    "commit_list",
    "described",
    "diff_counts",
    "diff_head",
    "entities",
    "entity",
    "entity_change",
    "failure",
    "findings",
    "initialized",
    "lint_report",
    "loaded",
    "maintained",
    "merged",
    "merged_branch_deleted",
    "operation",
    "operation_log",
    "optimized",
    "origin",
    "pending_write",
    "query_head",
    "query_metadata",
    "query_plan",
    "recovery",
    "recovery_list",
    "recovery_run",
    "relocated",
    "repaired",
    "schema",
    "schema_applied",
    "schema_diff",
    "schema_difference",
    "schema_plan",
    "snapshot",
    "spark_package",
    "status",
    "tag",
    "tag_created",
    "tag_deleted",
    "tag_list",
    "topology_built",
    "undone",
    "unknown_changes",
    "value",
    "version",
    "warm_servers",
]
