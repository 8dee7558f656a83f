"""Shapes of differences between two states of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from omnigraph_core.shapes.json_object import JsonObject
from omnigraph_core.shapes.reads import value

if TYPE_CHECKING:
    from omnigraph_core.diff.columns import SchemaDifference
    from omnigraph_core.diff.records import EntityChange
    from omnigraph_core.diff.tables import Counts
    from omnigraph_core.manifest.snapshot import Snapshot


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
        "branch": of.shown_branch,
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
