"""Which properties two states of a type have in common, whatever they are called by now."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from omnigraph_core.records import dataclass
from omnigraph_core.schema import EdgeType, EntityType, Property
from omnigraph_core.schema.evolve.types import type_refusal
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.lineage import common_columns


@dataclass(frozen=True, slots=True)
class Side:
    """A type as one state of the graph has it: what it declares, and its table."""

    entity: EntityType
    table: Table


@dataclass(frozen=True, slots=True)
class SharedColumn:
    """A column that both sides have, with values that can be compared."""

    before: str
    after: str


class SchemaChange(StrEnum):
    """How the types and properties of two states differ. What rules say is no part of it."""

    TYPE_ADDED = "type_added"
    TYPE_REMOVED = "type_removed"
    TYPE_RENAMED = "type_renamed"
    PROPERTY_ADDED = "property_added"
    PROPERTY_REMOVED = "property_removed"
    PROPERTY_RENAMED = "property_renamed"
    PROPERTY_CHANGED = "property_changed"
    """Its type is another one. Where one is wider than the other, values are still compared."""


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """One of these, in a type that the later state (or else the earlier one) calls `entity.name`."""

    change: SchemaChange
    entity: EntityType
    property: str | None = None
    was: str | None = None
    """The old name, or the old type, of what has another one."""
    now: str | None = None


def fixed_columns(entity: EntityType) -> tuple[str, ...]:
    return (ID_COLUMN, SRC_COLUMN, DST_COLUMN) if isinstance(entity, EdgeType) else (ID_COLUMN,)


def shared_columns(tables: Tables, before: Side, after: Side) -> tuple[SharedColumn, ...]:
    """What both have beside `id`, in the order of the later state."""
    ends = [SharedColumn(name, name) for name in fixed_columns(after.entity)[1:]]
    matched = matched_properties(tables, before, after)
    comparable = [(old, new) for old, new in matched if are_comparable(old, new)]
    return (*ends, *(SharedColumn(old.name, new.name) for old, new in comparable))


def stored_pairs(tables: Tables, before: Side, after: Side) -> list[tuple[str, str]]:
    """The columns to compare, by the names that either side has for them."""
    return [(each.before, each.after) for each in shared_columns(tables, before, after)]


def property_differences(tables: Tables, before: Side, after: Side) -> list[SchemaDifference]:
    matched = matched_properties(tables, before, after)
    found = []
    entity = after.entity
    for old, new in matched:
        if old.name != new.name:
            renamed = SchemaChange.PROPERTY_RENAMED
            found.append(SchemaDifference(renamed, entity, new.name, old.name, new.name))
        if old.type != new.type:
            changed = SchemaChange.PROPERTY_CHANGED
            found.append(SchemaDifference(changed, entity, new.name, str(old.type), str(new.type)))
    kept = {old.name for old, _ in matched}
    for prop in before.entity.properties:
        if prop.name not in kept:
            found.append(SchemaDifference(SchemaChange.PROPERTY_REMOVED, entity, prop.name, str(prop.type)))
    known = {new.name for _, new in matched}
    for prop in after.entity.properties:
        if prop.name not in known:
            added = SchemaChange.PROPERTY_ADDED
            found.append(SchemaDifference(added, entity, prop.name, now=str(prop.type)))
    return found


def matched_properties(tables: Tables, before: Side, after: Side) -> Sequence[tuple[Property, Property]]:
    """Properties that are the same one on both sides, by the later state's names.

    Where both declare the same, they are what they are called: that names were exchanged on the
    way shows in the rows.
    """
    old, new = before.entity, after.entity
    if old.properties == new.properties:
        return [(prop, prop) for prop in new.properties]
    by_now = {theirs: mine for mine, theirs in common_columns(tables, before.table, after.table)}
    pairs = [(old.find_property(by_now.get(prop.name, "")), prop) for prop in new.properties]
    return [(was, prop) for was, prop in pairs if was is not None]


def same_properties(tables: Tables, before: Side, after: Side) -> dict[str, str]:
    """Properties that are the same stored column on both sides: the later name, then the earlier.

    A name that was given up and used again is no sign of it.
    """
    by_now = {
        theirs: mine for mine, theirs in common_columns(tables, before.table, after.table, strictly=True)
    }
    found = {prop.name: by_now.get(prop.name, "") for prop in after.entity.properties}
    return {name: was for name, was in found.items() if before.entity.find_property(was) is not None}


def are_comparable(old: Property, new: Property) -> bool:
    """Are they of one type, or is one of the types wider?"""
    return any(
        type_refusal(one.type, other.type, in_key=False) is None for one, other in ((old, new), (new, old))
    )
