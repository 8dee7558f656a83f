"""The rows of one type that differ between two states: inserted, updated, deleted; in the order of ids.

Both sides are read by id, in pieces of bounded size, and joined piece by piece. Few changed rows
are read by address; many are sorted by Lance, which spills to disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.diff.columns import Side, shared_columns, stored_pairs
from omnigraph_core.diff.equality import Mask, differ
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, Scalar
from omnigraph_core.schema.model import ID_COLUMN
from omnigraph_core.tables.compare import compare
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.row_set import ADDRESS, RowSet, all_rows, rows_of
from omnigraph_core.values.arrays import whole

# One blob may be as large as memory allows, so rows with blobs come in small numbers.
_BLOB_ROWS_AT_ONCE = 64

_NO_ROWS = pa.table({ID_COLUMN: pa.array([], pa.utf8()), ADDRESS: pa.array([], pa.uint64())})


Lasting = Callable[[], AbstractContextManager[None]]
"""Entered while the tables are read; says what is wrong if they go meanwhile."""


@dataclass(frozen=True, slots=True)
class RowChanges:
    """Some rows that differ. Columns are those of the type on the side that a row is from."""

    inserted: pa.Table
    deleted: pa.Table
    before: pa.Table
    """Updated rows as they were; row by row beside `after`."""
    after: pa.Table
    changed: Mapping[str, Mask]
    """Where the values of each shared property differ, by its later name; `src` and `dst` are among them."""
    was: Mapping[str, str]
    """The name that each of them has in `before`."""

    @property
    def updated(self) -> int:
        return int(self.after.num_rows)

    @property
    def is_empty(self) -> bool:
        return not (self.inserted.num_rows or self.deleted.num_rows or self.updated)

    def changed_properties(self) -> pa.Array:
        """The names of the properties that differ, of every updated row."""
        names = list(self.changed)
        masks = np.array([self.changed[name] for name in names]).reshape(len(names), self.updated)
        rows, columns = np.nonzero(masks.T)
        offsets = np.searchsorted(rows, np.arange(self.updated + 1))
        chosen = pa.array(names, pa.utf8()).take(pa.array(columns))
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), chosen)


@dataclass(frozen=True, slots=True)
class Counts:
    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    def plus(self, other: Counts) -> Counts:
        return Counts(
            self.inserted + other.inserted, self.updated + other.updated, self.deleted + other.deleted
        )

    @property
    def total(self) -> int:
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True, slots=True)
class TableDiff:
    """One type. Without a side, the type came or went with all its rows."""

    tables: Tables
    before: Side | None
    after: Side | None
    ids: tuple[str, ...] | None = None
    """Only these entities, if given."""
    lasting: Lasting = nullcontext

    @property
    def entity(self) -> EntityType:
        """The type as the later state calls it, or else the earlier one."""
        side = self.after or self.before
        assert side is not None
        return side.entity

    def batches(self) -> Iterator[RowChanges]:
        """All changes by ascending id, in pieces; none that is empty."""
        with self.lasting():
            yield from self._batches()

    def _batches(self) -> Iterator[RowChanges]:
        before, after, shared = self.before, self.after, {}
        if before is not None and after is not None:
            columns = shared_columns(self.tables, before, after)
            shared = {column.after: column.before for column in columns}
        old_rows, new_rows = self._rows()
        gone, come = _Reader(before, old_rows), _Reader(after, new_rows)
        at_once = _BLOB_ROWS_AT_ONCE if gone.blobs or come.blobs else None
        for old, new in _side_by_side(gone.by_id(), come.by_id(), at_once):
            found = _joined(gone.complete(old), come.complete(new), shared)
            if not found.is_empty:
                yield found

    def counts(self) -> Counts:
        total = Counts()
        for each in self.batches():
            total = total.plus(Counts(each.inserted.num_rows, each.updated, each.deleted.num_rows))
        return total

    def read(self) -> RowChanges:
        """All changes at once; for those known to be few."""
        parts = list(self.batches())
        if not parts:
            return RowChanges(_NO_ROWS, _NO_ROWS, _NO_ROWS, _NO_ROWS, {}, {})
        return RowChanges(
            inserted=pa.concat_tables([part.inserted for part in parts]),
            deleted=pa.concat_tables([part.deleted for part in parts]),
            before=pa.concat_tables([part.before for part in parts]),
            after=pa.concat_tables([part.after for part in parts]),
            changed={
                name: np.concatenate([part.changed[name] for part in parts]) for name in parts[0].changed
            },
            was=parts[0].was,
        )

    def _rows(self) -> tuple[RowSet | None, RowSet | None]:
        """The rows to look at on both sides; none of a side that is not there."""
        before, after = self.before, self.after
        if self.ids is None and before is not None and after is not None:
            columns = stored_pairs(self.tables, before, after)
            found = compare(self.tables, before.table, after.table, columns)
            return found.gone, found.come
        return self._rows_of(before), self._rows_of(after)

    def _rows_of(self, side: Side | None) -> RowSet | None:
        if side is None:
            return None
        if self.ids is None:
            return all_rows(side.table)
        return rows_of(side.table, pa.chunked_array([self.ids], pa.utf8()))


class _Reader:
    """The rows of one side: by id without their blobs, and then with them."""

    def __init__(self, side: Side | None, rows: RowSet | None) -> None:
        self.blobs: list[str] = []
        self._rows, self._columns = rows, [ID_COLUMN]
        if side is not None:
            self.blobs = [prop.name for prop in side.entity.properties if prop.type.scalar is Scalar.BLOB]
            self._columns = list(side.entity.columns)

    def by_id(self) -> Iterator[pa.Table]:
        if self._rows is None:
            return iter([_NO_ROWS])
        return self._rows.by_id([name for name in self._columns if name not in self.blobs])

    def complete(self, rows: pa.Table) -> pa.Table:
        """The rows with the bytes of their blobs, without their addresses."""
        if not self.blobs or self._rows is None:
            return rows.select([name for name in rows.column_names if name != ADDRESS])
        addresses = rows.column(ADDRESS)
        found = self._rows.among(addresses).read(self.blobs, blobs=True)
        places = pc.index_in(addresses, value_set=whole(found.column(ADDRESS)))
        for name in self.blobs:
            rows = rows.append_column(name, found.column(name).take(places))
        return rows.select(self._columns)


def _side_by_side(
    gone: Iterator[pa.Table], come: Iterator[pa.Table], rows_max: int | None
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Both in step: each pair holds all rows of a range of ids, at most `rows_max` a side."""
    old, new = _Cursor(gone, rows_max), _Cursor(come, rows_max)
    while True:
        ends = [each.last for each in (old, new) if each.fill()]
        if not ends:
            return
        bound = min(ends)
        yield old.up_to(bound), new.up_to(bound)


class _Cursor:
    """Rows by ascending id, handed out range by range."""

    def __init__(self, pieces: Iterator[pa.Table], rows_max: int | None) -> None:
        self._pieces = pieces
        self._rows_max = rows_max
        self._held: pa.Table = next(pieces, _NO_ROWS)

    def fill(self) -> bool:
        """Have rows at hand; false at the end."""
        while not self._held.num_rows:
            following = next(self._pieces, None)
            if following is None:
                return False
            self._held = following
        return True

    @property
    def last(self) -> str:
        """The last id of what is at hand, or of as much of it as may be handed out at once."""
        count = self._held.num_rows if self._rows_max is None else min(self._held.num_rows, self._rows_max)
        found: str = self._held.column(ID_COLUMN)[count - 1].as_py()
        return found

    def up_to(self, bound: str) -> pa.Table:
        count = pc.sum(pc.less_equal(self._held.column(ID_COLUMN), bound)).as_py() or 0
        part, self._held = self._held.slice(0, count), self._held.slice(count)
        return part


def _joined(old: pa.Table, new: pa.Table, shared: Mapping[str, str]) -> RowChanges:
    """Rows of one range of ids, told apart by whether both sides have them, and differently."""
    old_ids, new_ids = whole(old.column(ID_COLUMN)), whole(new.column(ID_COLUMN))
    places = pc.index_in(new_ids, value_set=old_ids)
    in_both = pc.is_valid(places)
    deleted = old.filter(pc.invert(pc.is_in(old_ids, value_set=new_ids)))
    inserted = new.filter(pc.invert(in_both))
    before, after = old.take(places.drop_null()), new.filter(in_both)
    masks = {now: values_differ(before.column(was), after.column(now)) for now, was in shared.items()}
    changed = np.zeros(after.num_rows, np.bool_)
    for mask in masks.values():
        changed |= mask
    chosen = pa.array(changed)
    return RowChanges(
        inserted,
        deleted,
        before.filter(chosen),
        after.filter(chosen),
        {name: mask[changed] for name, mask in masks.items()},
        shared,
    )


def values_differ(old: pa.ChunkedArray, new: pa.ChunkedArray) -> Mask:
    """The narrower of two types is read as the wider one."""
    if old.type != new.type:
        wider = max(old.type, new.type, key=_width)
        old, new = old.cast(wider), new.cast(wider)
    return differ(old, new)


def _width(type_: pa.DataType) -> tuple[int, bool]:
    single = type_.value_type if pa.types.is_list(type_) else type_
    return single.bit_width, pa.types.is_floating(single)
