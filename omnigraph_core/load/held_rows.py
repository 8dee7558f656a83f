"""The rows of one type while they wait: each with its file and line, in the order they were read.

Rules that compare rows look at a few columns. While these are few they are read as a
whole; else they are dealt into parts by the text a rule compares, on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.load.budget import MemoryBudget
from omnigraph_core.load.formats.typed_rows import TypedRows
from omnigraph_core.load.spool import Spool
from omnigraph_core.records import dataclass
from omnigraph_core.rules.changeset import Change, Newness, Origin, TableChange
from omnigraph_core.rules.parts import Part, part_numbers
from omnigraph_core.rules.rows_by_part import RowsByPart
from omnigraph_core.schema import EdgeType, EntityType, NodeType
from omnigraph_core.schema.model import DST_COLUMN, ID_COLUMN, SRC_COLUMN
from omnigraph_core.tables.limits import ROWS_PER_FRAGMENT
from omnigraph_core.values.arrays import any_true
from omnigraph_core.values.identity import tuple_texts

if TYPE_CHECKING:
    from omnigraph_core.load.roles import KeptRows

# Beside the columns of the type, whose names are identifiers: where a row was read, and its
# place among all rows of its type.
SOURCE_COLUMN, LINE_COLUMN, POSITION_COLUMN = "@source", "@line", "@position"

# Texts of rows that follow each other, and the position of the first, to what they become.
ChangeTexts = Callable[[pa.Array, int], pa.Array]


class SpooledRows:
    """Rows that wait in this process, in memory or on disk."""

    dropped = 0

    def __init__(self, entity: EntityType, budget: MemoryBudget) -> None:
        self.entity = entity
        self.key_bytes = 0
        self.given_ids = 0
        self._key_names = key_columns(entity)
        self._schema: pa.Schema | None = None
        self._sources: dict[str, int] = {}
        self._budget = budget
        self._spool = Spool(budget)

    @property
    def count(self) -> int:
        return self._spool.rows

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(self._sources)

    def add(self, piece: TypedRows) -> None:
        number = self._sources.setdefault(piece.source, len(self._sources))
        self.key_bytes += piece.rows.select(self._key_names).nbytes
        self.given_ids += piece.rows.num_rows - piece.rows.column(ID_COLUMN).null_count
        sources = pa.repeat(pa.scalar(number, pa.int32()), piece.rows.num_rows)
        rows = piece.rows.append_column(SOURCE_COLUMN, sources).append_column(LINE_COLUMN, piece.lines)
        self._schema = rows.schema
        self._spool.add(rows)

    def batches(self, batch_rows: int) -> Iterator[pa.Table]:
        """The rows as they will be written: so many at a time, or fewer where they are large."""
        for rows in self._spool.batches(batch_rows, batch_bytes=self._budget.fragment_bytes):
            yield rows.select(rows.column_names[:-2])

    def chosen(self, mask: pa.Array) -> Iterator[tuple[Origin, pa.Table]]:
        start = 0
        for rows in self._spool.batches(ROWS_PER_FRAGMENT, batch_bytes=self._budget.fragment_bytes):
            mine = mask.slice(start, rows.num_rows)
            if any_true(mine):
                origin = origin_of(rows, self.sources, positions_from(start, rows.num_rows))
                yield origin.filter(mine), rows.select(rows.column_names[:-2]).filter(mine)
            start += rows.num_rows

    def selected(self, columns: list[str]) -> Iterator[pa.Table]:
        """Columns of all rows, after a table that says what they are.

        Ids alone come by `ROWS_PER_FRAGMENT`, which matching counts by; others may be large.
        """
        assert self._schema is not None
        names = [*columns, SOURCE_COLUMN, LINE_COLUMN]
        yield self._schema.empty_table().select(names)
        bytes_ = None if columns == [ID_COLUMN] else self._budget.fragment_bytes
        yield from self._spool.batches(ROWS_PER_FRAGMENT, names, bytes_)

    def rewrite(self, column: str, change: ChangeTexts) -> None:
        """Replace the texts of a column; no batch reaches from one fragment into the next."""
        start = 0

        def changed(rows: pa.Table) -> pa.Table:
            nonlocal start
            place = rows.schema.get_field_index(column)
            texts = change(rows.column(place).combine_chunks(), start)
            start += rows.num_rows
            return rows.set_column(place, rows.schema.field(place), texts)

        self._spool.rewrite(changed, ROWS_PER_FRAGMENT, self._budget.fragment_bytes)

    def close(self) -> None:
        self._spool.close()


class HeldRows:
    """What rules look at of all rows of one type, wherever these are kept."""

    def __init__(self, kept: KeptRows, budget: MemoryBudget) -> None:
        self.entity = kept.entity
        self.kept = kept
        self._key_names = key_columns(kept.entity)
        self._budget = budget
        self._by_part: dict[tuple[str, ...], RowsByPart] = {}
        self._distinct: dict[str, pa.Array | None] = {}

    @property
    def count(self) -> int:
        return self.kept.count

    def keys(self) -> tuple[pa.Table, Origin]:
        """What rules look at, of all rows."""
        rows = pa.concat_tables(self.kept.selected(self._key_names)).combine_chunks()
        return rows.select(self._key_names), self._origin(rows, positions_from(0, rows.num_rows))

    def part(self, by: Sequence[str], part: Part) -> tuple[pa.Table, Origin]:
        """The columns `by` and `id` of the rows whose text of `by` is in the part."""
        key = tuple(by)
        if key not in self._by_part:
            self._by_part[key] = self._deal(key, part.count)
        rows = self._by_part[key].part(part.number)
        return rows.select(compared_columns(key)), self._origin(
            rows, rows.column(POSITION_COLUMN).combine_chunks()
        )

    def distinct(self, column: str) -> pa.Array | None:
        """The distinct texts of a column; None if there are too many for this to pay."""
        if column not in self._distinct:
            self._distinct[column] = self._find_distinct(column)
        return self._distinct[column]

    def _find_distinct(self, column: str) -> pa.Array | None:
        known, waiting, waiting_bytes = pa.array([], pa.utf8()), [], 0
        for rows in self.kept.selected([column]):
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

    def _deal(self, by: tuple[str, ...], count: int) -> RowsByPart:
        dealt, start = RowsByPart(count), 0
        for rows in self.kept.selected(compared_columns(by)):
            rows = rows.combine_chunks().append_column(POSITION_COLUMN, positions_from(start, rows.num_rows))
            start += rows.num_rows
            dealt.add(rows, part_numbers(tuple_texts(rows, by, self.entity), count))
        return dealt

    def _origin(self, rows: pa.Table, positions: pa.Array) -> Origin:
        return origin_of(rows, self.kept.sources, positions)

    def close(self) -> None:
        """Give back what was dealt into parts; the rows themselves stay."""
        for dealt in self._by_part.values():
            dealt.close()


@dataclass(frozen=True, slots=True)
class HeldChange(Change):
    """The change that held rows make. `taken` says which rows count (None: all)."""

    entity: EntityType
    held: HeldRows
    taken: pa.Array | None
    newness: Newness = Newness.OPEN
    replaces: bool = False

    @property
    def count(self) -> int:
        return self.held.count if self.taken is None else int(pc.sum(self.taken).as_py() or 0)

    def distinct(self, column: str, part: Part) -> pa.Array:
        """Usually there are far fewer distinct texts than rows, and the rows need not be partitioned."""
        known = None if part.is_whole else self.held.distinct(column)
        if known is None:
            return Change.distinct(self, column, part)
        return known.filter(part.holds(known))

    def part(self, by: Sequence[str], part: Part) -> TableChange:
        rows, origin = self.held.keys() if part.is_whole else self.held.part(by, part)
        change = TableChange(self.entity, rows, origin, self.newness, self.replaces)
        return change if self.taken is None else change.filter(self.taken.take(origin.positions))


def key_columns(entity: EntityType) -> list[str]:
    """The columns that rules about several rows look at."""
    names = [ID_COLUMN]
    if isinstance(entity, EdgeType):
        names += [SRC_COLUMN, DST_COLUMN]
    elif isinstance(entity, NodeType) and entity.key is not None:
        names += entity.key.columns
    for group in entity.uniques:
        names += group.columns
    return list(dict.fromkeys(names))


def compared_columns(by: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys([ID_COLUMN, *by]))


def origin_of(rows: pa.Table, sources: Sequence[str], positions: pa.Array) -> Origin:
    """Where rows were read, told by their last two columns."""
    source, lines = (rows.column(name).combine_chunks() for name in (SOURCE_COLUMN, LINE_COLUMN))
    return Origin(tuple(sources), source, lines, positions)


def positions_from(start: int, count: int) -> pa.Array:
    return pa.array(np.arange(start, start + count))
