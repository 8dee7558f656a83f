"""Keys of a table: duplicates inside a batch, and rows that already hold a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from omnigraph_core.errors import BadDataError
from omnigraph_core.records import dataclass
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.limits import KEYS_IN_FILTER_MAX, REMEMBERED_KEYS_MAX, ROWS_PER_KEY_FOR_FILTER
from omnigraph_core.tables.refs import TableRef

if TYPE_CHECKING:
    import pyarrow as pa

ROW_ID = "_rowid"
"""What Lance calls the column that says what indexes of a table call a row."""

KEY = "id"


# One large batch a time: `is_in` builds its hash table anew for every call.
_SCAN_BATCH_ROWS = 1 << 20


class DuplicateKey(BadDataError):
    """One batch gives the same key twice, so no order of applying it would be right."""

    def __init__(self, table_key: str, key: str) -> None:
        super().__init__(f"{table_key}: id '{key}' occurs more than once in this write")
        self.table_key = table_key
        self.key = key

    def details(self) -> Mapping[str, object]:
        return {"table_key": self.table_key, "id": self.key}


def refuse_duplicates(keys: pa.ChunkedArray, ref: TableRef) -> None:
    """Raise DuplicateKey naming the first key that occurs twice."""
    import pyarrow.compute as pc

    if pc.count_distinct(keys).as_py() == len(keys):
        return
    counts = pc.value_counts(keys)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    raise DuplicateKey(ref.key, repeated.field("values")[0].as_py())


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """Keys that were looked up in one version of a table, and the rows that have one of them."""

    keys: pa.Array
    rows: pa.Table
    """Columns id, _rowid, _rowaddr."""


def find_keys(table: Table, keys: pa.ChunkedArray) -> pa.Table:
    """The rows of `table` whose id is among `keys`: columns id, _rowid, _rowaddr.

    A few are remembered with the table: a merge looks at rows, and then replaces them.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(keys) > REMEMBERED_KEYS_MAX:
        return _looked_up(table, keys)
    known = table.known_keys
    if known is None:
        return remember_keys(table, keys, _looked_up(table, keys))
    unknown = keys.filter(pc.invert(pc.is_in(keys, value_set=known.keys)))
    found = known.rows.filter(pc.is_in(known.rows.column(KEY), value_set=keys.combine_chunks()))
    if not len(unknown):
        return found
    return pa.concat_tables([found, remember_keys(table, unknown, _looked_up(table, unknown))])


def is_any_known(table: Table, keys: pa.ChunkedArray) -> bool:
    """Is it remembered of any of these keys which row has it?"""
    import pyarrow.compute as pc

    known = table.known_keys
    return known is not None and bool(pc.any(pc.is_in(keys, value_set=known.keys)).as_py())


def remember_keys(table: Table, keys: pa.ChunkedArray, rows: pa.Table) -> pa.Table:
    """Say which rows have these keys, of which nothing was known: `rows`, and no others. Returns them."""
    import pyarrow as pa

    rows = rows.select(_found_schema().names).cast(_found_schema())
    known, keys = table.known_keys, keys.cast(pa.string())
    if known is None:
        table.known_keys = KnownKeys(keys.combine_chunks(), rows)
    elif len(known.keys) + len(keys) <= REMEMBERED_KEYS_MAX:
        both = pa.chunked_array([known.keys, *keys.chunks], pa.string())
        table.known_keys = KnownKeys(both.combine_chunks(), pa.concat_tables([known.rows, rows]))
    return rows


def _looked_up(table: Table, keys: pa.ChunkedArray) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = table.count_rows()
    if len(keys) == 0 or rows == 0:
        return no_places()
    if are_few(len(keys), rows):
        found = table.read([KEY], in_filter(keys), with_row_id=True, with_row_address=True)
        return found.select(_found_schema().names)
    wanted = keys.combine_chunks()
    reader = table.scan([KEY], with_row_id=True, with_row_address=True, batch_rows=_SCAN_BATCH_ROWS)
    matches = [batch.filter(pc.is_in(batch.column(KEY), value_set=wanted)) for batch in reader]
    return pa.Table.from_batches(matches, reader.schema).select(_found_schema().names)


def are_few(keys: int, rows: int) -> bool:
    """Is an index asked for so many keys, or are all rows looked at?"""
    return keys <= max(KEYS_IN_FILTER_MAX, rows // ROWS_PER_KEY_FOR_FILTER)


def rows_with(table: Table, names: Sequence[str], columns: Sequence[str], values: pa.Array) -> pa.Table:
    """The columns `names` of the rows in which one of `columns`, all texts, is among `values`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(values) <= KEYS_IN_FILTER_MAX:
        wanted = pa.chunked_array([values], pa.utf8())
        parts = [in_filter(wanted, column) for column in columns] if len(values) else ["false"]
        return table.read(names, " OR ".join(parts))
    found = []
    reader = table.scan(list(dict.fromkeys([*names, *columns])))
    for batch in reader:
        chosen = [pc.is_in(batch.column(column), value_set=values) for column in columns]
        found.append(batch.filter(reduce(pc.or_, chosen)))
    return pa.Table.from_batches(found, reader.schema).select(list(names))


def in_filter(keys: pa.ChunkedArray, column: str = KEY) -> str:
    """`column IN ('a', 'b')` as Lance reads it."""
    return f"{column} IN ({', '.join(quote_text(key) for key in keys.to_pylist())})"


def quote_text(text: str) -> str:
    """A SQL string literal; a quote inside is doubled, nothing else is special."""
    return "'" + text.replace("'", "''") + "'"


def no_places() -> pa.Table:
    """No rows, with the columns that `find_keys` answers in."""
    return _found_schema().empty_table()


def _found_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(KEY, pa.string()), ("_rowid", pa.uint64()), ("_rowaddr", pa.uint64())])
