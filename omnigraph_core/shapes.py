"""Every JSON shape OmniGraph answers with: domain object in, JSON-ready dict out.

The command line prints these as JSON; a server could send the same. Keys are only
ever added, and docs/json.md lists them all. The functions are pure, and domain types are
imported for the type checker alone, so that importing this module costs next to nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_core.values.as_json import as_json

if TYPE_CHECKING:
    from omnigraph_core.catalog.files import Catalog
    from omnigraph_core.change.mutate import Changed
    from omnigraph_core.diff.columns import SchemaDifference
    from omnigraph_core.diff.records import EntityChange
    from omnigraph_core.diff.tables import Counts
    from omnigraph_core.errors import OmnigraphError
    from omnigraph_core.history.deleted import DeletedBranch
    from omnigraph_core.history.log import GraphCommit
    from omnigraph_core.history.recoveries import Recovery, TableOutcome
    from omnigraph_core.history.removed import Removals
    from omnigraph_core.history.tags import Tag
    from omnigraph_core.load.run import Loaded
    from omnigraph_core.maintenance.cleanup import Cleaned
    from omnigraph_core.maintenance.doctor import Finding as Diagnosis
    from omnigraph_core.maintenance.optimize import Optimized
    from omnigraph_core.maintenance.repair import Repaired
    from omnigraph_core.manifest.snapshot import Snapshot
    from omnigraph_core.merge.run import Merged
    from omnigraph_core.migrate.apply import Applied
    from omnigraph_core.query.lint import Finding, LintReport
    from omnigraph_core.query.lint import QueryResult as LintedQuery
    from omnigraph_core.query.operation import Operation, ResultField, TouchedType
    from omnigraph_core.read.answer.result import QueryResult
    from omnigraph_core.read.blob import Blob
    from omnigraph_core.schema.evolve import MigrationPlan
    from omnigraph_core.storage import LockHolder
    from omnigraph_core.write.sidecar import Sidecar
    from omnigraph_core.write.sweep import SweepReport

JsonObject = dict[str, object]


def failure(error: OmnigraphError) -> JsonObject:
    """A failure, with the error's own facts beside it."""
    shown: JsonObject = {
        "error": error.message,
        "code": error.kind.value,
        "retryable": error.retryable,
        "hint": error.hint,
    }
    if error.field is not None:
        shown["field"] = error.field
    return {**shown, **error.details()}


def initialized(uri: str, snapshot: Snapshot, config: str | None) -> JsonObject:
    """A new graph; `config` is the config file written for it, if any."""
    head = snapshot.head
    return {
        "uri": uri,
        "commit": head.commit_id if head else None,
        "manifest_version": snapshot.manifest_version,
        "schema_hash": head.schema_hash if head else None,
        "tables": sorted(snapshot.tables),
        "config": config,
    }


def snapshot(of: Snapshot, internal_schema_version: int) -> JsonObject:
    return {
        "branch": of.branch,
        "manifest_version": of.manifest_version,
        "graph_commit_id": of.head.commit_id if of.head else None,
        "internal_schema_version": internal_schema_version,
        "tables": [
            {
                "table_key": entry.table_key,
                "table_path": entry.table_path,
                "table_version": entry.table_version,
                "table_branch": entry.table_branch,
                "row_count": entry.row_count,
            }
            for entry in of.tables.values()
        ],
    }


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


def query_head(result: QueryResult) -> JsonObject:
    """Everything about an answer but its `rows`, which follow."""
    return {
        "query_name": result.query_name,
        "target": _target(result),
        "graph_commit_id": result.graph_commit_id,
        "row_count": result.row_count,
        "columns": result.columns,
    }


def query_metadata(result: QueryResult) -> JsonObject:
    """The first line of an answer in JSON lines."""
    return {
        "kind": "metadata",
        "query_name": result.query_name,
        "target": _target(result),
        "row_count": result.row_count,
    }


def query_plan(result: QueryResult) -> JsonObject:
    return {"query_name": result.query_name, "plan": list(result.plan)}


def value(of: Any) -> object:
    """A value as JSON has it; numbers that are not finite are `NaN`, `Infinity`, `-Infinity`."""
    return as_json(of)


def _target(result: QueryResult) -> JsonObject:
    return {"branch": result.target.branch, "snapshot": result.target.snapshot}


def lint_report(report: LintReport, schema_source: Mapping[str, str], query_path: str) -> JsonObject:
    """`schema_source` and `query_path` say where the texts came from."""
    return {
        "status": _status(report.ok),
        "schema_source": dict(schema_source),
        "query_path": query_path,
        "queries_processed": len(report.results),
        "errors": report.errors,
        "warnings": report.warnings,
        "infos": report.infos,
        "results": [_linted(result) for result in report.results],
        "findings": [_finding(finding) for finding in report.findings],
    }


def _linted(result: LintedQuery) -> JsonObject:
    shown: JsonObject = {"name": result.name, "kind": result.kind, "status": _status(result.ok)}
    if result.warnings:
        shown["warnings"] = list(result.warnings)
    if result.error is not None:
        shown["error"] = result.error
    if result.operation is not None:
        shown["operation"] = _operation(result.operation)
    return shown


def _operation(operation: Operation) -> JsonObject:
    return {
        "result": [_result_field(field) for field in operation.result],
        "reads": [_touched(each) for each in operation.reads],
        "writes": [_touched(each) for each in operation.writes],
    }


def _result_field(field: ResultField) -> JsonObject:
    shown: JsonObject = {"name": field.name, "kind": field.kind, "nullable": field.nullable}
    if field.item_kind is not None:
        shown["item_kind"] = field.item_kind
    if field.vector_dim is not None:
        shown["vector_dim"] = field.vector_dim
    return shown


def _touched(touched: TouchedType) -> JsonObject:
    return {"kind": touched.kind, "type_name": touched.type_name}


def _finding(finding: Finding) -> JsonObject:
    shown: JsonObject = {
        "severity": finding.severity,
        "code": finding.code,
        "message": finding.message,
    }
    if finding.type_name is not None:
        shown["type_name"] = finding.type_name
    if finding.property is not None:
        shown["property"] = finding.property
    if finding.query_names:
        shown["query_names"] = list(finding.query_names)
    return shown


def _status(ok: bool) -> str:
    return "ok" if ok else "error"


def blob(of: Blob) -> JsonObject:
    return {"type": of.type_name, "id": of.entity_id, "property": of.property_name, "size": of.size}


def status(
    uri: str,
    because: str,
    of: Snapshot,
    branches: Sequence[str],
    pending: Iterable[Sidecar],
    holders: Mapping[str, LockHolder],
) -> JsonObject:
    """`because` says where the graph's place was found; `holders` are by branch."""
    return {
        "uri": uri,
        "from": because,
        "branch": of.branch,
        "graph_commit_id": of.head.commit_id if of.head else None,
        "manifest_version": of.manifest_version,
        "branches": list(branches),
        "tables": [
            {"table_key": entry.table_key, "row_count": entry.row_count} for entry in of.tables.values()
        ],
        "pending": [
            {"operation_id": each.operation_id, "branch": each.branch, "actor_id": each.actor_id}
            for each in pending
        ],
        "locks": [{"branch": name, **holder.as_json()} for name, holder in holders.items()],
    }


def branch_created(uri: str, name: str, source: str, actor: str, start: GraphCommit) -> JsonObject:
    """`source` is the ref it starts from, as given, and `start` the commit that is."""
    return {
        "uri": uri,
        "from": source,
        "name": name,
        "actor_id": actor,
        "graph_commit_id": start.commit_id,
    }


def branch_list(names: Sequence[str]) -> JsonObject:
    return {"branches": list(names)}


def branch_deleted(uri: str, name: str, actor: str) -> JsonObject:
    return {"uri": uri, "name": name, "actor_id": actor}


def branch_undeleted(uri: str, of: DeletedBranch, actor: str) -> JsonObject:
    return {"uri": uri, "name": of.name, "graph_commit_id": of.head, "actor_id": actor}


def tag(of: Tag) -> JsonObject:
    return {
        "name": of.name,
        "graph_commit_id": of.commit_id,
        "manifest_branch": of.branch,
        "manifest_version": of.manifest_version,
        "actor_id": of.actor_id,
        "message": of.message,
        "created_at": of.created_at,
    }


def tag_created(of: Tag, uri: str) -> JsonObject:
    return {"uri": uri, **tag(of)}


def tag_list(tags: Iterable[Tag]) -> JsonObject:
    return {"tags": [tag(each) for each in tags]}


def tag_deleted(name: str, of: Tag | None, uri: str, actor: str) -> JsonObject:
    """`of` is what it was, if that could be read."""
    commit_id = None if of is None else of.commit_id
    return {"uri": uri, "name": name, "graph_commit_id": commit_id, "actor_id": actor}


def commit(of: GraphCommit, removals: Removals) -> JsonObject:
    return {
        "graph_commit_id": of.commit_id,
        "manifest_branch": of.branch,
        "manifest_version": of.manifest_version,
        "parent_commit_id": of.parent_commit_id,
        "merged_parent_commit_id": of.merged_parent_commit_id,
        "actor_id": of.actor_id,
        "created_at": of.created_at,
        "operation": of.operation,
        "message": of.message,
        "schema_hash": of.schema_hash,
        "details": json.loads(of.details) if of.details else None,
        "removed": removals.removed_at(of) is not None,
    }


def commit_list(commits: Iterable[GraphCommit], removals: Removals) -> JsonObject:
    return {"commits": [_listed_commit(each, removals) for each in commits]}


def _listed_commit(of: GraphCommit, removals: Removals) -> JsonObject:
    """A commit in a listing: without the digests of its files, of which there may be many."""
    content = commit(of, removals)
    details = content["details"]
    if isinstance(details, dict):
        content["details"] = {key: value for key, value in details.items() if key != "files"} or None
    return content


def diff_head(before: Snapshot, after: Snapshot, schema: Iterable[SchemaDifference]) -> JsonObject:
    """What a difference starts with; `changes` follow, and then the counts."""
    return {
        "from": _compared(before),
        "to": _compared(after),
        "schema": [schema_difference(each) for each in schema],
    }


def diff_counts(counts: Mapping[str, Counts]) -> JsonObject:
    """How many entities differ, by table key and in all."""
    return {
        "tables": [_counted(table_key, each) for table_key, each in counts.items()],
        "inserted": sum(each.inserted for each in counts.values()),
        "updated": sum(each.updated for each in counts.values()),
        "deleted": sum(each.deleted for each in counts.values()),
    }


def _compared(of: Snapshot) -> JsonObject:
    return {
        "branch": of.branch,
        "graph_commit_id": of.head.commit_id if of.head else None,
        "manifest_version": of.manifest_version,
    }


def _counted(table_key: str, counts: Counts) -> JsonObject:
    kind, _, name = table_key.partition(":")
    return {
        "table_key": table_key,
        "entity_kind": kind,
        "type_name": name,
        "inserted": counts.inserted,
        "updated": counts.updated,
        "deleted": counts.deleted,
    }


def schema_difference(of: SchemaDifference) -> JsonObject:
    return {
        "op": "schema",
        "change": of.change.value,
        "entity_kind": of.entity.kind,
        "type_name": of.entity.name,
        "property": of.property,
        "was": of.was,
        "now": of.now,
    }


def entity_change(of: EntityChange) -> JsonObject:
    """One entity of a difference; an update has the properties that differ."""
    shown: JsonObject = {
        "op": of.op.value,
        "entity_kind": of.entity.kind,
        "type_name": of.entity.name,
        "entity_id": of.entity_id,
    }
    if of.before is not None:
        shown["before"] = {name: value(each) for name, each in of.before.items()}
    if of.after is not None:
        shown["after"] = {name: value(each) for name, each in of.after.items()}
    return shown


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


def recovery_list(pending: Iterable[Sidecar], done: Iterable[Recovery]) -> JsonObject:
    return {
        "pending": [pending_write(sidecar) for sidecar in pending],
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
        "conflicts": [each.as_json() for each in result.conflicts],
        "actor_id": actor,
        "warnings": list(result.warnings),
        "dry_run": dry_run,
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
                "indexes": list(table.indexes),
                "bytes_written": table.bytes_written,
                "committed": table.committed,
                "skipped": table.skipped.value if table.skipped else None,
            }
            for result in results
            for table in result.tables
        ],
        "commits": [commit for result in results for commit in result.commit_ids],
        "warnings": [warning for result in results for warning in result.warnings],
        "dry_run": dry_run,
    }


def cleaned(result: Cleaned, uri: str, *, dry_run: bool) -> JsonObject:
    """One run of cleanup: each lineage of which something went, or would go."""
    return {
        "uri": uri,
        "tables": [
            {
                "table_key": table.table_key,
                "branch": table.branch,
                "action": table.action,
                "versions_removed": table.versions,
                "versions_left": table.versions_left,
                "files_removed": table.files,
                "bytes_removed": table.bytes,
                "error": table.error,
            }
            for table in result.tables
        ],
        "commits_removed": result.commits_removed,
        "commits_left": result.commits_left,
        "dry_run": dry_run,
    }


def findings(found: Sequence[Diagnosis], uri: str) -> JsonObject:
    """What doctor found."""
    return {
        "uri": uri,
        "findings": [
            {
                "check": each.check,
                "severity": each.severity.value,
                "subject": each.subject,
                "message": each.message,
                "fix": each.fix,
            }
            for each in found
        ],
    }


def repaired(result: Repaired, uri: str) -> JsonObject:
    return {
        "uri": uri,
        "branch": result.branch,
        "tables": [
            {
                "table_key": table.table_key,
                "manifest_version": table.published_version,
                "head_version": table.head_version,
                "classification": table.classification.value,
                "action": table.action.value,
                "operations": list(table.operations),
                "reason": table.reason,
            }
            for table in result.tables
        ],
        "commit": result.commit_id,
    }


def relocated(uri: str, files_changed: int) -> JsonObject:
    return {"uri": uri, "files_changed": files_changed}


def schema(catalog: Catalog) -> JsonObject:
    return {"schema_source": catalog.source, "schema_hash": catalog.schema_hash}


def schema_plan(plan: MigrationPlan, uri: str, branch: str) -> JsonObject:
    return {"uri": uri, "branch": branch, **_migration(plan)}


def schema_applied(done: Applied, uri: str, actor: str) -> JsonObject:
    """`applied` is false when the branch had the schema already; then there is no commit."""
    return {
        "uri": uri,
        "branch": done.snapshot.branch,
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


def spark_package(file: str, modules: int, needs: Sequence[str]) -> JsonObject:
    return {"file": file, "modules": modules, "needs": list(needs)}


def version(omnigraph: str, internal_schema: int) -> JsonObject:
    return {"omnigraph": omnigraph, "internal_schema": internal_schema}
