"""Limits of the schema language, each with its unit and its reason; docs/limits.md lists them."""

from __future__ import annotations

# Arrow's fixed-size lists have 32-bit lengths.
VECTOR_DIMENSION_MAX = 2**31 - 1

# The compiled form keeps cardinalities as unsigned 32-bit integers.
CARDINALITY_MAX = 2**32 - 1

# A range bound fits one of the integer columns it can be compared with.
RANGE_BOUND_MIN = -(2**63)
RANGE_BOUND_MAX = 2**64 - 1
# More digits than RANGE_BOUND_MAX has; Python refuses to convert very long ones.
RANGE_BOUND_DIGITS_MAX = 20

# A longer line is shown as a window around the caret: a generated source may be one line of
# many megabytes. The window begins this far before the caret.
EXCERPT_COLUMNS_MAX = 120
EXCERPT_LEAD_COLUMNS = 60

# Messages quote names and numbers from the source, which may be of any length.
REASON_CHARACTERS_MAX = 400
FOUND_CHARACTERS_MAX = 40
