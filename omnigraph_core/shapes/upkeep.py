"""Shapes of recovery and maintenance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from omnigraph_core.shapes.json_object import JsonObject

if TYPE_CHECKING:
    from omnigraph_core.history.recoveries import Recovery, TableOutcome
    from omnigraph_core.indexes.topology import TopologyBuilt
    from omnigraph_core.maintenance.cleaned import Cleaned
    from omnigraph_core.maintenance.findings import Finding as Diagnosis
    from omnigraph_core.maintenance.maintain import Maintained
    from omnigraph_core.maintenance.optimized import Optimized
    from omnigraph_core.maintenance.repair import Repaired
    from omnigraph_core.write.sidecar_record import Sidecar, SidecarUnreadable
    from omnigraph_core.write.sweep import SweepReport


def pending_write(sidecar: Sidecar) -> JsonObject:
    return {
        "operation_id": sidecar.operation_id,
        "branch": sidecar.branch,
        "actor_id": sidecar.actor_id,
        "writer_kind": sidecar.writer_kind,
        "started_at": sidecar.started_at,
        "tables": [
            {
                "table_key": table.table_key,
                "expected_version": table.expected_version,
                "post_commit_pin": table.post_commit_pin,
            }
            for table in sidecar.tables
        ],
    }


def recovery(of: Recovery) -> JsonObject:
    return {
        "operation_id": of.operation_id,
        "recovery_kind": of.recovery_kind,
        "branch": of.branch,
        "graph_commit_id": of.graph_commit_id,
        "recovery_for_actor": of.recovery_for_actor,
        "sidecar_writer_kind": of.sidecar_writer_kind,
        "created_at": of.created_at,
        "tables": [_table_outcome(outcome) for outcome in of.outcomes],
    }


def recovery_list(
    pending: Iterable[Sidecar], unreadable: Iterable[SidecarUnreadable], done: Iterable[Recovery]
) -> JsonObject:
    return {
        "pending": [pending_write(sidecar) for sidecar in pending],
        "unreadable": [{"path": each.path, "error": str(each)} for each in unreadable],
        "recoveries": [recovery(each) for each in done],
    }


def recovery_run(report: SweepReport) -> JsonObject:
    return {
        "recovered": [
            {
                "operation_id": each.operation_id,
                "branch": each.branch,
                "recovery_kind": each.recovery_kind,
                "graph_commit_id": each.commit_id,
                "tables": [_table_outcome(outcome) for outcome in each.outcomes],
            }
            for each in report.recovered
        ],
        "live": list(report.live),
    }


def _table_outcome(outcome: TableOutcome) -> JsonObject:
    return {
        "table_key": outcome.table_key,
        "from_version": outcome.from_version,
        "to_version": outcome.to_version,
        "classification": outcome.classification,
    }


def optimized(results: Sequence[Optimized], uri: str, *, dry_run: bool) -> JsonObject:
    """One run of optimize; of several branches, the tables of each name theirs."""
    return {
        "uri": uri,
        "branches": [each.branch for each in results],
        "tables": [
            {
                "branch": result.branch,
                "table_key": table.table_key,
                "fragments": table.fragments,
                "fragments_after": table.fragments_after,
                "fragments_removed": table.fragments_removed,
                "fragments_added": table.fragments_added,
                "indexes": list(table.indexes),
                "pending_indexes": [
                    {"column": each.column, "reason": each.reason} for each in table.pending_indexes
                ],
                "bytes_written": table.bytes_written,
                "manifest_version": table.published_version,
                "lance_head_version": table.head_version,
                "committed": table.committed,
                "skipped": table.skipped.value if table.skipped else None,
            }
            for result in results
            for table in result.tables
        ],
        "commits": [commit for result in results for commit in result.commit_ids],
        "warnings": [warning for result in results for warning in result.warnings],
        "topology": [
            {"branch": result.branch, **_topology(each)} for result in results for each in result.topology
        ],
        "dry_run": dry_run,
    }


def topology_built(built: Sequence[TopologyBuilt], uri: str, branch: str) -> JsonObject:
    """One run of `index build`."""
    return {"uri": uri, "branch": branch, "topology": [_topology(each) for each in built]}


def _topology(built: TopologyBuilt) -> JsonObject:
    return {
        "type": built.type_name,
        "edges": built.edges,
        "bytes": built.bytes,
        "built": built.is_new,
        "skipped": built.skipped,
    }


def cleaned(result: Cleaned, uri: str, *, dry_run: bool) -> JsonObject:
    """One run of cleanup: each lineage of which something went, or would go."""
    older_than_s = result.policy.older_than_s
    return {
        "uri": uri,
        "keep_versions": result.policy.keep,
        "older_than_secs": None if older_than_s is None else round(older_than_s),
        "tables": [
            {
                "table_key": table.table_key,
                "branch": table.branch,
                "action": table.action,
                "old_versions_removed": table.versions,
                "versions_before": table.before.versions,
                "versions_left": table.after.versions,
                "files_removed": table.files,
                "files_before": table.before.files,
                "files_left": table.after.files,
                "bytes_removed": table.bytes,
                "bytes_before": table.before.bytes,
                "bytes_left": table.after.bytes,
                "rows_removed": table.rows,
                "error": table.error,
            }
            for table in result.tables
        ],
        "commits_removed": result.commits_removed,
        "commits_left": result.commits_left,
        "branches_purged": list(result.branches_purged),
        "branches_spared": list(result.branches_spared),
        "leftover_files_removed": result.leftovers,
        "leftover_bytes_removed": result.leftover_bytes,
        "dry_run": dry_run,
    }


def maintained(result: Maintained, uri: str) -> JsonObject:
    """One run of maintain; `cleanup` is null when it was not needed."""
    return {
        "uri": uri,
        "needed": result.cleaned is not None,
        "reasons": list(result.reasons),
        "optimize": optimized(result.optimized, uri, dry_run=False),
        "cleanup": None if result.cleaned is None else cleaned(result.cleaned, uri, dry_run=False),
        "failures": [{"branch": each.branch, "error": each.error} for each in result.failures],
    }


def findings(found: Sequence[Diagnosis], uri: str) -> JsonObject:
    """What doctor found."""
    return {
        "uri": uri,
        "findings": [
            {
                "code": each.code,
                "severity": each.severity.value,
                "where": each.where,
                "message": each.message,
                "fix": each.fix,
            }
            for each in found
        ],
    }


def repaired(result: Repaired, uri: str, *, confirm: bool, force: bool) -> JsonObject:
    return {
        "uri": uri,
        "branch": result.branch,
        "confirm": confirm,
        "force": force,
        "manifest_version": result.manifest_version,
        "tables": [
            {
                "table_key": table.table_key,
                "manifest_version": table.published_version,
                "lance_head_version": table.head_version,
                "classification": table.classification.value,
                "action": table.action.value,
                "operations": list(table.operations),
                "error": table.reason,
            }
            for table in result.tables
        ],
        "commit": result.commit_id,
        "breaks": list(result.breaks),
    }


def warm_servers(servers: Sequence[JsonObject], idle_s: float | None, last_cold: str | None) -> JsonObject:
    return {"enabled": idle_s is not None, "servers": list(servers), "last_cold": last_cold}
