"""The answer of a read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph_core.errors import UsageError
from omnigraph_core.read.session.statistics import StepStatistics
from omnigraph_core.records import dataclass

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


@dataclass(frozen=True, slots=True)
class Target:
    """What was read: a branch as it was, or the commit a ref names (then `snapshot` is its id)."""

    branch: str | None
    snapshot: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows that are made when they are asked for, a batch at a time; how many is known before."""

    schema: pa.Schema
    row_count: int
    batches: Callable[[], Iterator[pa.RecordBatch]]


def answer_of(table: pa.Table) -> Answer:
    return Answer(table.schema, table.num_rows, lambda: iter(table.to_batches()))


class QueryResult:
    """Rows as Arrow. A Date is a date32, a DateTime a timestamp in milliseconds of UTC.

    It has the Arrow C stream interface, so whatever reads Arrow takes it as it is.
    """

    def __init__(
        self,
        query_name: str,
        target: Target,
        graph_commit_id: str | None,
        answer: Answer,
        plan: tuple[str, ...],
        steps: Sequence[StepStatistics],
    ) -> None:
        self.query_name = query_name
        self.target = target
        self.graph_commit_id = graph_commit_id
        self.plan = plan
        self.steps = steps
        self._answer = answer
        self._table: pa.Table | None = None

    @property
    def schema(self) -> pa.Schema:
        return self._answer.schema

    @property
    def columns(self) -> list[str]:
        return list(self._answer.schema.names)

    @property
    def row_count(self) -> int:
        return self._answer.row_count

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The rows a batch at a time, so that they need not all be in memory; may be asked for again."""
        return iter(self._table.to_batches()) if self._table is not None else self._answer.batches()

    def to_arrow(self) -> pa.Table:
        if self._table is None:
            self._table = pa.Table.from_batches(self._answer.batches(), self._answer.schema)
        return self._table

    def to_pylist(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def to_pandas(self) -> pd.DataFrame:
        _require("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        return _require("polars").DataFrame(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return self.row_count

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Row by row, each a dict, a batch in memory at a time."""
        for batch in self.to_batches():
            yield from batch.to_pylist()

    def __repr__(self) -> str:
        from omnigraph_core.read.answer.preview import as_text

        return as_text(self)

    def _repr_html_(self) -> str:
        from omnigraph_core.read.answer.preview import as_html

        return as_html(self)


def _require(library: str) -> Any:
    """A library that only some callers have."""
    try:
        return import_module(library)
    except ImportError as error:
        raise UsageError(f"{library} is not installed", hint=f"pip install {library}") from error
