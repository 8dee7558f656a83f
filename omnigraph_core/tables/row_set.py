"""Some rows of one version of a table: whole fragments, and single rows by their addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph_core.records import dataclass
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.keys import KEY, are_few, find_keys, in_filter, is_any_known, remember_keys
from omnigraph_core.tables.limits import ADDRESSES_IN_FILTER_MAX, SORTED_ROWS_MAX

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

ADDRESS = "_rowaddr"
ROW_ID = "_rowid"

_BATCH_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class RowSet:
    """Reads in proportion to its rows, if they are few; in bounded memory, if they are many."""

    table: Table
    whole: tuple[int, ...]
    """Fragments of which every live row belongs to it."""
    single: np.ndarray[Any, Any]
    """Addresses of other rows, ascending: fragment id << 32 | offset."""
    rows: int

    @property
    def is_empty(self) -> bool:
        return not self.rows

    def read(self, columns: Sequence[str], *, blobs: bool = False) -> pa.Table:
        """All rows, with their addresses and row ids; for sets known to be small."""
        import pyarrow as pa

        parts = [self._scan(columns, self.whole, blobs).read_all()] if self.whole else []
        if len(self.single) or not parts:
            parts.append(self._read_single(columns, blobs=blobs))
        return pa.concat_tables(parts).select([*columns, ADDRESS, ROW_ID])

    def by_id(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """All rows by ascending id, with their addresses; in pieces. Without the bytes of blobs."""
        import pyarrow as pa

        if self.rows <= SORTED_ROWS_MAX:
            yield self.read(columns).select([*columns, ADDRESS]).sort_by(KEY)
            return
        fragments = sorted({*self.whole, *self._single_fragments()})
        names = [*columns, ADDRESS]
        batches = self.table.scan(
            list(columns),
            with_row_address=True,
            fragment_ids=fragments,
            batch_bytes=_BATCH_BYTES,
            order_by=KEY,
        )
        for batch in batches:
            yield self._mine(pa.Table.from_batches([batch])).select(names)

    def among(self, addresses: pa.ChunkedArray) -> RowSet:
        """The single rows at these addresses, which are some of its own."""
        import numpy as np

        chosen = np.sort(addresses.to_numpy())
        return RowSet(self.table, (), chosen, len(chosen))

    def _scan(self, columns: Sequence[str], fragments: Sequence[int], blobs: bool) -> Any:
        return self.table.scan(
            list(columns), with_row_id=True, with_row_address=True, fragment_ids=fragments, blobs=blobs
        )

    def _read_single(self, columns: Sequence[str], *, blobs: bool) -> pa.Table:
        import pyarrow as pa

        if len(self.single) <= ADDRESSES_IN_FILTER_MAX:
            listed = ", ".join(map(str, self.single.tolist()))
            return self.table.read(
                list(columns),
                f"{ADDRESS} IN ({listed})" if listed else "false",
                with_row_id=True,
                with_row_address=True,
                blobs=blobs,
            )
        batches = self._scan(columns, self._single_fragments(), blobs)
        found = [self._mine(pa.Table.from_batches([batch])) for batch in batches]
        return pa.concat_tables(found)

    def _single_fragments(self) -> list[int]:
        import numpy as np

        return [int(each) for each in np.unique(self.single >> np.uint64(32))]

    def _mine(self, rows: pa.Table) -> pa.Table:
        """Those of the rows that belong to it."""
        import numpy as np
        import pyarrow as pa

        addresses = rows.column(ADDRESS).to_numpy()
        mine = np.isin(addresses >> np.uint64(32), np.array(self.whole, np.uint64))
        if len(self.single):
            places = np.searchsorted(self.single, addresses)
            mine |= self.single[np.minimum(places, len(self.single) - 1)] == addresses
        return rows if mine.all() else rows.filter(pa.array(mine))


def all_rows(table: Table) -> RowSet:
    counts = table.fragment_rows()
    return row_set(table, tuple(counts), [], sum(counts.values()))


def no_rows(table: Table) -> RowSet:
    return row_set(table, (), [], 0)


def rows_of(table: Table, ids: pa.ChunkedArray) -> RowSet:
    """The rows with these ids, as far as there are any."""
    return no_rows(table).among(find_keys(table, ids).column(ADDRESS))


def read_rows_of(
    table: Table, ids: pa.ChunkedArray, columns: Sequence[str], *, blobs: bool = False
) -> pa.Table:
    """The same, read. Few rows are looked up and read at once, and where they are is remembered."""
    few = 0 < len(ids) <= ADDRESSES_IN_FILTER_MAX and are_few(len(ids), table.count_rows())
    if not few or is_any_known(table, ids):
        return rows_of(table, ids).read(columns, blobs=blobs)
    names = list(dict.fromkeys([KEY, *columns]))
    found = table.read(names, in_filter(ids), with_row_id=True, with_row_address=True, blobs=blobs)
    remember_keys(table, ids, found)
    return found.select([*columns, ADDRESS, ROW_ID])


def row_set(table: Table, whole: tuple[int, ...], single: Sequence[Any], rows_in_whole: int) -> RowSet:
    """`single` are arrays of addresses, in any order."""
    import numpy as np

    addresses = np.sort(np.concatenate([np.empty(0, np.uint64), *single]))
    return RowSet(table, whole, addresses, rows_in_whole + len(addresses))
