"""Reading our own log-like datasets: commits, actors, recoveries; all rows, or only the newest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_core.errors import StorageError
from omnigraph_core.records import dataclass
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import TableNotFound
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.torn import NoWholeVersion, open_newest_whole

if TYPE_CHECKING:
    import pyarrow as pa

_TIME = "created_at"
"""Every log has it: when the row was made."""


@dataclass(frozen=True, slots=True)
class Newest:
    """Which rows of a log are read: the newest `count`, and of those the ones since a time.

    Rows are not in the order of their times: a merge carries older ones over. So the times of all
    rows are read, and nothing else of the others. Rows of the same time are all read.
    """

    count: int | None = None
    since: int | None = None
    """In microseconds since the epoch."""

    def places(self, table: Table) -> list[int]:
        import numpy as np

        times = table.read([_TIME]).column(_TIME).cast("int64").to_numpy()
        wanted = np.ones(len(times), bool) if self.since is None else times >= self.since
        if self.count is not None and 0 < self.count < len(times):
            wanted &= times >= np.partition(times, -self.count)[-self.count]
        places: list[int] = np.flatnonzero(wanted).tolist()
        return places


ALL = Newest()


def read_log_rows(tables: Tables, ref: TableRef, schema: pa.Schema, newest: Newest = ALL) -> pa.Table:
    """The rows that can be read: those of an older version when the newest is torn. Writes nothing.

    `schema` is the log's; other writers of the format may know fewer of the last columns.

    Whether what is missing then was ever acknowledged is for the caller to find out. On a
    local disk a dataset of torn versions alone is one whose creation was never finished.
    """
    try:
        return _read(tables.open(ref), schema, newest)
    except StorageError:
        if not tables.storage.location.is_local:
            raise
    try:
        return _read(open_newest_whole(tables, ref), schema, newest)
    except NoWholeVersion as error:
        raise TableNotFound(f"table '{ref.key}' does not exist yet: {error}") from error


def _read(table: Table, schema: pa.Schema, newest: Newest) -> pa.Table:
    table.check_columns(schema.names)
    rows = table.read() if newest == ALL else table.take(table.schema.names, newest.places(table))
    required = [name for name in rows.column_names if not schema.field(name).nullable]
    if any(rows.column(name).null_count for name in required):
        raise StorageError(f"table '{table.ref.key}' is damaged: required values are missing")
    return rows
