"""Rows split into parts on disk, once, for rules that go through the parts one by one."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.rules.parts import part_numbers
from omnigraph_core.schema import EntityType
from omnigraph_core.spill import disk_failures, nameless_file
from omnigraph_core.tables.dataset import Table
from omnigraph_core.values.identity import tuple_texts

# So many rows are compared at a time: every time the other side is hashed anew.
_ROWS_AT_ONCE = 1 << 20


class RowsByPart:
    """Rows in parts, stored in sequence in one file; the rows of a part keep their order."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._places: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self._file = nameless_file()

    def add(self, rows: pa.Table, numbers: np.ndarray[Any, Any]) -> None:
        """Add rows; `numbers` has the part of each."""
        for places, mine in zip(self._places, deal(rows, numbers, self._count), strict=True):
            with disk_failures():
                places.append((self._file.tell(), self._file.write(mine)))

    def part(self, number: int) -> pa.Table:
        return pa.concat_tables(self.pieces(number)).combine_chunks()

    def pieces(self, number: int) -> Iterator[pa.Table]:
        """A part in the pieces in which it was added."""
        for start, length in self._places[number]:
            with disk_failures():
                self._file.seek(start)
                yield pa.ipc.open_stream(self._file.read(length)).read_all()

    def close(self) -> None:
        self._file.close()


def deal(rows: pa.Table, numbers: np.ndarray[Any, Any], count: int) -> Iterator[bytes]:
    """The rows of each part, as an Arrow stream.

    Those with the number -1 are compared with nothing, and left out.
    """
    order = np.argsort(numbers, kind="stable")
    sorted_rows = rows.take(pa.array(order))
    bounds = np.searchsorted(numbers[order], np.arange(count + 1))
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    for number in range(count):
        mine = sorted_rows.slice(bounds[number], bounds[number + 1] - bounds[number])
        buffer = io.BytesIO()
        with pa.ipc.new_stream(buffer, mine.schema, options=options) as writer:
            writer.write_table(mine)
        yield buffer.getvalue()


class TableByPart:
    """The ids and texts of a table's rows by parts of the texts, read from it once.

    Columns `id`, `text`, `_rowid` and `_rowaddr`; the text is that of the columns `by`.
    """

    def __init__(self, table: Table, entity: EntityType, by: Sequence[str], count: int) -> None:
        self._rows = RowsByPart(count)
        for rows in placed_texts(table, entity, by):
            self._rows.add(rows, part_numbers(rows.column("text").combine_chunks(), count))

    def having(self, number: int, texts: pa.Array) -> pa.Table:
        """The rows of a part whose text is one of these."""
        return having(self._rows.pieces(number), texts)


def placed_texts(
    table: Table, entity: EntityType, by: Sequence[str], fragments: Sequence[int] | None = None
) -> Iterator[pa.Table]:
    """`id`, `_rowid`, `_rowaddr` and the `text` of the columns `by`, of all rows or some fragments."""
    names = list(dict.fromkeys(["id", *by]))
    for batch in table.scan(names, with_row_id=True, with_row_address=True, fragment_ids=fragments):
        rows = pa.Table.from_batches([batch])
        places = {name: rows.column(name) for name in ("id", "_rowid", "_rowaddr")}
        yield pa.table({**places, "text": tuple_texts(rows, by, entity)})


def having(pieces: Iterable[pa.Table], texts: pa.Array) -> pa.Table:
    """The rows whose text is one of these; there is at least one piece."""
    found, waiting, rows = [], [], 0
    for piece in chain(pieces, (None,)):
        if piece is not None:
            waiting.append(piece)
            rows += piece.num_rows
        if waiting and (piece is None or rows >= _ROWS_AT_ONCE):
            mine = pa.concat_tables(waiting)
            found.append(mine.filter(pc.is_in(mine.column("text"), value_set=texts)))
            waiting, rows = [], 0
    return pa.concat_tables(found)
