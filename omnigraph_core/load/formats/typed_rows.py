"""What every reader produces: rows of one type, each with its line."""

from __future__ import annotations

import pyarrow as pa

from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType
from omnigraph_core.schema.arrow import table_schema


@dataclass(frozen=True, slots=True)
class TypedRows:
    """Rows of one type from one stretch of one input.

    `rows` has exactly the columns of `schema.arrow.table_schema(entity)`, in its order
    and types, but is not validated: required columns may hold nulls. `id` is null
    where the record gave none; for a keyed node it is the canonical id, null only
    where a key member is. `lines` (int64, from 1) says where in `source` each row was.
    `given` is the id a keyed node came with where it is the canonical one with its members
    in another order, else null; None if that is so nowhere.
    """

    entity: EntityType
    rows: pa.Table
    source: str
    lines: pa.Array
    given: pa.Array | None = None


def no_rows(entity: EntityType, source: str) -> TypedRows:
    """What a file without records produces: overwriting with it empties the type."""
    return TypedRows(entity, table_schema(entity).empty_table(), source, pa.array([], pa.int64()))
