"""Shapes of a graph as a whole, of failures and of the program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from omnigraph_core.shapes.json_object import JsonObject

if TYPE_CHECKING:
    from omnigraph_core.errors import OmnigraphError
    from omnigraph_core.maintenance.adoption.found import Adopted
    from omnigraph_core.manifest.snapshot import Snapshot
    from omnigraph_core.storage import LockHolder
    from omnigraph_core.write.sidecar_record import Sidecar, SidecarUnreadable


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
        "branch": of.shown_branch,
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


def status(
    uri: str,
    because: str,
    of: Snapshot,
    branches: Sequence[str],
    pending: Iterable[Sidecar],
    unreadable: Iterable[SidecarUnreadable],
    holders: Mapping[str, LockHolder],
) -> JsonObject:
    """`because` says where the graph's place was found; `holders` are by branch."""
    return {
        "uri": uri,
        "from": because,
        "branch": of.shown_branch,
        "graph_commit_id": of.head.commit_id if of.head else None,
        "manifest_version": of.manifest_version,
        "made_by": "original" if of.head is None or of.head.is_original else "omnigraph",
        "branches": list(branches),
        "tables": [
            {"table_key": entry.table_key, "row_count": entry.row_count} for entry in of.tables.values()
        ],
        "pending": [
            {"operation_id": each.operation_id, "branch": each.branch, "actor_id": each.actor_id}
            for each in pending
        ],
        "unreadable": [{"path": each.path, "error": str(each)} for each in unreadable],
        "locks": [{"branch": name, **holder.as_json()} for name, holder in holders.items()],
    }


def relocated(uri: str, files_changed: int) -> JsonObject:
    return {"uri": uri, "files_changed": files_changed}


def adopted(of: Adopted, uri: str) -> JsonObject:
    """A plan has no commit, and neither has a graph that was ours already."""
    return {
        "uri": uri,
        "was_original": of.is_original,
        "graph_commit_id": of.commit_id,
        "branches": [
            {
                "branch": each.name,
                "graph_commit_id": each.head,
                "is_moved": each.is_moved,
                "problem": each.problem,
            }
            for each in of.branches
        ],
        "tables": [
            {
                "branch": each.branch,
                "table_key": each.table_key,
                "published_version": each.published_version,
                "table_version": each.version,
                "versions_put_back": each.drift,
                "empty_blobs": each.empty_blobs,
                "indexes": list(each.indexes),
                "problem": each.problem,
            }
            for each in of.tables
        ],
        "unreadable_commits": [
            {"graph_commit_id": each.commit_id, "reason": each.reason} for each in of.lost
        ],
    }


def spark_package(file: str, modules: int, needs: Sequence[str]) -> JsonObject:
    return {"file": file, "modules": modules, "needs": list(needs)}


def version(omnigraph: str, internal_schema: int) -> JsonObject:
    return {"omnigraph": omnigraph, "internal_schema": internal_schema}
