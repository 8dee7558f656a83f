"""The nodes or edges of one type as a query meets them: ids, codes, properties.

A code is the position of an id among those met so far and stays what it is while more
are met. Properties are read when they are first asked for, for the entities asked
about, and kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from omnigraph_core.read.arrays import distinct, is_among, whole
from omnigraph_core.read.budget import Budget
from omnigraph_core.schema import EntityType, NodeType, Scalar
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.keys import in_filter

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph_core.read.arrays import BoolArray, IntArray
    from omnigraph_core.read.statistics import Statistics

# A look-up of so many ids goes through their index, or of more where that is a small
# part of the table; beyond it one pass over the column is cheaper.
LOOKED_UP_MAX = 1_000
ROWS_PER_LOOK_UP = 50

# One look-up names at most so many ids, so that the text of a filter stays small.
_IDS_PER_FILTER = 20_000


class _Column:
    """Values of one property; `slots` says for each code where its value is, -1 for not read yet."""

    __slots__ = ("length", "pieces", "slots")

    def __init__(self) -> None:
        import numpy as np

        self.slots: IntArray = np.zeros(0, np.int64)
        self.pieces: list[pa.Array] = []
        self.length = 0

    def grow(self, size: int) -> None:
        import numpy as np

        missing = size - len(self.slots)
        if missing > 0:
            self.slots = np.concatenate([self.slots, np.full(missing, -1, np.int64)])

    def add(self, codes: IntArray, values: pa.Array) -> None:
        import numpy as np

        self.slots[codes] = np.arange(self.length, self.length + len(values))
        self.pieces.append(values)
        self.length += len(values)

    def take(self, codes: IntArray) -> pa.Array:
        import pyarrow as pa

        if len(self.pieces) > 1:
            self.pieces = [pa.concat_arrays(self.pieces)]
        return self.pieces[0].take(pa.array(self.slots[codes]))


class Entities:
    """The entities of one type at one version of its table."""

    def __init__(self, entity: EntityType, table: Table, rows: int, budget: Budget, statistics: Statistics):
        import pyarrow as pa

        self.entity = entity
        self.table = table
        self.row_count = rows
        self._budget = budget
        self._statistics = statistics
        self._ids: pa.Array = pa.array([], pa.utf8())
        self._columns: dict[str, _Column] = {}
        self._id_names = {ID_COLUMN, *_names_of_id(entity)}
        self.is_complete = False

    @property
    def size(self) -> int:
        """How many have been met; all codes are below it."""
        return len(self._ids)

    @property
    def ids(self) -> pa.Array:
        return self._ids

    def ids_of(self, codes: IntArray) -> pa.Array:
        import pyarrow as pa

        return self._ids.take(pa.array(codes))

    def codes_of(self, ids: pa.Array) -> IntArray:
        """The codes of these ids; ones not met before get the next codes."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if not len(ids):
            return np.zeros(0, np.int64)
        found = pc.index_in(ids, value_set=self._ids)
        if found.null_count:
            fresh = pc.unique(ids.filter(pc.is_null(found)))
            self._ids = pa.concat_arrays([self._ids, fresh]) if len(self._ids) else fresh
            found = pc.index_in(ids, value_set=self._ids)
        codes: IntArray = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return codes

    def meet_all(self) -> None:
        """Give every entity of the type a code."""
        if self.is_complete:
            return
        self._met([batch.column(0) for batch in self._scan([ID_COLUMN], None)])
        self.is_complete = True

    def _met(self, pieces: Iterable[pa.Array]) -> IntArray:
        """Codes of the ids of a scan: no id occurs twice in it."""
        import numpy as np
        import pyarrow as pa

        arrays = list(pieces)
        ids = pa.concat_arrays(arrays) if arrays else pa.array([], pa.utf8())
        if self.size:
            return self.codes_of(ids)
        self._ids = ids
        return np.arange(len(ids), dtype=np.int64)

    def scan(self, where: str | None, columns: Sequence[str]) -> IntArray:
        """The codes of all that pass a filter, with these properties read along the way."""
        columns = [name for name in columns if name not in self._id_names]
        batches, rows, size = [], 0, 0
        for batch in self._scan([ID_COLUMN, *columns], where):
            rows, size = rows + batch.num_rows, size + batch.nbytes
            self._budget.check_bytes(rows, size)
            batches.append(batch)
        codes = self._met(batch.column(0) for batch in batches)
        if where is None:
            self.is_complete = True
        for position, name in enumerate(columns, 1):
            self.keep(name, codes, [batch.column(position) for batch in batches])
        return codes

    def passing(self, codes: IntArray, where: str) -> BoolArray:
        """For each of the codes, whether its entity passes a filter."""
        import pyarrow as pa

        values, _ = distinct(codes, self.size)
        if self._is_look_up(len(values)):
            found = [self._looked_up([ID_COLUMN], values, where)]
        else:
            found = [pa.Table.from_batches([batch]) for batch in self._scan([ID_COLUMN], where)]
        ids = whole(pa.concat_tables(found).column(0)) if found else pa.array([], pa.utf8())
        return self.among(codes, ids)

    def among(self, codes: IntArray, ids: pa.Array) -> BoolArray:
        """For each of the codes, whether its id is among these."""
        import numpy as np
        import pyarrow.compute as pc

        found = pc.index_in(ids, value_set=self._ids).drop_null()
        return is_among(codes, found.to_numpy(zero_copy_only=False).astype(np.int64), self.size)

    def column(self, name: str, codes: IntArray) -> pa.Array:
        """A property of each of the codes."""
        if name in self._id_names:
            return self.ids_of(codes)
        self.read([name], codes)
        return self._columns[name].take(codes)

    def fetched(self, name: str, codes: IntArray) -> pa.Array:
        """A property of each of the codes, which are distinct, without keeping it."""
        kept = self._columns.pop(name, None)
        try:
            return self.column(name, codes)
        finally:
            self._columns.pop(name, None)
            if kept is not None:
                self._columns[name] = kept

    def read(self, names: Sequence[str], codes: IntArray) -> None:
        """Have these properties of these entities at hand, in one pass for all that is missing."""
        import numpy as np

        values, _ = distinct(codes, self.size)
        names = [name for name in names if name not in self._id_names]
        for name in names:
            self._columns.setdefault(name, _Column()).grow(self.size)
        absent = {name: self._columns[name].slots[values] < 0 for name in names}
        missing = [name for name in names if absent[name].any() or not self._columns[name].pieces]
        if missing:
            fresh = values[np.logical_or.reduce([absent[name] for name in missing])]
            self._read_fresh(missing, fresh)

    def _read_fresh(self, names: list[str], codes: IntArray) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        keys = self.ids_of(codes)
        if self._is_look_up(len(codes)):
            rows = self._looked_up([ID_COLUMN, *names], codes, None)
        else:
            batches = [
                batch.filter(pc.is_in(batch.column(0), value_set=keys))
                if len(codes) < self.row_count
                else batch
                for batch in self._scan([ID_COLUMN, *names], None)
            ]
            rows = pa.Table.from_batches(batches) if batches else self._empty([ID_COLUMN, *names])
        places = pc.index_in(whole(rows.column(0)), value_set=keys).to_numpy(zero_copy_only=False)
        found = codes[places.astype(np.int64)]
        for name in names:
            self.keep(name, found, rows.column(name).chunks)

    def keep(self, name: str, codes: IntArray, pieces: Sequence[pa.Array]) -> None:
        import pyarrow as pa

        column = self._columns.setdefault(name, _Column())
        column.grow(self.size)
        values = pa.concat_arrays(pieces) if pieces else pa.array([], self.table.schema.field(name).type)
        column.add(codes, values)

    def _is_look_up(self, count: int) -> bool:
        return count <= max(LOOKED_UP_MAX, self.row_count // ROWS_PER_LOOK_UP) and count < self.row_count

    def _looked_up(self, columns: list[str], codes: IntArray, where: str | None) -> pa.Table:
        import pyarrow as pa

        tables = [self._empty(columns)]
        for start in range(0, len(codes), _IDS_PER_FILTER):
            keys = in_filter(self.ids_of(codes[start : start + _IDS_PER_FILTER]))
            filtered = keys if where is None else f"({where}) AND {keys}"
            tables += [pa.Table.from_batches([batch]) for batch in self._scan(columns, filtered)]
        return pa.concat_tables(tables)

    def _empty(self, columns: Sequence[str]) -> pa.Table:
        import pyarrow as pa

        return pa.schema([self.table.schema.field(name) for name in columns]).empty_table()

    def _scan(self, columns: Sequence[str], where: str | None) -> Iterator[pa.RecordBatch]:
        for batch in self.table.scan(columns, where):
            self._budget.check_time()
            self._statistics.count_read(batch.num_rows, batch.nbytes)
            if batch.num_rows:
                yield batch.select(list(columns))


def _names_of_id(entity: EntityType) -> list[str]:
    """A text that is the whole key of a node is its id, letter for letter; nothing else need be read."""
    key = entity.key if isinstance(entity, NodeType) else None
    if key is None or len(key.columns) != 1:
        return []
    prop = entity.find_property(key.columns[0])
    return [prop.name] if prop is not None and prop.type.scalar is Scalar.STRING else []
