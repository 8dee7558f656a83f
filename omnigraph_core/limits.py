"""The defaults of settings, each with its unit and its reason; docs/limits.md lists them.

A setting that is not here has no default worth knowing. Units come last in a name.
"""

from __future__ import annotations

# A writer holds a branch lock for tens of milliseconds; 30 s is a queue of hundreds.
LOCK_TIMEOUT_DEFAULT_S = 30.0

# Long enough for three missed renewals on a slow network, short enough to wait for.
LEASE_TTL_DEFAULT_S = 10.0

# What a laptop or a small CI machine can spare.
MEMORY_DEFAULT_BYTES = 2 << 30

# The topology index of some hundred million edges; a disk has it to spare.
CACHE_DEFAULT_BYTES = 4 << 30

# Types written at the same time: enough to keep a disk busy while one of them encodes.
LOAD_CONCURRENCY_DEFAULT = 8
# Beyond this a value is a typing mistake: every type needs a thread and buffers.
LOAD_CONCURRENCY_MAX = 1_000

# An embedding service answers within seconds or not at all; four retries span its hiccups.
EMBED_TIMEOUT_DEFAULT_S = 30.0
EMBED_RETRIES_DEFAULT = 4
EMBED_DEADLINE_DEFAULT_S = 120.0
EMBED_BACKOFF_DEFAULT_S = 0.2

# Tables that maintenance rewrites or indexes in parallel; each of them gets a share of the memory limit.
MAINTENANCE_CONCURRENCY_DEFAULT = 2
