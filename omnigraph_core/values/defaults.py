"""`@default(value)` as columns hold it: what a property takes where a record does not mention it."""

from __future__ import annotations

import pyarrow as pa

from omnigraph_core.schema import EntityType, Property, default_of
from omnigraph_core.schema.arrow import arrow_type
from omnigraph_core.values.coerce import coerce
from omnigraph_core.values.columns import column


def default_values(entity: EntityType) -> dict[str, object]:
    """The coerced default of every property that has one, by its name."""
    found = ((prop, default_of(prop)) for prop in entity.properties)
    return {prop.name: coerce(value, prop.type) for prop, value in found if value is not None}


def default_scalar(prop: Property) -> pa.Scalar | None:
    """The default as an Arrow value of the type of the property's column; None without one."""
    value = default_of(prop)
    return None if value is None else column([coerce(value, prop.type)], prop)[0]


def absent_column(prop: Property, rows: int) -> pa.Array:
    """A column of which no record says anything: the default in every row, else null."""
    value = default_scalar(prop)
    return pa.nulls(rows, arrow_type(prop.type)) if value is None else pa.repeat(value, rows)
