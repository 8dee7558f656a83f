"""Limits of the readers, each with its unit and its reason; docs/limits.md lists them."""

from __future__ import annotations

# A line is one record, and held in memory.
LINE_BYTES_MAX = 256 << 20

# Big enough that the fixed cost of a block disappears, small enough that a few blocks
# in flight are nothing beside the rows they become.
BLOCK_BYTES = 8 << 20
