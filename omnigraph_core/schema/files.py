"""How a type looks in files: the formats there are, and what the columns of one type are called.

A file of one type has the properties under their names, `id`, and for edges the ends as
`from` and `to`. Properties may be called `from` or `to` too; then the ends are `src` and
`dst`, which no property can be called.
"""

from __future__ import annotations

from enum import StrEnum

from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN, EdgeType, EntityType

_FROM, _TO = "from", "to"


class Format(StrEnum):
    """How records are written in a file; the value is the name users write."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


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
