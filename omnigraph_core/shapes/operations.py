"""Shapes of the log of operations, and of what undo answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from omnigraph_core.shapes.json_object import JsonObject

if TYPE_CHECKING:
    from omnigraph_core.history.operations import Operation, Point
    from omnigraph_core.merge.undo import Undone


def operation_log(operations: Iterable[Operation]) -> JsonObject:
    return {"operations": [operation(each) for each in operations]}


def operation(of: Operation) -> JsonObject:
    return {
        "operation_id": of.operation_id,
        "operation": of.kind,
        "before": _point(of.before),
        "after": _point(of.after),
        "undoes": of.undoes,
        "actor_id": of.actor_id,
        "created_at": of.created_at,
        "message": of.message,
    }


def _point(of: Point | None) -> JsonObject | None:
    """Where a branch or a tag was; null where it was not."""
    if of is None:
        return None
    return {"tag" if of.is_tag else "branch": of.name, "graph_commit_id": of.commit_id}


def undone(of: Undone, uri: str, actor: str) -> JsonObject:
    return {
        "uri": uri,
        "operation_id": of.operation_id,
        "undone": operation(of.operation),
        "actor_id": actor,
        "commit": None if of.merged is None else of.merged.commit_id,
        "warnings": [] if of.merged is None else list(of.merged.warnings),
    }
