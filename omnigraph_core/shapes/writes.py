"""Shapes of what a write did: load, change, merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_core.shapes.json_object import JsonObject

if TYPE_CHECKING:
    from omnigraph_core.change.mutate import Changed
    from omnigraph_core.load.run import Loaded
    from omnigraph_core.merge.run import Merged


def loaded(result: Loaded, uri: str, branch: str, base: str | None, *, dry_run: bool) -> JsonObject:
    """The outcome of a load; `base` is the ref its branch was to start from, as given."""
    nodes = [(key[5:], count) for key, count in result.counts.items() if key.startswith("node:")]
    edges = [(key[5:], count) for key, count in result.counts.items() if key.startswith("edge:")]
    return {
        "uri": uri,
        "branch": branch,
        "mode": result.mode.value,
        "base_branch": base,
        "branch_created": result.branch_created,
        "nodes": [{"name": name, "entities_loaded": count} for name, count in nodes],
        "edges": [{"name": name, "entities_loaded": count} for name, count in edges],
        "nodes_loaded": sum(count for _, count in nodes),
        "edges_loaded": sum(count for _, count in edges),
        "node_types_loaded": len(nodes),
        "edge_types_loaded": len(edges),
        "total_entities": result.total,
        "unmatchable": result.unmatchable,
        "rejected": result.rejected,
        "commit": result.commit_id,
        "warnings": list(result.warnings),
        "dry_run": dry_run,
    }


def changed(result: Changed, branch: str, actor: str, *, dry_run: bool) -> JsonObject:
    return {
        "branch": branch,
        "query_name": result.query_name,
        "affected_nodes": result.affected_nodes,
        "affected_edges": result.affected_edges,
        "actor_id": actor,
        "commit": result.commit_id,
        "warnings": list(result.warnings),
        "dry_run": dry_run,
    }


def merged(result: Merged, uri: str, target: str, actor: str, *, source: str, dry_run: bool) -> JsonObject:
    """The outcome of a merge, a revert or a reset; `source` is the branch or the commit, as given."""
    return {
        "uri": uri,
        "source": source,
        "target": target,
        "outcome": result.outcome.value,
        "commit": result.commit_id,
        "source_commit_id": result.source_commit_id,
        "bases": list(result.bases),
        "tables": [
            {"table_key": each.table_key, "upserted": each.upserted, "removed": each.removed}
            for each in result.counts
        ],
        "schema_changes": list(result.schema_changes),
        "conflicts": [each.as_json() for each in result.conflicts],
        "actor_id": actor,
        "warnings": list(result.warnings),
        "dry_run": dry_run,
    }


def merged_branch_deleted(error: str | None) -> JsonObject:
    """Beside `merged`, if the source was to go afterwards: whether it did, or why not."""
    return {"branch_deleted": error is None, "branch_delete_error": error}
