"""What has become of a table between two versions of one lineage, read in proportion to what changed.

Data files are never rewritten in place, so a fragment with the same files and the same
deletion file holds the same rows. Of the others all live rows are read, on both sides. A row
that a fold has only carried to another fragment has the same row id and the same version
of its last update on both sides, and counts as unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_core.records import dataclass
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.fragments import file_name

if TYPE_CHECKING:
    import pyarrow as pa

_UPDATED = "_row_last_updated_at_version"


@dataclass(frozen=True, slots=True)
class Moved:
    """Rows that are not what they were. One that was changed is in `before` and in `after`, under
    one `_rowid`."""

    before: pa.Table
    after: pa.Table
    places: pa.Table
    """`_rowid` and `_rowaddr` now, of every row in a fragment that was not there before."""
    left: frozenset[int]
    """Fragments of the older version that are no longer there as they were."""

    @property
    def inserted(self) -> pa.Table:
        return _without(self.after, self.before)

    @property
    def removed(self) -> pa.Table:
        return _without(self.before, self.after)


def compare(older: Table, newer: Table, columns: Sequence[str], rows_max: int) -> Moved | None:
    """The rows that differ, with these columns; None when more than `rows_max` would have to be read."""
    import pyarrow.compute as pc

    old, new = _fragments(older), _fragments(newer)
    left = [number for key, (number, _) in old.items() if key not in new]
    come = [number for key, (number, _) in new.items() if key not in old]
    count = sum(rows for key, (_, rows) in old.items() if key not in new)
    count += sum(rows for key, (_, rows) in new.items() if key not in old)
    if count > rows_max:
        return None
    before, after = _rows(older, columns, left), _rows(newer, columns, come)
    places = after.select(["_rowid", "_rowaddr"])
    same = _in_both(before, after, older.version)
    return Moved(
        before.filter(pc.invert(pc.is_in(before.column("_rowid"), value_set=same))).select(
            [*columns, "_rowid"]
        ),
        after.filter(pc.invert(pc.is_in(after.column("_rowid"), value_set=same))).select(
            [*columns, "_rowid"]
        ),
        places,
        frozenset(left),
    )


def _fragments(table: Table) -> dict[Any, tuple[int, int]]:
    """Number and live rows of each fragment, by what tells its content."""
    found = {}
    for fragment in table.lance.get_fragments():
        metadata = fragment.metadata
        deletion = metadata.deletion_file
        deleted = None if deletion is None else (deletion.read_version, deletion.id)
        files = tuple(sorted(file_name(file) for file in metadata.files))
        found[fragment.fragment_id, files, deleted] = (fragment.fragment_id, metadata.num_rows)
    return found


def _rows(table: Table, columns: Sequence[str], fragment_ids: Sequence[int]) -> pa.Table:
    if not fragment_ids:
        return table.read([*columns, _UPDATED], "false", with_row_id=True, with_row_address=True)
    return table.read(
        [*columns, _UPDATED], with_row_id=True, with_row_address=True, fragment_ids=fragment_ids
    )


def _in_both(before: pa.Table, after: pa.Table, version: int) -> pa.Array:
    """Row ids of rows that were carried along as they are."""
    import pyarrow.compute as pc

    was = before.column(_UPDATED).take(pc.index_in(after.column("_rowid"), before.column("_rowid")))
    same = pc.and_(pc.equal(was, after.column(_UPDATED)), pc.less_equal(was, version))
    return after.column("_rowid").filter(pc.fill_null(same, False)).combine_chunks()


def _without(rows: pa.Table, others: pa.Table) -> pa.Table:
    import pyarrow.compute as pc

    known = others.column("_rowid").combine_chunks()
    return rows.filter(pc.invert(pc.is_in(rows.column("_rowid"), value_set=known)))
