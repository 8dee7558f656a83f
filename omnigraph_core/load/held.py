"""The rows of one type while they wait: each with its file and line, in the order they were read.

Rules that compare rows look at a few columns. While these are few they are read as a
whole; else they are dealt into parts by the text a rule compares, on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from omnigraph_core.change.changeset import Change, Origin, TableChange, Verb
from omnigraph_core.change.dealt import Dealt
from omnigraph_core.change.identity import tuple_texts
from omnigraph_core.change.parts import Part, part_numbers
from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.load.records import TypedRows
from omnigraph_core.load.spool import Spool
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EdgeType, EntityType, NodeType
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.fragments import ROWS_PER_FRAGMENT

if TYPE_CHECKING:
    import pyarrow as pa

# Beside the columns of the type, whose names are identifiers: where a row was read, and its
# place among all rows of its type.
SOURCE_COLUMN, LINE_COLUMN, POSITION_COLUMN = "@source", "@line", "@position"


class HeldRows:
    """All rows of one type of a load; a row is known by its position."""

    def __init__(self, entity: EntityType, budget: MemoryBudget) -> None:
        self.entity = entity
        self.key_bytes = 0
        """What the columns that rules look at take in memory."""
        self._key_names = key_columns(entity)
        self._schema: pa.Schema | None = None
        self._sources: dict[str, int] = {}
        self._budget = budget
        self._spool = Spool(budget)
        self._dealt: dict[tuple[str, ...], Dealt] = {}
        self._distinct: dict[str, pa.Array | None] = {}

    @property
    def count(self) -> int:
        return self._spool.rows

    @property
    def sources(self) -> dict[str, int]:
        """The inputs, with the numbers by which rows know theirs."""
        return self._sources

    def add(self, piece: TypedRows) -> None:
        import pyarrow as pa

        number = self._sources.setdefault(piece.source, len(self._sources))
        self.key_bytes += piece.rows.select(self._key_names).nbytes
        sources = pa.repeat(pa.scalar(number, pa.int32()), piece.rows.num_rows)
        rows = piece.rows.append_column(SOURCE_COLUMN, sources).append_column(LINE_COLUMN, piece.lines)
        self._schema = rows.schema
        self._spool.add(rows)

    def batches(self, batch_rows: int) -> Iterator[pa.Table]:
        """The rows as they will be written, a batch at a time."""
        for rows in self._spool.batches(batch_rows):
            yield rows.select(rows.column_names[:-2])

    def placed(self, batch_rows: int) -> Iterator[tuple[Origin, pa.Table]]:
        """The same, each batch with its origin."""
        start = 0
        for rows in self._spool.batches(batch_rows):
            yield self._origin(rows, _positions(start, rows.num_rows)), rows.select(rows.column_names[:-2])
            start += rows.num_rows

    def keys(self) -> tuple[pa.Table, Origin]:
        """What rules look at, of all rows."""
        import pyarrow as pa

        rows = pa.concat_tables(self.selected(self._key_names)).combine_chunks()
        return rows.select(self._key_names), self._origin(rows, _positions(0, rows.num_rows))

    def part(self, by: Sequence[str], part: Part) -> tuple[pa.Table, Origin]:
        """The columns `by` and `id` of the rows whose text of `by` is in the part."""
        key = tuple(by)
        if key not in self._dealt:
            self._dealt[key] = self._deal(key, part.count)
        rows = self._dealt[key].part(part.number)
        return rows.select(dealt_columns(key)), self._origin(
            rows, rows.column(POSITION_COLUMN).combine_chunks()
        )

    def distinct(self, column: str) -> pa.Array | None:
        """The different texts of a column; None when they are not few enough to be worth it."""
        if column not in self._distinct:
            self._distinct[column] = self._find_distinct(column)
        return self._distinct[column]

    def _find_distinct(self, column: str) -> pa.Array | None:
        import pyarrow as pa
        import pyarrow.compute as pc

        known, waiting, waiting_bytes = pa.array([], pa.utf8()), [], 0
        for rows in self.selected([column]):
            waiting.append(pc.unique(rows.column(column)))
            if len(waiting[-1]) > rows.num_rows // 2:
                return None
            waiting_bytes += waiting[-1].nbytes
            # Together only now and then: each time costs as much as what is known already.
            if waiting_bytes > known.nbytes:
                known = pc.unique(pa.chunked_array([known, *waiting]))
                waiting, waiting_bytes = [], 0
            if known.nbytes + waiting_bytes > self._budget.distinct_bytes:
                return None
        return pc.unique(pa.chunked_array([known, *waiting]))

    def _deal(self, by: tuple[str, ...], count: int) -> Dealt:
        dealt, start = Dealt(count), 0
        for rows in self.selected(dealt_columns(by)):
            rows = rows.combine_chunks().append_column(POSITION_COLUMN, _positions(start, rows.num_rows))
            start += rows.num_rows
            dealt.add(rows, part_numbers(tuple_texts(rows, by, self.entity), count))
        return dealt

    def selected(self, columns: list[str]) -> Iterator[pa.Table]:
        """An empty table, then some columns with the origin of each row, a fragment's worth at a time."""
        assert self._schema is not None
        names = [*columns, SOURCE_COLUMN, LINE_COLUMN]
        yield self._schema.empty_table().select(names)
        yield from self._spool.batches(ROWS_PER_FRAGMENT, names)

    def _origin(self, rows: pa.Table, positions: pa.Array) -> Origin:
        source, lines = (rows.column(name).combine_chunks() for name in (SOURCE_COLUMN, LINE_COLUMN))
        return Origin(tuple(self._sources), source, lines, positions)

    def close(self) -> None:
        self._spool.close()
        for dealt in self._dealt.values():
            dealt.close()


@dataclass(frozen=True, slots=True)
class HeldChange(Change):
    """The change that held rows make. `taken` says which of them count (None: all)."""

    entity: EntityType
    verb: Verb
    held: HeldRows
    taken: pa.Array | None
    fresh: bool

    @property
    def count(self) -> int:
        import pyarrow.compute as pc

        return self.held.count if self.taken is None else int(pc.sum(self.taken).as_py() or 0)

    def distinct(self, column: str, part: Part) -> pa.Array:
        """Most often there are far fewer than rows, and the rows need not be dealt."""
        known = None if part.is_whole else self.held.distinct(column)
        if known is None:
            return Change.distinct(self, column, part)
        return known.filter(part.holds(known))

    def part(self, by: Sequence[str], part: Part) -> TableChange:
        rows, origin = self.held.keys() if part.is_whole else self.held.part(by, part)
        change = TableChange(self.entity, self.verb, rows, origin, self.fresh)
        return change if self.taken is None else change.filter(self.taken.take(origin.positions))


def key_columns(entity: EntityType) -> list[str]:
    """What the rules about more than one row look at."""
    names = [ID_COLUMN]
    if isinstance(entity, EdgeType):
        names += [SRC_COLUMN, DST_COLUMN]
    elif isinstance(entity, NodeType) and entity.key is not None:
        names += entity.key.columns
    for group in entity.uniques:
        names += group.columns
    return list(dict.fromkeys(names))


def dealt_columns(by: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys([ID_COLUMN, *by]))


def _positions(start: int, count: int) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    return pa.array(np.arange(start, start + count))
