"""Limits of loads, each with its unit and its reason; docs/limits.md lists them."""

from __future__ import annotations

# Reading more than this under the lock would be the long check that is to be avoided.
MOVED_ROWS_MAX = 1_000_000
