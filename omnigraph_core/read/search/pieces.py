"""The texts of a property as they are read from the table, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph_core.read.session.entities import Entities
from omnigraph_core.values.arrays import whole

if TYPE_CHECKING:
    from omnigraph_core.read.session.session import Session

_TEXTS_PER_PIECE = 100_000


def pieces(
    session: Session,
    entities: Entities,
    name: str,
    column: str,
    where: str | None = None,
    fragments: list[int] | None = None,
) -> Iterator[tuple[pa.Array, pa.Array]]:
    """What names the rows (their ids, or row ids) and the texts, of rows that pass."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in entities.table.scan([name, column], where, fragment_ids=fragments):
        session.budget.check_time()
        session.statistics.count_read(batch.num_rows, batch.nbytes)
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= _TEXTS_PER_PIECE:
            yield _joined(waiting, name, column)
            waiting, rows = [], 0
    if rows:
        yield _joined(waiting, name, column)


def _joined(batches: list[pa.RecordBatch], name: str, column: str) -> tuple[pa.Array, pa.Array]:
    table = pa.Table.from_batches(batches)
    return whole(table.column(name)), whole(table.column(column))
