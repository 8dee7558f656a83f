"""Bounds of merging."""

ROWS_AT_ONCE = 65_536
"""Rows that are read from base, ours and theirs before any of them is let go of."""
