"""Conflicts: what a merge cannot decide, with base, ours and theirs; as lines of JSON and back.

All conflicts of a merge are collected before it is refused. Their order is that of table keys,
ids and properties, and those about several entities come last in their table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from omnigraph_core.errors import BadDataError
from omnigraph_core.jsontext import parse_json
from omnigraph_core.layout import EntityKind, table_key
from omnigraph_core.records import dataclass


class ConflictKind(StrEnum):
    DIVERGENT_INSERT = "divergent_insert"
    """Both sides made an entity of this id, and not alike."""
    DIVERGENT_UPDATE = "divergent_update"
    """Both sides changed this property, and not alike; without a property, the ends of an edge."""
    DELETE_VS_UPDATE = "delete_vs_update"
    """One side deleted the entity, the other changed it."""
    ORPHAN_EDGE = "orphan_edge"
    """An end of the edge no longer exists."""
    UNIQUE_VIOLATION = "unique_violation"
    CARDINALITY_VIOLATION = "cardinality_violation"
    VALUE_CONSTRAINT_VIOLATION = "value_constraint_violation"


# Of one entity: a side of it can be taken.
ROW_KINDS = (ConflictKind.DIVERGENT_INSERT, ConflictKind.DIVERGENT_UPDATE, ConflictKind.DELETE_VS_UPDATE)


class Take(StrEnum):
    """What a choice is."""

    OURS = "ours"
    THEIRS = "theirs"
    DELETE = "delete"
    KEEP_NODE = "keep_node"
    VALUE = "value"


def choices_for(kind: ConflictKind) -> tuple[Take, ...]:
    """None for conflicts about several entities: what settles the others may settle them."""
    if kind in ROW_KINDS:
        return (Take.OURS, Take.THEIRS, Take.DELETE, Take.VALUE)
    return (Take.KEEP_NODE, Take.DELETE) if kind is ConflictKind.ORPHAN_EDGE else ()


@dataclass(frozen=True, slots=True)
class Heads:
    """The two commits that a merge was about: the head of the branch, and the other one.

    The other one of a revert is the commit to take back.
    """

    ours: str
    theirs: str

    def as_json(self) -> dict[str, str]:
        return {"ours": self.ours, "theirs": self.theirs}


@dataclass(frozen=True, slots=True)
class Conflict:
    """One of them. Values are JSON-ready: of the property, or of all properties by name.

    A side that has no such entity has None. So has a base of several commits that do not agree.
    """

    kind: ConflictKind
    entity_kind: EntityKind
    type_name: str
    entity_id: str | None
    """None for a conflict about several entities."""
    property_name: str | None
    base: Any
    ours: Any
    theirs: Any
    message: str

    @property
    def table_key(self) -> str:
        return table_key(self.entity_kind, self.type_name)

    @property
    def identity(self) -> tuple[str, str, str | None, str | None]:
        """What a resolution names it by: one merge has each of these once, but for set-level kinds."""
        return (self.kind, self.table_key, self.entity_id, self.property_name)

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "entity_kind": self.entity_kind,
            "type_name": self.type_name,
            "entity_id": self.entity_id,
            "property": self.property_name,
            "base": self.base,
            "ours": self.ours,
            "theirs": self.theirs,
            "message": self.message,
        }


def in_order(conflicts: Iterable[Conflict]) -> list[Conflict]:
    return sorted(conflicts, key=_order)


def _order(conflict: Conflict) -> tuple[str, bool, str, str, str, str]:
    is_set_level = conflict.entity_id is None
    entity_id, name = conflict.entity_id or "", conflict.property_name or ""
    # Those of one entity come as they were found: the source of an edge before its target.
    message = conflict.message if is_set_level else ""
    return (conflict.table_key, is_set_level, entity_id, name, conflict.kind, message)


def conflict_lines(conflicts: Iterable[Conflict], heads: Heads) -> Iterator[str]:
    """Lines for a file; each says what heads it is about, so that it can be taken back, has a place
    for the choice, and names those there are."""
    for conflict in conflicts:
        choices = [take.value for take in choices_for(conflict.kind)]
        line = {"choice": None, "choices": choices, **conflict.as_json(), "heads": heads.as_json()}
        yield json.dumps(line, ensure_ascii=False) + "\n"


def shown(conflict: Conflict) -> str:
    """A conflict in one line: what it is about and, of a property, its values."""
    text = f"{conflict.table_key}: {conflict.message}"
    if conflict.kind is not ConflictKind.DIVERGENT_UPDATE:
        return text
    base, ours, theirs = (_short(each) for each in (conflict.base, conflict.ours, conflict.theirs))
    return f"{text} (base {base}, ours {ours}, theirs {theirs})"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


_SHOWN_CHARACTERS = 40


def read_heads(content: Mapping[str, Any], subject: str) -> Heads:
    """The heads that a line was written for."""
    found = content.get("heads")
    if not isinstance(found, dict) or not all(isinstance(found.get(key), str) for key in ("ours", "theirs")):
        raise BadDataError(f"{subject}: it does not say which heads it was made for")
    return Heads(found["ours"], found["theirs"])


def read_conflict(content: Any) -> Conflict:
    """A conflict from a parsed line; other keys beside it (a choice, say) are the caller's business."""
    try:
        return _read(content)
    except (KeyError, TypeError, ValueError) as error:
        raise BadDataError(f"this is not a conflict as a merge writes it: {error}") from error


def read_conflict_lines(lines: Iterable[str], name: str) -> Iterator[tuple[Conflict, Mapping[str, Any]]]:
    """The conflicts of a file, each with everything its line says; blank lines are skipped."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            content = parse_json(line.encode())
            yield read_conflict(content), content
        except (ValueError, BadDataError) as error:
            raise BadDataError(f"{name}:{number}: {error}") from error


def _read(content: Mapping[str, Any]) -> Conflict:
    kind = ConflictKind(content["kind"])
    if content["entity_kind"] not in ("node", "edge"):
        raise ValueError(f"entity_kind is {content['entity_kind']!r}")
    for key in ("type_name", "message"):
        if not isinstance(content[key], str):
            raise TypeError(f"{key} is no text")
    for key in ("entity_id", "property"):
        if not isinstance(content[key], str | None):
            raise TypeError(f"{key} must be text or null")
    return Conflict(
        kind=kind,
        entity_kind=content["entity_kind"],
        type_name=content["type_name"],
        entity_id=content["entity_id"],
        property_name=content["property"],
        base=content["base"],
        ours=content["ours"],
        theirs=content["theirs"],
        message=content["message"],
    )
