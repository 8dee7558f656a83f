"""Rows of one type as Parquet, with types that the reader of Parquet takes back without loss.

Columns are called as in a file of the type. Dates are date32, date-times timestamps of
milliseconds in UTC, blobs binary; all else is as the table has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import pyarrow as pa

from omnigraph_core.export.rows import ordered_rows
from omnigraph_core.schema import EntityType, PropertyType, Scalar
from omnigraph_core.schema.arrow import arrow_type
from omnigraph_core.schema.files import file_columns
from omnigraph_core.tables.dataset import Table

# Rows are gathered into row groups of about so many bytes: large enough to compress and be
# skipped over, small enough that a reader holds one without thinking.
_GROUP_BYTES = 64 * 2**20
_GROUP_ROWS = 250_000


def write_parquet(file: BinaryIO, table: Table, entity: EntityType) -> None:
    """Write the rows of one type in the order of their ids; no rows still say what the columns are."""
    write_parquet_rows(file, ordered_rows(table, entity), entity)


def write_parquet_rows(file: BinaryIO, batches: Iterable[pa.Table], entity: EntityType) -> None:
    """Write rows as they come."""
    from pyarrow import parquet as pq

    schema = parquet_schema(entity)
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        waiting: list[pa.Table] = []
        for rows in batches:
            waiting.append(_converted(rows, schema, entity))
            large = sum(each.nbytes for each in waiting) >= _GROUP_BYTES
            if large or sum(each.num_rows for each in waiting) >= _GROUP_ROWS:
                writer.write_table(pa.concat_tables(waiting), row_group_size=_GROUP_ROWS)
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting), row_group_size=_GROUP_ROWS)


def parquet_schema(entity: EntityType) -> pa.Schema:
    fields = []
    for name, column in file_columns(entity).items():
        prop = entity.find_property(column)
        if prop is None:
            fields.append(pa.field(name, pa.utf8(), nullable=False))
        else:
            fields.append(pa.field(name, _parquet_type(prop.type), nullable=prop.type.nullable))
    return pa.schema(fields)


def _parquet_type(type_: PropertyType) -> pa.DataType:
    if type_.scalar is Scalar.BLOB:
        return pa.large_binary()
    if type_.scalar is Scalar.DATE_TIME:
        moment = pa.timestamp("ms", "UTC")
        return pa.list_(pa.field("item", moment)) if type_.is_list else moment
    return arrow_type(type_)


def _converted(rows: pa.Table, schema: pa.Schema, entity: EntityType) -> pa.Table:
    columns = [
        rows.column(column).combine_chunks().cast(schema.field(name).type)
        for name, column in file_columns(entity).items()
    ]
    return pa.Table.from_arrays(columns, schema=schema)
