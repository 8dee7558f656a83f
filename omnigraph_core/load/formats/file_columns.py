"""The columns of a file that holds one type: which are allowed, and which are required."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from omnigraph_core.load.formats.limits import COLUMNS_SHOWN_MAX
from omnigraph_core.load.formats.record import RESERVED, near_miss
from omnigraph_core.rules.violations import InvalidRecords, Violation
from omnigraph_core.schema import EntityType, default_of
from omnigraph_core.schema.files import end_columns, file_columns
from omnigraph_core.values.shown import clipped


def check_columns(names: Sequence[str], entity: EntityType, source: str, line: int | None) -> None:
    """Raise one InvalidRecords that lists everything wrong with the columns of a file."""
    violations: list[Violation] = []

    def wrong(message: str, name: str) -> None:
        violations.append(Violation(message, source, line, entity.name, name))

    known, counts = file_columns(entity), Counter(names)
    for name, count in counts.items():
        if count > 1:
            wrong(f"column '{clipped(name)}' occurs {count} times", clipped(name))
        if name not in known:
            wrong(_unknown(name, entity, tuple(known)), clipped(name))
        if len(violations) > COLUMNS_SHOWN_MAX:
            break
    for name in (*end_columns(entity), *_needed(entity)):
        if name not in counts:
            wrong(f"required column '{name}' is missing", name)
    if violations:
        raise InvalidRecords(tuple(violations), len(violations))


def _needed(entity: EntityType) -> list[str]:
    """The properties that every file gives: no null is allowed, and no default stands in."""
    return [prop.name for prop in entity.properties if not prop.type.nullable and default_of(prop) is None]


def _unknown(name: str, entity: EntityType, known: tuple[str, ...]) -> str:
    if not name:
        return "a column has no name"
    if name in RESERVED:
        return f"'{name}' is a reserved name"
    close = near_miss(name, known)
    return f"unknown column '{clipped(name)}'{close or f' (columns are: {clipped(chr(44).join(known))})'}"
