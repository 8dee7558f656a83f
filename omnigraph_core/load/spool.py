"""Rows waiting until everything is read and checked: in memory while they are few, else on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.spill import SpilledRows


class Spool:
    """Rows of one type in the order they came; written out once the budget is used up."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._waiting: list[pa.Table] = []
        self._spilled: SpilledRows | None = None
        self.rows = 0

    def add(self, rows: pa.Table) -> None:
        self.rows += rows.num_rows
        if self._spilled is None and rows.nbytes <= self._budget.rows_left:
            self._budget.rows_left -= rows.nbytes
            self._waiting.append(rows)
            return
        if self._spilled is None:
            self._spilled = self._spill(rows.schema)
        self._spilled.add(rows)

    def batches(
        self, batch_rows: int, columns: list[str] | None = None, batch_bytes: int | None = None
    ) -> Iterator[pa.Table]:
        """All rows (or columns of them), `batch_rows` at a time, fewer at the end; may be asked for again.

        With `batch_bytes`, large rows come in smaller batches, which still end wherever a batch of
        `batch_rows` does.
        """
        held: list[pa.Table] = []
        count = size = 0
        for piece in self._pieces(columns):
            if batch_bytes is not None and held and size + piece.nbytes > batch_bytes:
                yield pa.concat_tables(held)
                held, size = [], 0
            while count + piece.num_rows >= batch_rows:
                taken = batch_rows - count
                held.append(piece.slice(0, taken))
                piece = piece.slice(taken)
                yield pa.concat_tables(held)
                held, count, size = [], 0, 0
            if piece.num_rows:
                held.append(piece)
                count += piece.num_rows
                size += piece.nbytes
        if held:
            yield pa.concat_tables(held)

    def rewrite(self, change: Callable[[pa.Table], pa.Table], batch_rows: int, batch_bytes: int) -> None:
        """Replace all rows by what `change` makes of them, batch by batch; their number and order stay."""
        changed = Spool(self._budget)
        try:
            for rows in self.batches(batch_rows, batch_bytes=batch_bytes):
                changed.add(change(rows))
        except BaseException:
            changed.close()
            raise
        self.close()
        self._waiting, self._spilled = changed._waiting, changed._spilled

    def _pieces(self, columns: list[str] | None) -> Iterator[pa.Table]:
        if self._spilled is not None:
            return self._spilled.tables(columns)
        return (rows if columns is None else rows.select(columns) for rows in self._waiting)

    def _spill(self, schema: pa.Schema) -> SpilledRows:
        """Write out what was waiting in memory first."""
        spilled = SpilledRows(schema)
        self._budget.is_short = True
        for rows in self._waiting:
            spilled.add(rows)
            self._budget.rows_left += rows.nbytes
        self._waiting = []
        return spilled

    def close(self) -> None:
        """Free the space."""
        self._budget.rows_left += sum(rows.nbytes for rows in self._waiting)
        self._waiting = []
        if self._spilled is not None:
            self._spilled.close()
