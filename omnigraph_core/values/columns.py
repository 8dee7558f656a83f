"""Coerced values as Arrow columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.schema import EntityType, Property, Scalar
from omnigraph_core.schema.arrow import BLOB_STORAGE, arrow_type, table_schema
from omnigraph_core.values.arrays import whole


def column(values: Sequence[object], prop: Property) -> pa.Array:
    """Coerced values as an Arrow array of exactly the type of the property's column."""
    if prop.type.scalar is Scalar.BLOB:
        return blob_column(pa.array(values, pa.large_binary()))
    return pa.array(values, arrow_type(prop.type))


def blob_column(data: pa.Array) -> pa.Array:
    """Blob values that are all inline bytes; a null stays null."""
    data = data.cast(pa.large_binary())
    rest = [pa.nulls(len(data), BLOB_STORAGE.field(name).type) for name in ("uri", "position", "size")]
    fields = [BLOB_STORAGE.field(position) for position in range(BLOB_STORAGE.num_fields)]
    mask = pc.is_null(data) if data.null_count else None
    return pa.StructArray.from_arrays([data, *rest], fields=fields, mask=mask)


def storable(rows: pa.Table, entity: EntityType) -> pa.Table:
    """Rows that were read with the bytes of their blobs, as the table of their type stores them."""
    schema = table_schema(entity)
    columns = []
    for field in schema:
        prop = entity.find_property(field.name)
        values = rows.column(field.name)
        if prop is not None and prop.type.scalar is Scalar.BLOB:
            columns.append(blob_column(whole(values)))
        else:
            columns.append(values.cast(field.type))
    return pa.table(columns, schema=schema)
