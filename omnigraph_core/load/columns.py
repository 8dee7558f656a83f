"""The columns of a file of one type: what they are called, which it may and must have.

A file has the properties under their names, an optional `id`, and for edges the ends as
`from` and `to`. Properties may be called `from` or `to` too; then the ends are `src` and
`dst`, which no property can be called.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph_core.change.coerce import clipped
from omnigraph_core.change.violations import InvalidRecords, Violation
from omnigraph_core.load.exact import RESERVED, near_miss
from omnigraph_core.schema import EdgeType, EntityType
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN

_FROM, _TO = "from", "to"


def file_columns(entity: EntityType) -> dict[str, str]:
    """The column of the table for each column a file may have, in the order of the table."""
    properties = {prop.name: prop.name for prop in entity.properties}
    return {ID_COLUMN: ID_COLUMN, **end_columns(entity), **properties}


def end_columns(entity: EntityType) -> dict[str, str]:
    """The columns of a file with the ends of an edge, and where they go; none for a node."""
    if not isinstance(entity, EdgeType):
        return {}
    if entity.find_property(_FROM) or entity.find_property(_TO):
        return {SRC_COLUMN: SRC_COLUMN, DST_COLUMN: DST_COLUMN}
    return {_FROM: SRC_COLUMN, _TO: DST_COLUMN}


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
