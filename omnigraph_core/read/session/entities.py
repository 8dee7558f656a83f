"""The nodes or edges of one type as a query meets them: ids, codes, properties.

A code is the position of an id among those met so far and stays what it is while more
are met. Properties are read when they are first asked for, for the entities asked
about, and kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.manifest.snapshot import SubTableEntry
from omnigraph_core.read.columns.values import value_sizes
from omnigraph_core.read.session.budget import Budget
from omnigraph_core.read.session.kept_columns import KeptColumn, Positions, names_of_id
from omnigraph_core.schema import EntityType
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.keys import ROW_ID, are_few, in_filter
from omnigraph_core.tables.physical import take_rows
from omnigraph_core.topology.arrays import distinct, in_arrow, is_among
from omnigraph_core.topology.cache import CacheKey, ReadCache
from omnigraph_core.topology.idtable import IdTable
from omnigraph_core.topology.node_numbers import NodeNumbers
from omnigraph_core.topology.stored import TopologyIndex
from omnigraph_core.values.arrays import whole

if TYPE_CHECKING:
    from omnigraph_core.read.session.selectivity import ScanWay
    from omnigraph_core.read.session.statistics import Statistics
    from omnigraph_core.topology.arrays import BoolArray, IntArray

# So few ids are found among those met without a table of all.
_FOUND_DIRECTLY_MAX = 1_000

# So many rows are taken by their row ids; of more than such a part of a table, the columns are read.
_TAKEN_MIN = 1_000
_ROWS_PER_TAKEN = 20

# One look-up names at most so many ids, so that the text of a filter stays small.
_IDS_PER_FILTER = 20_000


class Entities:
    """The entities of one type at one version of its table."""

    def __init__(
        self,
        entity: EntityType,
        table: Table,
        entry: SubTableEntry,
        budget: Budget,
        statistics: Statistics,
        cache: ReadCache,
        index: TopologyIndex,
    ) -> None:
        self.entity = entity
        self.table = table
        self.entry = entry
        self._budget = budget
        self._statistics = statistics
        self._cache = cache
        self._index = index
        self._ids: pa.Array = pa.array([], pa.utf8())
        self._columns: dict[str, KeptColumn] = {}
        self._id_names = {ID_COLUMN, *names_of_id(entity)}
        self._numbering: IdTable | NodeNumbers | None = None
        self._positions: Positions | None = None
        self.codes_are_positions = False
        """All of the type are met, and a code is a position in the numbering."""
        self._all_are_met = False

    @property
    def row_count(self) -> int:
        return self.entry.row_count

    @property
    def size(self) -> int:
        """How many have been met; all codes are below it."""
        return len(self._ids)

    @property
    def ids(self) -> pa.Array:
        return self._ids

    def ids_of(self, codes: IntArray) -> pa.Array:
        return self._ids.take(in_arrow(codes))

    def codes_of(self, ids: pa.Array) -> IntArray:
        """The codes of these ids; ones not met before get the next codes.

        Where all are met there are no others, and what is none of them has -1.
        """
        if not len(ids):
            return np.zeros(0, np.int64)
        if self._all_are_met:
            return self._known_codes(ids)
        found = pc.index_in(ids, value_set=self._ids)
        if found.null_count:
            fresh = pc.unique(ids.filter(pc.is_null(found)))
            self._ids = pa.concat_arrays([self._ids, fresh]) if len(self._ids) else fresh
            found = pc.index_in(ids, value_set=self._ids)
        codes: IntArray = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return codes

    def _known_codes(self, ids: pa.Array) -> IntArray:
        """The codes of these ids where all are met; -1 for what is none of them."""
        table = self.numbering()
        found = table.find(ids)
        if self.codes_are_positions:
            return found
        return self._translation(table).codes_at(found)

    @property
    def numbered_by(self) -> str | None:
        """The index on disk whose numbering it is, if it is one's."""
        stored = self._numbering or self._index.numbers(self.table, self.entry)
        return stored.name if isinstance(stored, NodeNumbers) else None

    def numbering(self) -> IdTable | NodeNumbers:
        """All ids of the type at this version, in an order that is the same for every read of a process."""
        stored = self._index.numbers(self.table, self.entry) if self._numbering is None else None
        if stored is not None:
            self._numbering = stored
            if self.codes_are_positions and not stored.lists(self._ids):
                self.codes_are_positions = False
        if self._numbering is None:
            key: CacheKey[IdTable] = CacheKey(("ids", self.entry))
            known = self._cache.get(key)
            if known is None or (self.codes_are_positions and not known.ids.equals(self._ids)):
                ids = self._ids if self.codes_are_positions else self._all_ids()
                self._budget.check_bytes(len(ids), 4 * ids.nbytes)
                known = IdTable(ids)
                self._cache.put(key, known, known.nbytes)
            self._numbering = known
            if not self.size:
                self._ids, self.codes_are_positions, self._all_are_met = known.ids, True, True
        return self._numbering

    def _all_ids(self) -> pa.Array:
        return pa.concat_arrays(
            [self._ids[:0], *(each.column(0) for each in self.batches([ID_COLUMN], None))]
        )

    def positions_of(self, codes: IntArray) -> IntArray:
        """Where entities that have been met are in the numbering."""
        table = self.numbering()
        return codes if self.codes_are_positions else self._translation(table).positions[codes]

    def codes_at(self, positions: IntArray) -> IntArray:
        """The codes of what is at these positions of the numbering; of what is met only now, the next."""
        table = self.numbering()
        if self.codes_are_positions:
            return positions
        known = self._translation(table)
        codes = known.codes_at(positions)
        if (codes < 0).any():
            fresh, _ = distinct(positions[codes < 0], len(table))
            self._ids = pa.concat_arrays([self._ids, table.ids_at(fresh)])
            known.add(fresh)
            codes = known.codes_at(positions)
        return codes

    def _translation(self, table: IdTable | NodeNumbers) -> Positions:
        if self._positions is None:
            self._positions = Positions(len(table))
        missing = self.size - len(self._positions.positions)
        if missing:
            self._positions.add(table.find(self._ids.slice(self.size - missing)))
        return self._positions

    def met(self, pieces: Iterable[pa.Array]) -> IntArray:
        """Codes of the ids of a scan: no id occurs twice in it."""
        arrays = list(pieces)
        ids = pa.concat_arrays(arrays) if arrays else pa.array([], pa.utf8())
        if self.size and not (len(ids) == self.size and ids.equals(self._ids)):
            return self.codes_of(ids)
        self._ids = ids
        return np.arange(len(ids), dtype=np.int64)

    def scan(self, where: str | None, columns: Sequence[str], way: ScanWay | None = None) -> IntArray:
        """The codes of all that pass a filter, with these properties read along the way."""
        columns = [name for name in columns if name not in self._id_names]
        batches, rows, size = [], 0, 0
        for batch in self.batches([ID_COLUMN, *columns], where, way):
            rows, size = rows + batch.num_rows, size + batch.nbytes
            self._budget.check_bytes(rows, size)
            batches.append(batch)
        is_first = not self.size
        codes = self.met(batch.column(0) for batch in batches)
        if where is None and is_first:
            self.codes_are_positions = self._all_are_met = True
        for position, name in enumerate(columns, 1):
            self.keep(name, codes, [batch.column(position) for batch in batches])
        return codes

    def with_id(self, text: str, columns: Sequence[str]) -> pa.Table | None:
        """The one row with this id, if a topology index that is at hand tells which it is.

        None if a scan has to look for it: an index proves that a row is there, never that none is.
        """
        numbers = self._numbering
        if numbers is None and not self.table.is_foreign:
            numbers = self._index.numbers_at_hand(self.table, self.entry)
        if not isinstance(numbers, NodeNumbers) or self.table.is_foreign:
            return None
        self._budget.check_time()
        found = numbers.find(pa.array([text], pa.utf8()))
        if found[0] < 0:
            return None
        names = list(dict.fromkeys([ID_COLUMN, *columns]))
        rows = take_rows(self.table, names, numbers.row_ids(found).tolist())
        if rows.num_rows != 1 or rows.column(0)[0].as_py() != text:
            return None
        self._statistics.count_read(1, rows.nbytes)
        return rows

    def scan_one(self, text: str, columns: Sequence[str]) -> IntArray | None:
        """The same as `scan` for the row with this id; None if a scan has to look for it."""
        columns = [name for name in columns if name not in self._id_names]
        rows = self.with_id(text, columns)
        if rows is None:
            return None
        codes = self.met(rows.column(0).chunks)
        for name in columns:
            self.keep(name, codes, rows.column(name).chunks)
        return codes

    def passing(self, codes: IntArray, where: str) -> BoolArray:
        """For each of the codes, whether its entity passes a filter."""
        values, _ = distinct(codes, self.size)
        if self._is_look_up(len(values)):
            found = [self._looked_up([ID_COLUMN], values, where)]
        else:
            found = [pa.Table.from_batches([batch]) for batch in self.batches([ID_COLUMN], where)]
        ids = whole(pa.concat_tables(found).column(0)) if found else pa.array([], pa.utf8())
        return self.among(codes, ids)

    def among(self, codes: IntArray, ids: pa.Array) -> BoolArray:
        """For each of the codes, whether its id is among these."""
        if self._all_are_met and len(ids) > _FOUND_DIRECTLY_MAX:
            return is_among(codes, self._known_codes(ids), self.size)
        found = pc.index_in(ids, value_set=self._ids).drop_null()
        return is_among(codes, found.to_numpy(zero_copy_only=False).astype(np.int64), self.size)

    def is_id(self, name: str) -> bool:
        """Is this property the id itself, so that no two entities share it?"""
        return name in self._id_names

    def column(self, name: str, codes: IntArray) -> pa.Array:
        """A property of each of the codes."""
        self._budget.check_values(len(codes), self.sizes(name, codes))
        return self.ids_of(codes) if name in self._id_names else self._columns[name].take(codes)

    def sizes(self, name: str, codes: IntArray) -> IntArray | int:
        """How many bytes a property of each of the codes takes, as `value_sizes` says it."""
        if name in self._id_names:
            return value_sizes(self._ids, codes)
        kept = self._columns.get(name)
        if kept is None or not kept.has(codes):
            self.read([name], codes)
        return self._columns[name].sizes(codes)

    def row_ids(self, codes: IntArray) -> IntArray:
        """What indexes of the table call the rows of entities that are in it."""
        found: IntArray = self.column(ROW_ID, codes).to_numpy(zero_copy_only=False).astype(np.int64)
        return found

    def fetched(self, name: str, codes: IntArray) -> pa.Array:
        """A property of each of the codes, which are distinct, without keeping what is read for it."""
        kept = self._columns.get(name)
        if kept is not None and kept.has(codes):
            return kept.take(codes)
        self._columns.pop(name, None)
        try:
            return self.column(name, codes)
        finally:
            gone = self._columns.pop(name, None)
            if gone is not None:
                self._budget.release(sum(piece.nbytes for piece in gone.pieces))
            if kept is not None:
                self._columns[name] = kept

    def read(self, names: Sequence[str], codes: IntArray) -> None:
        """Have these properties of these entities at hand, in one pass for all that is missing."""
        values, _ = distinct(codes, self.size)
        names = [name for name in names if name not in self._id_names]
        for name in names:
            self._columns.setdefault(name, KeptColumn()).grow(self.size)
        absent = {name: self._columns[name].slots[values] < 0 for name in names}
        missing = [name for name in names if absent[name].any() or not self._columns[name].pieces]
        if missing:
            fresh = values[np.logical_or.reduce([absent[name] for name in missing])]
            self._read_fresh(missing, fresh)

    def _read_fresh(self, names: list[str], codes: IntArray) -> None:
        taken = self._taken(names, codes)
        if taken is None:
            taken = self._picked(names, codes)
        if taken is not None:
            for name in names:
                self.keep(name, codes, taken.column(name).chunks)
            return
        columns = [ID_COLUMN, *names]
        if self._is_look_up(len(codes)):
            rows = self._looked_up(columns, codes, None)
            table = IdTable(self.ids_of(codes))
            found = codes[table.find(whole(rows.column(0)))]
        elif len(codes) < self.row_count:
            table = IdTable(self.ids_of(codes))
            pieces, places = [self._empty(columns)], [np.zeros(0, np.int64)]
            for batch in self.batches(columns, None):
                at = table.find(batch.column(0))
                places.append(at[at >= 0])
                pieces.append(pa.Table.from_batches([batch.filter(in_arrow(at >= 0))]))
            rows, found = pa.concat_tables(pieces), codes[np.concatenate(places)]
        else:
            rows = pa.concat_tables(
                [
                    self._empty(columns),
                    *(pa.Table.from_batches([each]) for each in self.batches(columns, None)),
                ]
            )
            found = self.met(rows.column(0).chunks)
        self._budget.check_bytes(rows.num_rows, rows.nbytes)
        for name in names:
            self.keep(name, found, rows.column(name).chunks)

    def _taken(self, names: list[str], codes: IntArray) -> pa.Table | None:
        """Properties by row id, where a topology index tells it; None if they are to be found by id."""
        numbers = self._numbering
        few = len(codes) <= max(_TAKEN_MIN, self.row_count // _ROWS_PER_TAKEN)
        # Row ids of the original's tables are places, which are not the same on every branch.
        if not isinstance(numbers, NodeNumbers) or not few or not len(codes) or self.table.is_foreign:
            return None
        positions = self.positions_of(codes)
        if (positions < 0).any():
            return None
        rows = take_rows(self.table, names, numbers.row_ids(positions).tolist())
        self._statistics.count_read(rows.num_rows, rows.nbytes)
        self._budget.check_bytes(rows.num_rows, rows.nbytes)
        return rows if rows.num_rows == len(codes) else None

    def _picked(self, names: list[str], codes: IntArray) -> pa.Table | None:
        """Properties by place, where numbers are those of a scan: all rows are read, without ids."""
        numbers = self._numbering
        if not isinstance(numbers, NodeNumbers) or not numbers.is_scan_order or not len(codes):
            return None
        positions = self.positions_of(codes)
        if (positions < 0).any():
            return None
        order = np.argsort(positions, kind="stable")
        wanted = positions[order]
        pieces, rows, size = [self._empty(names)], 0, 0
        for batch in self.batches(names, None):
            first, last = np.searchsorted(wanted, [rows, rows + batch.num_rows])
            some = batch.take(in_arrow(wanted[first:last] - rows))
            rows, size = rows + batch.num_rows, size + some.nbytes
            self._budget.check_bytes(len(codes), size)
            pieces.append(pa.Table.from_batches([some]))
        if rows != len(numbers):
            return None
        found = pa.concat_tables(pieces)
        if np.array_equal(wanted, positions):
            return found
        places = np.empty(len(codes), np.int64)
        places[order] = np.arange(len(codes))
        return found.take(in_arrow(places))

    def keep(self, name: str, codes: IntArray, pieces: Sequence[pa.Array]) -> None:
        column = self._columns.setdefault(name, KeptColumn())
        column.grow(self.size)
        size = sum(piece.nbytes for piece in pieces)
        self._budget.hold(len(codes), size)
        if pieces and not pa.types.is_fixed_size_list(pieces[0].type):
            self._budget.check_array(len(codes), column.nbytes + size)
        values = pa.concat_arrays(pieces) if pieces else pa.array([], self._field(name).type)
        column.add(codes, values)

    def sampled(self, names: Sequence[str], rows: int) -> pa.Table:
        """Some rows from all over the table; the same for every read of a process."""
        key: CacheKey[pa.Table] = CacheKey(("sample", self.entry, tuple(names), rows))
        known = self._cache.get(key)
        if known is None:
            known = self.table.sample(names, rows)
            self._cache.put(key, known, known.nbytes)
        return known

    def _is_look_up(self, count: int) -> bool:
        return are_few(count, self.row_count) and count < self.row_count

    def _looked_up(self, columns: list[str], codes: IntArray, where: str | None) -> pa.Table:
        tables = [self._empty(columns)]
        for start in range(0, len(codes), _IDS_PER_FILTER):
            keys = in_filter(self.ids_of(codes[start : start + _IDS_PER_FILTER]))
            filtered = keys if where is None else f"({where}) AND {keys}"
            tables += [pa.Table.from_batches([batch]) for batch in self.batches(columns, filtered)]
        return pa.concat_tables(tables)

    def _empty(self, columns: Sequence[str]) -> pa.Table:
        return pa.schema([self._field(name) for name in columns]).empty_table()

    def _field(self, name: str) -> pa.Field:
        return pa.field(ROW_ID, pa.uint64()) if name == ROW_ID else self.table.schema.field(name)

    def batches(
        self, columns: Sequence[str], where: str | None, way: ScanWay | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the table that pass a filter."""
        uses_index, early = (True, False) if way is None else (way.use_index, way.early)
        for batch in self.table.scan(columns, where, use_index=uses_index, early=early):
            self._budget.check_time()
            self._statistics.count_read(batch.num_rows, batch.nbytes)
            if batch.num_rows:
                yield batch.select(list(columns))
