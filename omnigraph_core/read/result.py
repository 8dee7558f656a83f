"""The answer of a read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_core.errors import UsageError
from omnigraph_core.read.statistics import StepStatistics
from omnigraph_core.records import dataclass

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Target:
    """What was read: a branch as it was, or the commit a ref names (then `snapshot` is its id)."""

    branch: str | None
    snapshot: str | None = None


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Rows as Arrow. A Date is a date32, a DateTime a timestamp in milliseconds of UTC."""

    query_name: str
    target: Target
    graph_commit_id: str | None
    table: pa.Table
    plan: tuple[str, ...]
    steps: Sequence[StepStatistics]

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    @property
    def row_count(self) -> int:
        return int(self.table.num_rows)

    def to_arrow(self) -> pa.Table:
        return self.table

    def to_pylist(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def to_pandas(self) -> pd.DataFrame:
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise UsageError("pandas is not installed", hint="pip install pandas") from error
        return self.table.to_pandas()
