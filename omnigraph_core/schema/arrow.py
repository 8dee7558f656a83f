"""The physical columns of a type, as Arrow.

The only module of this floor that imports pyarrow; import it where data is.
"""

from __future__ import annotations

import pyarrow as pa

from omnigraph_core.schema.model import (
    DST_COLUMN,
    ID_COLUMN,
    SRC_COLUMN,
    EdgeType,
    EntityType,
    Property,
    PropertyType,
    Scalar,
)

# A blob column is a plain struct that Lance recognises by this extension name. Built
# here without lance, which only `tables/` may import. A value sets `data`, or `uri`
# with an optional range.
BLOB_STORAGE = pa.struct(
    [
        pa.field("data", pa.large_binary()),
        pa.field("uri", pa.utf8()),
        pa.field("position", pa.uint64()),
        pa.field("size", pa.uint64()),
    ]
)
BLOB_METADATA = {b"ARROW:extension:name": b"lance.blob.v2", b"ARROW:extension:metadata": b""}

_SCALARS = {
    Scalar.STRING: pa.utf8(),
    Scalar.BLOB: BLOB_STORAGE,
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE_TIME: pa.date64(),
    Scalar.DATE: pa.date32(),
}


def arrow_type(type_: PropertyType) -> pa.DataType:
    """The type of a column; nullability is the field's. For blobs, the storage struct."""
    if type_.scalar is Scalar.VECTOR:
        return pa.list_(pa.field("item", pa.float32()), type_.dimension)
    item = _SCALARS[type_.scalar]
    return pa.list_(pa.field("item", item)) if type_.is_list else item


def arrow_field(prop: Property) -> pa.Field:
    metadata = BLOB_METADATA if prop.type.scalar is Scalar.BLOB else None
    return pa.field(prop.name, arrow_type(prop.type), nullable=prop.type.nullable, metadata=metadata)


def table_schema(entity: EntityType) -> pa.Schema:
    """The columns of a type's table: the fixed ones, then its properties by name."""
    fixed = (ID_COLUMN, SRC_COLUMN, DST_COLUMN) if isinstance(entity, EdgeType) else (ID_COLUMN,)
    fields = [pa.field(name, pa.utf8(), nullable=False) for name in fixed]
    return pa.schema(fields + [arrow_field(prop) for prop in entity.properties])
