"""DataFrames as the input of a load: what is checked of them before any task runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException

from omnigraph_core.errors import BadDataError
from omnigraph_core.graph import Graph
from omnigraph_core.load.formats.parquet import check_types
from omnigraph_core.load.inputs import named_type
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, Schema
from omnigraph_core.spark.batches import declared_of
from omnigraph_core.spark.columns import arrow_columns
from omnigraph_core.spark.given import Given
from omnigraph_core.spark.splits import Split


@dataclass(frozen=True, slots=True)
class NamedFrame:
    """The rows of one type: the name of the type as the caller gave it, and the columns they have."""

    type_name: str
    columns: Any
    """A `StructType`."""

    @property
    def name(self) -> str:
        """What messages and commits call it."""
        return f"DataFrame {self.type_name}"

    def entity(self, schema: Schema) -> EntityType:
        """The type; raises for one that is not there, and for columns that it cannot take."""
        entity = named_type(schema, self.type_name)
        check_types(declared_of(self._arrow(), entity), entity, self.name)
        return entity

    def _arrow(self) -> pa.Schema:
        try:
            return arrow_columns(self.columns)
        except PySparkException as error:
            raise BadDataError(f"{self.name}: {error}", hint="cast the column, or drop it") from error

    def split(self, schema: Schema) -> Split:
        """What stands for all of its partitions until these are known."""
        key = self.entity(schema).table_key
        return Split(0, self.name, "", None, key, 0, 0, is_whole=False, size=0)


def given_frames(frames: Sequence[NamedFrame], schema: Schema) -> Given:
    """Frames as the input of a load; raises for whatever can be seen from their columns."""
    splits = tuple(frame.split(schema) for frame in frames)
    keys = frozenset(split.table_key for split in splits if split.table_key is not None)
    return Given(splits, keys, (), tuple(frame.name for frame in frames))


def schema_for(graph: Graph, branch: str, source: str | None) -> Schema:
    """The schema that frames will meet: of the branch, or of the ref where it is going to start."""
    is_new = source is not None and branch not in graph.branches()
    return (graph.at(source) if is_new else graph.at(branch=branch)).schema
