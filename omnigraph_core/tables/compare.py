"""Which rows differ between any two versions of one dataset, read in proportion to what changed.

Data files have unique names and are never rewritten, so fragments with the same files hold the
same rows, on whatever lineage, except for those that their deletion files mark. Where fragments
are left on both sides, a fold or a compaction may have carried rows along: a row that has the
same row id and the same version of its last update on both sides, from before the lineages
parted, is the same row.

All this holds for columns that are the same on both sides. One that was dropped and made again, or
that has got another's name, has other values in rows that nobody touched.

Lance's own `delta()` knows the version numbers of one lineage and answers wrongly across two,
without a word; so it is never asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_core.errors import InternalError
from omnigraph_core.records import dataclass
from omnigraph_core.tables.columns import StoredColumn, stored_columns
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.deletions import deleted_offsets
from omnigraph_core.tables.fragments import file_name
from omnigraph_core.tables.limits import CARRIED_ROWS_MAX, CARRIED_ROWS_MIN
from omnigraph_core.tables.lineage import common_columns, keep_their_values, parting
from omnigraph_core.tables.row_set import ADDRESS, ROW_ID, RowSet, all_rows, row_set

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_UPDATED = "_row_last_updated_at_version"


@dataclass(frozen=True, slots=True)
class Compared:
    """Rows of the first version that the second may not have as they are, and the other way round.

    Every row that differs is in one of them or, under its `id`, in both. A row may be in both
    with equal content: look before you call it changed.
    """

    gone: RowSet
    come: RowSet

    @property
    def is_empty(self) -> bool:
        return self.gone.is_empty and self.come.is_empty


@dataclass(frozen=True, slots=True)
class _Fragment:
    number: int
    rows: int
    deletion: Any
    """Its deletion file, or None."""
    fields: frozenset[int]
    """The ids of the columns that its files have values of."""

    @property
    def deleted(self) -> tuple[int, int] | None:
        return None if self.deletion is None else (self.deletion.read_version, self.deletion.id)


Pairs = Sequence[tuple[str | None, str | None]]
"""Columns by their names in both tables; None where a table does not have it."""


def compare(tables: Tables, a: Table, b: Table, columns: Pairs | None = None) -> Compared:
    """What `b` does not have of `a`, and what it has instead.

    `columns` are those whose values matter; if None, the common ones.
    """
    if a.ref.path != b.ref.path:
        raise InternalError(f"{a.ref.path} and {b.ref.path} are two datasets")
    pairs = common_columns(tables, a, b) if columns is None else columns
    stored = _stored(a, b, pairs)
    old, new = _fragments(a), _fragments(b)
    if not all(_is_same(stored, old[files], new[files]) for files in old.keys() & new.keys()):
        return Compared(all_rows(a), all_rows(b))
    gone: list[Any] = []
    come: list[Any] = []
    for files in old.keys() & new.keys():
        before, after = old[files], new[files]
        if before.deleted == after.deleted:
            continue
        was, is_ = _deleted_offsets(tables, a, before), _deleted_offsets(tables, b, after)
        gone.append(_addresses(before, _without(is_, was)))
        come.append(_addresses(after, _without(was, is_)))
    left = [fragment for files, fragment in old.items() if files not in new]
    made = [fragment for files, fragment in new.items() if files not in old]
    is_worth_it = _rows_in(left) + _rows_in(made) > CARRIED_ROWS_MIN
    if left and made and is_worth_it and keep_their_values(tables, a, b, pairs):
        return _without_carried(tables, a, b, (left, gone), (made, come))
    return Compared(_set(a, left, gone), _set(b, made, come))


def still_there(tables: Tables, a: Table, b: Table, rows: pa.Table, columns: Pairs) -> pa.Table:
    """Those of the rows of `a` that `b` has as they are, in the same files, with their addresses in `b`.

    Of `rows`, columns _rowid and _rowaddr are asked for; the row ids are the same in both.
    """
    import numpy as np
    import pyarrow as pa

    stored, new = _stored(a, b, columns), _fragments(b)
    old = {fragment.number: (files, fragment) for files, fragment in _fragments(a).items()}
    addresses = rows.column(ADDRESS).to_numpy()
    numbers, offsets = addresses >> np.uint64(32), addresses & np.uint64(0xFFFFFFFF)
    found, now = np.zeros(len(addresses), bool), addresses.copy()
    for number in np.unique(numbers).tolist():
        files, before = old[number]
        after = new.get(files)
        if after is None or not _is_same(stored, before, after):
            continue
        mine = numbers == number
        live = mine & ~np.isin(offsets, _deleted_offsets(tables, b, after))
        found |= live
        now[mine] = _addresses(after, offsets[mine])
    placed = rows.set_column(rows.column_names.index(ADDRESS), ADDRESS, pa.array(now))
    return placed.filter(pa.array(found))


_Ids = frozenset[int]


def _stored(a: Table, b: Table, pairs: Pairs) -> list[tuple[_Ids, _Ids]]:
    """The ids by which either side finds the values of a column, where they are not the same."""
    ours, theirs = stored_columns(a.lance.lance_schema), stored_columns(b.lance.lance_schema)

    def ids(columns: Mapping[str, StoredColumn], name: str | None) -> _Ids:
        return frozenset() if name is None else frozenset(columns[name].ids)

    found = [(ids(ours, was), ids(theirs, now)) for was, now in pairs]
    return [(one, other) for one, other in found if one != other]


def _is_same(stored: Sequence[tuple[_Ids, _Ids]], before: _Fragment, after: _Fragment) -> bool:
    """Do both sides find the same values in the same files, or none?"""
    return all(one & before.fields == other & after.fields for one, other in stored)


def _set(table: Table, whole: Sequence[_Fragment], single: Sequence[Any]) -> RowSet:
    return row_set(table, tuple(fragment.number for fragment in whole), single, _rows_in(whole))


def _rows_in(fragments: Sequence[_Fragment]) -> int:
    return sum(fragment.rows for fragment in fragments)


def _fragments(table: Table) -> dict[tuple[str, ...], _Fragment]:
    """The fragments by the names of their data files, which differ from lineage to lineage in nothing."""
    found = {}
    for fragment in table.lance.get_fragments():
        metadata = fragment.metadata
        files = tuple(sorted(file_name(file) for file in metadata.files))
        fields = frozenset(id_ for file in metadata.files for id_ in file.fields)
        found[files] = _Fragment(fragment.fragment_id, metadata.num_rows, metadata.deletion_file, fields)
    return found


def _addresses(fragment: _Fragment, offsets: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.uint64(fragment.number << 32) | offsets.astype(np.uint64)


def _without(offsets: np.ndarray[Any, Any], others: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    return np.setdiff1d(offsets, others, assume_unique=True)


def _deleted_offsets(tables: Tables, table: Table, fragment: _Fragment) -> np.ndarray[Any, Any]:
    return deleted_offsets(tables.storage, table, fragment.number, fragment.rows, fragment.deletion)


def _without_carried(
    tables: Tables,
    a: Table,
    b: Table,
    old: tuple[list[_Fragment], list[Any]],
    new: tuple[list[_Fragment], list[Any]],
) -> Compared:
    """What is left when rows that were only carried to another fragment are taken out."""
    if _rows_in(old[0]) + _rows_in(new[0]) > CARRIED_ROWS_MAX:
        return Compared(_set(a, *old), _set(b, *new))
    before, after = _row_versions(a, old[0]), _row_versions(b, new[0])
    same = _carried(before, after, parting(tables, a, b).version)
    if not len(same):
        return Compared(_set(a, *old), _set(b, *new))
    return Compared(
        row_set(a, (), [*old[1], _others(before, same)], 0),
        row_set(b, (), [*new[1], _others(after, same)], 0),
    )


def _row_versions(table: Table, fragments: Sequence[_Fragment]) -> pa.Table:
    """Row id, address and version of the last update; all of it is metadata."""
    return table.read(
        [_UPDATED],
        with_row_id=True,
        with_row_address=True,
        fragment_ids=[fragment.number for fragment in fragments],
    )


def _carried(before: pa.Table, after: pa.Table, parted: int) -> pa.Array:
    """Row ids of the rows that are the same on both sides."""
    import pyarrow.compute as pc

    known = before.column(ROW_ID).combine_chunks()
    was = before.column(_UPDATED).take(pc.index_in(after.column(ROW_ID), value_set=known))
    same = pc.and_(pc.equal(was, after.column(_UPDATED)), pc.less_equal(was, parted))
    return after.column(ROW_ID).filter(pc.fill_null(same, False)).combine_chunks()


def _others(rows: pa.Table, same: pa.Array) -> np.ndarray[Any, Any]:
    import pyarrow.compute as pc

    others = rows.filter(pc.invert(pc.is_in(rows.column(ROW_ID), value_set=same)))
    addresses: np.ndarray[Any, Any] = others.column(ADDRESS).to_numpy()
    return addresses
