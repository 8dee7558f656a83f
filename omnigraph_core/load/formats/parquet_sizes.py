"""How many rows of a Parquet file to read at a time, so that they take few bytes once they are decoded.

A file may be far smaller than its rows: a text that occurs a million times is stored once, in
a dictionary. The dictionaries are looked at before any row is; no text is larger than the
largest in there, or than what is stored of the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph_core.load.formats.limits import PARQUET_BATCH_ROWS

if TYPE_CHECKING:
    from pyarrow import parquet as pq

_FIXED_BYTES = 16


def batch_rows(file: pq.ParquetFile, dictionaries: pq.ParquetFile, bytes_max: int) -> int:
    """`dictionaries` is the same file, opened with `dictionary_columns`."""
    widest = 0.0
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        if not group.num_rows:
            continue
        _refuse_damaged(file, number)
        columns = [group.column(each) for each in range(group.num_columns)]
        doubtful = [each.path_in_schema for each in columns if _is_doubtful(each, bytes_max)]
        longest = _longest(dictionaries, number, doubtful)
        stored = sum(_bytes(each, longest.get(each.path_in_schema.partition(".")[0], 0)) for each in columns)
        widest = max(widest, stored / group.num_rows)
    return max(1, min(PARQUET_BATCH_ROWS, int(bytes_max // max(widest, 1))))


def _refuse_damaged(file: pq.ParquetFile, group: int) -> None:
    """Read a row, which raises for columns that are described wrongly; asking for them ends the process."""
    next(file.iter_batches(batch_size=1, row_groups=[group]), None)


def dictionary_columns(file: pq.ParquetFile) -> list[str]:
    """The columns of texts and bytes, which may be stored in dictionaries."""
    schema = file.schema
    columns = [schema.column(number) for number in range(len(schema))]
    return [each.path for each in columns if each.physical_type == "BYTE_ARRAY"]


def _is_doubtful(column: Any, bytes_max: int) -> bool:
    """Could its texts be much larger than what is stored of them?"""
    if column.physical_type != "BYTE_ARRAY" or not column.has_dictionary_page:
        return False
    return bool(column.total_uncompressed_size * min(column.num_values, PARQUET_BATCH_ROWS) > bytes_max)


def _longest(dictionaries: pq.ParquetFile, group: int, paths: Sequence[str]) -> dict[str, int]:
    """The length of the longest text in the dictionary of each column, by the column's name."""
    if not paths:
        return {}
    names = sorted({path.partition(".")[0] for path in paths})
    first = next(dictionaries.iter_batches(batch_size=1, row_groups=[group], columns=names), None)
    return {} if first is None else {name: _longest_in(first.column(name)) for name in names}


def _longest_in(values: pa.Array) -> int:
    while isinstance(values, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        values = values.values
    if not isinstance(values, pa.DictionaryArray):
        return 0
    return int(pc.max(pc.binary_length(values.dictionary)).as_py() or 0)


def _bytes(column: Any, longest: int) -> int:
    if column.physical_type != "BYTE_ARRAY":
        return max(int(column.num_values) * _FIXED_BYTES, int(column.total_uncompressed_size))
    return max(int(column.num_values) * longest, int(column.total_uncompressed_size))
