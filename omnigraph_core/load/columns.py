"""The columns of a file of one type: which it may have, and which it must have."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph_core.change.coerce import clipped
from omnigraph_core.change.violations import InvalidRecords, Violation
from omnigraph_core.load.exact import RESERVED, near_miss
from omnigraph_core.schema import EntityType
from omnigraph_core.schema.files import end_columns, file_columns


def check_columns(names: Sequence[str], entity: EntityType, source: str, line: int | None) -> None:
    """Raise one InvalidRecords with all that is wrong with the columns of a file."""
    violations: list[Violation] = []

    def wrong(message: str, name: str) -> None:
        violations.append(Violation(message, source, line, entity.name, name))

    known = file_columns(entity)
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            wrong(f"there are {names.count(name)} columns '{clipped(name)}'", clipped(name))
        if name not in known:
            wrong(_unknown(name, entity, tuple(known)), clipped(name))
    required = [*end_columns(entity), *(prop.name for prop in entity.properties if not prop.type.nullable)]
    for name in required:
        if name not in names:
            wrong(f"the column '{name}' is missing, which is required", name)
    if violations:
        raise InvalidRecords(tuple(violations), len(violations))


def _unknown(name: str, entity: EntityType, known: tuple[str, ...]) -> str:
    if not name:
        return "a column has no name"
    if name in RESERVED:
        return f"'{name}' is a reserved name"
    close = near_miss(name, known)
    return f"unknown column '{clipped(name)}'{close or f' (columns are: {clipped(chr(44).join(known))})'}"
