"""Limits of the readers, each with its unit and its reason; docs/limits.md lists them."""

from __future__ import annotations

# A line is one record, and held in memory.
LINE_BYTES_MAX = 256 << 20

# Big enough that the fixed cost of a block disappears, small enough that a few blocks
# in flight are nothing beside the rows they become.
BLOCK_BYTES = 8 << 20

# Blocks that are read at the same time, unless a single one is larger.
READ_BYTES_MAX = 5 * BLOCK_BYTES

# Rows of a Parquet file that are read at a time, unless they would be too many bytes.
PARQUET_BATCH_ROWS = 1 << 16
PARQUET_BATCH_BYTES = 32 << 20

# A block is cut into pieces of so many lines: a line of one byte takes fifty while it is read.
BLOCK_LINES_MAX = 1 << 16

# So many mistakes of one record, and so many wrong columns of one file, are described: nobody
# reads more, and each takes a moment to word.
MISTAKES_PER_RECORD_MAX = 100
COLUMNS_SHOWN_MAX = 100
