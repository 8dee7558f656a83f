"""Limits of the query language, each with its unit and its reason; docs/limits.md lists them."""

from __future__ import annotations

# Integers of the language are signed and have 64 bits, whatever column they meet.
INTEGER_MAX = 2**63 - 1

# Deeper than any query a person writes, shallow enough for the stack of every thread.
NESTING_MAX = 64

# A bound of hops fits 32 bits; a traversal reaches every node long before.
HOPS_MAX = 2**32 - 1

# `limit` fits 64 bits, as row counts do.
ROW_LIMIT_MAX = 2**64 - 1

# A message quotes the beginning of a parameter's value; values may be of any length.
SHOWN_CHARACTERS_MAX = 60
