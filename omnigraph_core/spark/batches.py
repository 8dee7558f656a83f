"""Batches on their way to Spark and back: lists under Spark's names, and U64 as decimals.

Needs no pyspark, because it is part of what a load imports wherever it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from omnigraph_core.errors import InternalError
from omnigraph_core.rules.violations import InvalidRecords, Violation
from omnigraph_core.schema import EntityType, Scalar
from omnigraph_core.schema.files import file_columns
from omnigraph_core.values.scalars import INTEGER_RANGES


def as_spark(batches: Iterable[pa.RecordBatch], wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches with exactly these columns and types; names are given by position."""
    for batch in batches:
        pairs = zip(batch.columns, wanted, strict=True)
        arrays = [_cast(values, field.type) for values, field in pairs]
        yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if values.type == wanted:
        return values
    if pa.types.is_list(wanted):
        lists = values.cast(pa.list_(values.type.value_field))
        items = _cast(lists.values, wanted.value_type)
        nulls = lists.is_null() if lists.null_count else None
        return pa.ListArray.from_arrays(lists.offsets, items, type=wanted, mask=nulls)
    return values.cast(wanted)


def from_spark(
    batches: Iterable[pa.RecordBatch], entity: EntityType, source: str
) -> Iterator[pa.RecordBatch]:
    """Batches of a DataFrame as files would have them: a U64 comes as a decimal, the only type of
    Spark that holds all of them.

    Raises InvalidRecords for the first one that is no U64.
    """
    first = 1
    for batch in batches:
        for position, field in enumerate(batch.schema):
            wanted = _unsigned(entity, field)
            if wanted is not None:
                values = batch.column(position)
                try:
                    column = _cast(values, wanted)
                except pa.ArrowInvalid:
                    raise _outside(values, entity.name, field.name, source, first) from None
                batch = batch.set_column(position, pa.field(field.name, wanted), column)
        first += batch.num_rows
        yield batch


def declared_of(columns: pa.Schema, entity: EntityType) -> pa.Schema:
    """The columns of a DataFrame as `from_spark` gives them."""
    fields = [(_unsigned(entity, field), field) for field in columns]
    return pa.schema([field if wanted is None else field.with_type(wanted) for wanted, field in fields])


def _unsigned(entity: EntityType, field: pa.Field) -> pa.DataType | None:
    """The type of a column of decimals that stand for U64."""
    column = file_columns(entity).get(field.name)
    prop = None if column is None else entity.find_property(column)
    if prop is None or prop.type.scalar is not Scalar.U64:
        return None
    found = field.type.value_type if prop.type.is_list and pa.types.is_list(field.type) else field.type
    if not pa.types.is_decimal(found) or found.scale != 0:
        return None
    return pa.list_(pa.uint64()) if pa.types.is_list(field.type) else pa.uint64()


def _outside(values: pa.Array, type_name: str, name: str, source: str, first: int) -> InvalidRecords:
    low, high = INTEGER_RANGES[Scalar.U64]
    for row, value in enumerate(values.to_pylist()):
        for each in value if isinstance(value, list) else [value]:
            if each is not None and not low <= each <= high:
                found = Violation(f"{each} is not a U64 number", source, first + row, type_name, name)
                return InvalidRecords((found,), 1)
    raise InternalError(f"{type_name}.{name} cannot be taken for numbers")
