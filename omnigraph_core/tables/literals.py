"""Names, values and casts in the SQL that Lance computes columns with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_core.errors import InternalError
from omnigraph_core.tables.keys import quote_text

if TYPE_CHECKING:
    import pyarrow as pa


def quoted(name: str) -> str:
    """A column's name; without quotes its letters would be lower-cased."""
    if "`" in name:
        raise InternalError(f"a column cannot be called {name!r}")
    return f"`{name}`"


def literal(value: pa.Scalar, type_: pa.DataType) -> str:
    """One value of a column's type. Numbers travel as text, which holds every one of them exactly."""
    import pyarrow as pa

    if pa.types.is_string(type_):
        return quote_text(value.as_py())
    if pa.types.is_boolean(type_):
        return "true" if value.as_py() else "false"
    if pa.types.is_date(type_):
        number = pa.int32() if pa.types.is_date32(type_) else pa.int64()
        return cast_text(literal(value.cast(number), number), type_)
    return f"arrow_cast('{value.as_py()!r}', '{_name(type_)}')"


def cast_text(expression: str, type_: pa.DataType) -> str:
    """The expression as values of another type."""
    return f"arrow_cast({expression}, '{_name(type_)}')"


def _name(type_: pa.DataType) -> str:
    """What the engine calls an Arrow type."""
    import pyarrow as pa

    if pa.types.is_list(type_):
        return f"List({_name(type_.value_type)})"
    names = {
        pa.int32(): "Int32",
        pa.int64(): "Int64",
        pa.uint32(): "UInt32",
        pa.uint64(): "UInt64",
        pa.float32(): "Float32",
        pa.float64(): "Float64",
        pa.date32(): "Date32",
        pa.date64(): "Date64",
        pa.utf8(): "Utf8",
        pa.bool_(): "Boolean",
    }
    if type_ not in names:
        raise InternalError(f"no column of type {type_} is computed")
    return names[type_]
