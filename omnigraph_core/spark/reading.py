"""One part of the input to typed rows, with the readers of every load."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core.load.formats.csv import read_csv
from omnigraph_core.load.formats.jsonl import read_jsonl
from omnigraph_core.load.formats.parquet import ParquetSplit, read_typed
from omnigraph_core.load.formats.remote import place_of
from omnigraph_core.load.formats.source import Source, SourceSplit
from omnigraph_core.load.formats.typed_rows import TypedRows
from omnigraph_core.rules.violations import Violations
from omnigraph_core.schema import EntityType, Schema
from omnigraph_core.schema.files import Format
from omnigraph_core.settings import S3Settings
from omnigraph_core.spark.splits import Split


class SplitReader:
    """Reads one split; `lines` counts the lines of one that was cut out of a file."""

    def __init__(self, split: Split, schema: Schema, s3: S3Settings) -> None:
        self._split = split
        self._schema = schema
        self._place = place_of(split.place, s3)
        self._source: SourceSplit | None = None

    @property
    def lines(self) -> int:
        return 0 if self._source is None else self._source.lines

    def rows(self, violations: Violations) -> Iterator[TypedRows]:
        split = self._split
        if split.format is Format.PARQUET:
            groups = ParquetSplit(split.name, self._place, range(split.start, split.end))
            return read_typed(groups, self._entity(), violations)
        if split.format is Format.CSV:
            return read_csv(Source(split.name, self._place), self._entity(), violations)
        if split.is_whole:
            return read_jsonl([Source(split.name, self._place)], self._schema, violations)
        self._source = SourceSplit(split.name, self._place, split.start, split.end)
        return read_jsonl([self._source], self._schema, violations)

    def _entity(self) -> EntityType:
        return next(each for each in self._schema.types() if each.table_key == self._split.table_key)
