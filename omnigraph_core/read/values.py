"""Values of a query as Arrow columns."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING

from omnigraph_core.query.checked import Plain, PlainValue
from omnigraph_core.query.temporal import to_milliseconds
from omnigraph_core.schema import PropertyType, Scalar

if TYPE_CHECKING:
    import pyarrow as pa


def constant_array(value: Plain, type_: PropertyType, length: int) -> pa.Array:
    """One value in every row, of the type a column of it would have."""
    import pyarrow as pa

    from omnigraph_core.schema.arrow import arrow_type

    stored = [_stored(item) for item in value] if isinstance(value, tuple) else _stored(value)
    kind = arrow_type(type_)
    if isinstance(value, tuple) and not type_.is_list and type_.scalar is not Scalar.VECTOR:
        kind = pa.list_(pa.float64())
    return pa.repeat(pa.scalar(stored, kind), length) if length else pa.array([], kind)


def _stored(value: PlainValue) -> object:
    """Arrow takes a `datetime` for a Date64 as its day alone; milliseconds it takes as they are."""
    return to_milliseconds(value) if isinstance(value, datetime) and isinstance(value, date) else value


def shown_column(values: pa.Array, type_: PropertyType) -> pa.Array:
    """A column as a result has it: a DateTime is an instant in UTC, not a day."""
    import pyarrow as pa

    if type_.scalar is not Scalar.DATE_TIME:
        return values
    instant = pa.timestamp("ms", "UTC")
    if not type_.is_list:
        return values.cast(pa.int64()).cast(instant)
    items = pa.list_(pa.field("item", pa.int64()))
    return values.cast(items).cast(pa.list_(pa.field("item", instant)))
