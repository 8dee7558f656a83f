"""Columns as an answer shows them: in its order, under its names, in its types."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from omnigraph_core.query.checked import CheckedRead, ColumnKey
from omnigraph_core.read.columns.order import sort_keys, sorted_positions
from omnigraph_core.schema import PropertyType, Scalar
from omnigraph_core.topology.arrays import in_arrow


def ordered_groups(read: CheckedRead, columns: list[pa.Array]) -> list[pa.Array]:
    """By the written keys; groups that tie stay in the order of the grouping key."""
    keys = []
    for key in read.order:
        assert isinstance(key, ColumnKey)
        keys += sort_keys(columns[key.index], descending=key.descending)
    positions = sorted_positions(keys, len(columns[0]), read.limit)
    return [column.take(in_arrow(positions)) for column in columns]


def shown_table(read: CheckedRead, columns: Sequence[pa.Array]) -> pa.Table:
    """Returned columns under their names."""
    pairs = zip(columns, read.columns, strict=True)
    arrays = [shown_column(values, column.type) for values, column in pairs]
    return pa.table(arrays, names=[column.name for column in read.columns])


def shown_column(values: pa.Array, type_: PropertyType) -> pa.Array:
    """A column as a result has it: a DateTime is an instant in UTC, not a day."""
    if type_.scalar is not Scalar.DATE_TIME:
        return values
    instant = pa.timestamp("ms", "UTC")
    if not type_.is_list:
        return values.cast(pa.int64()).cast(instant)
    items = pa.list_(pa.field("item", pa.int64()))
    return values.cast(items).cast(pa.list_(pa.field("item", instant)))
