"""The data source `omnigraph` of Spark: a type or a query as a DataFrame, and a DataFrame as one commit.

    spark.dataSource.register(OmnigraphSource)
    spark.read.format("omnigraph").option("type", "Person").load("s3://bucket/graph")

Spark calls these classes in processes of its own: `schema` and `writer` beside the driver, `read`
and `write` in executors. What they hand on is what Spark pickles: versions and settings, never an
open graph.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, Filter, InputPartition
from pyspark.sql.types import StructType

from omnigraph_core.errors import UsageError
from omnigraph_core.settings import load_settings
from omnigraph_core.spark.batches import as_spark
from omnigraph_core.spark.columns import arrow_columns, spark_schema
from omnigraph_core.spark.failing import failures
from omnigraph_core.spark.pinned import Pinned, PinnedQuery, PinnedType, pin
from omnigraph_core.spark.pushed import push
from omnigraph_core.spark.sink import open_writer

FORMAT = "omnigraph"

# The process in which Spark asks a reader for the filters it takes. Anywhere else Spark refuses a
# reader that could take some while `spark.sql.python.filterPushdown.enabled` is off.
_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"


class OmnigraphSource(DataSource):  # type: ignore[misc]
    """`spark.dataSource.register(OmnigraphSource)`"""

    _pinned: Pinned | None = None

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """Asked once, when the DataFrame is declared: from then on it is about one state of the graph."""
        with failures():
            self._pinned = pin(self.options, load_settings())
            return spark_schema(self._pinned.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        with failures():
            pinned = self._pinned or pin(self.options, load_settings())
            if isinstance(pinned, PinnedQuery):
                return QueryReader(pinned, schema)
            _check_declared(pinned, schema)
            chosen = pinned.choosing(schema.fieldNames())
            pushes = chosen.pushes and _is_asked_for_filters()
            return PushingReader(chosen, schema) if pushes else TypeReader(chosen, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        with failures():
            return open_writer(self.options, schema, load_settings(), overwrite=overwrite)


def _check_declared(pinned: PinnedType, schema: StructType) -> None:
    """A caller may declare the columns itself, to read fewer of them; not to read them as something else."""
    known = spark_schema(pinned.choosing(schema.fieldNames()).schema)
    for mine, theirs in zip(known.fields, schema.fields, strict=True):
        if mine.dataType != theirs.dataType:
            raise UsageError(
                f"{pinned.entity.name}.{mine.name} is {mine.dataType.simpleString()}, "
                f"not {theirs.dataType.simpleString()}",
                hint="leave out .schema(…), or cast the column of the DataFrame",
            )


def _is_asked_for_filters() -> bool:
    started = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHING in sys.modules or (started is not None and started.name == _PUSHING)


class Fragments(InputPartition):  # type: ignore[misc]
    """Fragments of one table that a task reads."""

    def __init__(self, ids: tuple[int, ...]) -> None:
        super().__init__(ids)
        self.ids = ids


class TypeReader(DataSourceReader):  # type: ignore[misc]
    """The rows of one type."""

    def __init__(self, pinned: PinnedType, schema: StructType) -> None:
        self._pinned = pinned
        self._schema = schema
        self._where: str | None = None

    def partitions(self) -> list[InputPartition]:
        with failures():
            return [Fragments(ids) for ids in self._pinned.groups()] or [Fragments(())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Fragments)
        with failures():
            if partition.ids:
                batches = self._pinned.batches(partition.ids, self._where)
                yield from as_spark(batches, arrow_columns(self._schema))


class PushingReader(TypeReader):
    """The same; Lance leaves out rows that Spark would drop.

    Only where the caller asks for it: Spark 4.3 keeps the reader of the last filters with the
    DataFrame, and reads through it again for a query without filters, or for another scan of
    the same query. Rows would be missing, and nothing here could tell.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        pushed = push(filters, self._pinned.entity)
        self._where = pushed.where
        return pushed.left


class QueryReader(DataSourceReader):  # type: ignore[misc]
    """The answer of a query, by one task."""

    def __init__(self, pinned: PinnedQuery, schema: StructType) -> None:
        self._pinned = pinned
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with failures():
            yield from as_spark(self._pinned.batches(), arrow_columns(self._schema))
