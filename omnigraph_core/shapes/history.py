"""Shapes of branches, tags and commits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from omnigraph_core.manifest.seal import SEAL, STATE
from omnigraph_core.shapes.json_object import JsonObject
from omnigraph_core.shapes.reads import value

if TYPE_CHECKING:
    from omnigraph_core.diff.entity import Blame, Origin
    from omnigraph_core.diff.touches import Unknown
    from omnigraph_core.history.deleted import DeletedBranch
    from omnigraph_core.history.log import GraphCommit
    from omnigraph_core.history.removed import Removals
    from omnigraph_core.history.tags import Tag

_DIGESTS = ("files", SEAL, STATE)


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


def branch_renamed(uri: str, old: str, new: str, actor: str) -> JsonObject:
    return {"uri": uri, "old_name": old, "name": new, "actor_id": actor}


def branch_undeleted(uri: str, name: str, of: DeletedBranch, actor: str) -> JsonObject:
    return {"uri": uri, "name": name, "graph_commit_id": of.head, "actor_id": actor}


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
        "manifest_branch": of.shown_branch,
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
    """A commit in a listing: without digests, of which there may be many."""
    content = commit(of, removals)
    details = content["details"]
    if isinstance(details, dict):
        content["details"] = {key: value for key, value in details.items() if key not in _DIGESTS} or None
    return content


def unknown_changes(unknown: Iterable[Unknown]) -> JsonObject:
    """Where nobody can tell which commits changed what was asked about."""
    return {"unknown": [{"graph_commit_id": each.commit.commit_id, "limit": each.limit} for each in unknown]}


def blame(of: Blame) -> JsonObject:
    return {
        "entity_kind": of.entity.kind,
        "type_name": of.entity.name,
        "entity_id": of.entity_id,
        "graph_commit_id": of.commit.commit_id,
        "properties": [origin(each) for each in of.origins],
    }


def origin(of: Origin) -> JsonObject:
    """One property, and the commit that gave it its value."""
    return {
        "property": of.property,
        "value": value(of.value),
        "graph_commit_id": of.commit.commit_id,
        "manifest_branch": of.commit.shown_branch,
        "actor_id": of.commit.actor_id,
        "created_at": of.commit.created_at,
        "operation": of.commit.operation,
        "message": of.commit.message,
        "known_as": of.known_as,
        "limit": of.limit,
    }
