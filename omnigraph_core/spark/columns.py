"""Columns as Spark has them: which Spark type stands for which Arrow type.

Spark knows no unsigned numbers, so those are the next wider type: U32 is a long, U64 a
decimal(20, 0). A DateTime is a timestamp, a Vector an array of floats, a Blob binary.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema

from omnigraph_core.errors import InternalError

_U64 = spark.DecimalType(20, 0)
_PLAIN: dict[pa.DataType, spark.DataType] = {
    pa.utf8(): spark.StringType(),
    pa.bool_(): spark.BooleanType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.uint32(): spark.LongType(),
    pa.uint64(): _U64,
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.date32(): spark.DateType(),
    pa.large_binary(): spark.BinaryType(),
    pa.null(): spark.NullType(),
}


def spark_schema(columns: pa.Schema) -> spark.StructType:
    """The same columns as Spark declares them."""
    fields = [spark.StructField(each.name, _spark_type(each.type), each.nullable) for each in columns]
    return spark.StructType(fields)


def _spark_type(type_: pa.DataType) -> spark.DataType:
    if pa.types.is_timestamp(type_):
        return spark.TimestampType()
    if pa.types.is_list(type_) or pa.types.is_fixed_size_list(type_):
        return spark.ArrayType(_spark_type(type_.value_type), containsNull=False)
    if type_ not in _PLAIN:
        raise InternalError(f"no type of Spark stands for {type_}")
    return _PLAIN[type_]


def arrow_columns(columns: spark.StructType) -> pa.Schema:
    """What Spark expects of the batches of a column, and gives in batches of its own."""
    found: pa.Schema = to_arrow_schema(columns, timezone="UTC")
    return found
