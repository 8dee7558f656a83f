"""The physical columns of a type, as Arrow, and the patterns that only Arrow can read.

The only module of this floor that imports pyarrow; import it where data is.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.errors import BadDataError
from omnigraph_core.schema.defaults import default_of
from omnigraph_core.schema.model import (
    DST_COLUMN,
    ID_COLUMN,
    SRC_COLUMN,
    Check,
    EdgeType,
    EntityType,
    Property,
    PropertyType,
    Scalar,
    Schema,
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


class PatternError(BadDataError):
    """A `@check` that no value can be tested by, or that the property's own default breaks."""

    def __init__(self, entity: EntityType, check: Check, reason: str) -> None:
        self.table_key = entity.table_key
        self.check = check
        self.reason = reason
        super().__init__(f"{check} on {entity.name}: {reason}")

    def details(self) -> Mapping[str, object]:
        found = {"type": self.table_key, "property": self.check.property, "message": self.reason}
        return {"violations": [found]}


def require_patterns(schema: Schema) -> None:
    """Raise for the first `@check` whose pattern does not compile or does not match the default.

    Patterns are RE2, which only Arrow has; so this is no part of compiling a schema, and whoever
    is about to accept one asks.
    """
    for node in schema.nodes:
        for check in node.checks:
            prop = node.find_property(check.property)
            default = None if prop is None else default_of(prop)
            values = pa.array([default if isinstance(default, str) else None], pa.utf8())
            try:
                found = pc.match_substring_regex(values, pattern=check.pattern)[0].as_py()
            except pa.ArrowInvalid as error:
                raise PatternError(node, check, str(error)) from error
            if found is False:
                raise PatternError(node, check, "the property's @default does not match")
