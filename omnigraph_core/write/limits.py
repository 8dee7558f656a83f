"""Limits of writes, each with its unit and its reason; docs/limits.md lists them."""

from __future__ import annotations

# Branches are directories, whose names have at most 255 bytes.
BRANCH_NAME_CHARACTERS_MAX = 200

# A writer that loses so often in a row meets more writers than one branch can take.
REPLANS_MAX = 5

# So often a write is planned without the lock; a writer that lost so often plans under it, and wins.
OPTIMISTIC_ATTEMPTS = 1

# A branch that another has written to counts as shared until so many writes of ours in a row met nobody.
ALONE_AFTER_WRITES = 16

# Seconds. So long a write waits for another before it is planned; a longer one may be beside it.
PLANNING_WAIT_S = 2.0

# A write of more tables, or of more branches since, leaves none open for the next one: memory.
LEFT_OPEN_TABLES_MAX = 16
LEFT_OPEN_BRANCHES_MAX = 8

# How often a paused writer may slip in between our look at the head row and our fence.
FENCE_ATTEMPTS_MAX = 5
