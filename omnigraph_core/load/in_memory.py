"""What a caller of the library may load: paths, Arrow, records, or any of them by type.

Each becomes an `Input` like a file's, so the readers, the rules and the commit are the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa

from omnigraph_core.arguments import WrongArgument, paths
from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.load.formats.arrow_stream import ArrowSource, ArrowStream
from omnigraph_core.load.formats.given_records import GivenRecords
from omnigraph_core.load.formats.source import Source
from omnigraph_core.load.inputs import Input, named_type, resolve_inputs
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, Schema
from omnigraph_core.schema.files import Format
from omnigraph_core.settings import S3Settings

Path: TypeAlias = "str | os.PathLike[str]"
Records: TypeAlias = Iterable[Mapping[str, Any]]
Rows: TypeAlias = "Path | Sequence[Path] | ArrowStream | Sequence[ArrowStream] | Records"
LoadData: TypeAlias = "Rows | Mapping[str, Rows]"

_EXPECTED = "a path, records, something with the Arrow C stream interface, or these by type"


def paths_in(data: object) -> list[str]:
    """The paths among what is to be loaded, for those who must not write to them."""
    if isinstance(data, Mapping):
        return [path for rows in data.values() for path in paths_in(rows)]
    return _paths(data) or []


def plain_paths(data: object, type_name: str | None) -> list[str]:
    """Data that is only paths; raises WrongArgument for any other."""
    found = None if isinstance(data, Mapping) else _paths(data, is_typed=type_name is not None)
    if found is None:
        raise WrongArgument("data", data, "a path or a list of paths where Spark reads")
    return found


@dataclass(frozen=True, slots=True)
class Resolver:
    """From what a caller gives to the inputs of a load; nothing of it is read yet."""

    schema: Schema
    format: Format | None
    s3: S3Settings
    budget: MemoryBudget

    def inputs(self, data: object, type_name: str | None) -> list[Input]:
        if not isinstance(data, Mapping):
            return self._of(data, type_name)
        if type_name is not None:
            raise WrongArgument("type", type_name, "None where the data is given by type")
        for name in data:
            if not isinstance(name, str):
                raise WrongArgument("data", name, "a mapping by the names of types")
        return [each for name, rows in data.items() for each in self._of(rows, name)]

    def _of(self, rows: object, type_name: str | None) -> list[Input]:
        files = _paths(rows, is_typed=type_name is not None)
        if files is not None:
            return resolve_inputs(files, self.schema, self.format, type_name, self.s3, self.budget)
        if self.format is not None:
            raise WrongArgument("format", self.format, "None where no file is loaded")
        entity = None if type_name is None else named_type(self.schema, type_name)
        called = "records" if type_name is None else type_name
        if _is_arrow(rows):
            return [self._arrow(rows, entity, called)]
        if isinstance(rows, Sequence) and rows and all(map(_is_arrow, rows)):
            return [self._arrow(each, entity, f"{called} {i}") for i, each in enumerate(rows, start=1)]
        return [self._records(rows, entity, called)]

    def _arrow(self, stream: Any, entity: EntityType | None, called: str) -> Input:
        if entity is None:
            raise WrongArgument(
                "type", None, "the name of a type: a table does not name the type of its rows"
            )
        source = ArrowSource(f"<{called}>", stream, batch_bytes=self.budget.batch_bytes)
        return Input(source, Format.PARQUET, entity)

    def _records(self, rows: object, entity: EntityType | None, called: str) -> Input:
        if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
            raise WrongArgument("data", rows, _EXPECTED)
        first, records = _peeked(rows)
        if isinstance(first, pa.RecordBatch):
            return self._arrow(pa.RecordBatchReader.from_batches(first.schema, records), entity, called)
        if first is not None and not isinstance(first, Mapping):
            raise WrongArgument("data", first, "records, each a mapping of names to values")
        budget, name = self.budget, f"<{called}>"
        source = Source(
            name,
            GivenRecords(name, records, entity),
            block_bytes=budget.block_bytes,
            line_bytes_max=budget.line_bytes_max,
        )
        return Input(source, Format.JSONL, entity)


def _peeked(rows: Iterable[object]) -> tuple[object, Iterator[object]]:
    """The first of them, None if there is none; and all of them."""
    remaining = iter(rows)
    for first in remaining:
        return first, chain([first], remaining)
    return None, remaining


def _paths(data: object, *, is_typed: bool = False) -> list[str] | None:
    """The paths that are given, None if it is something else. An empty list with a type is no records."""
    if isinstance(data, str | os.PathLike):
        return paths("data", [data])
    if not isinstance(data, Sequence) or isinstance(data, bytes | bytearray | memoryview):
        return None
    if not data:
        return None if is_typed else []
    return paths("data", data) if isinstance(data[0], str | os.PathLike) else None


def _is_arrow(data: object) -> bool:
    return hasattr(data, "__arrow_c_stream__")
