"""Limits of storage, each with its unit and its reason; docs/limits.md lists them."""

from __future__ import annotations

# A request that takes longer counts as unanswered; connecting takes a few round trips.
REQUEST_DEFAULT_S = 10.0
CONNECT_DEFAULT_S = 3.0

# A shorter lease ends while one request is under way.
LEASE_TTL_MIN_S = 0.1
# A record that claims more is not believed: nobody waits longer than this.
LEASE_TTL_MAX_S = 3600.0

# Two renewals may fail before a lease runs out.
LEASE_RENEWALS = 3

# So much longer than its life must a lease be seen unchanged: clocks run at different speeds.
LEASE_TAKEOVER_FACTOR = 1.25

# A lease this many lives old has missed thirty renewals: its holder is dead. At least a minute,
# because the clocks of a store's nodes differ.
LEASE_DEAD_FACTOR = 10
LEASE_DEAD_AFTER_MIN_S = 60.0

# File names have 255 bytes; a suffix has to fit as well.
LOCK_NAME_BYTES_MAX = 240

# Who holds a lock is shown in one line.
LOCK_TEXT_CHARACTERS_MAX = 120

# A lock's record has a few short fields.
LOCK_RECORD_BYTES_MAX = 16_384

# A disk merges the flushes of a few threads into one; more threads only wait.
SYNC_THREADS_MAX = 8

# So many objects are asked for at once: a request waits for the network. More gain little, and stores
# throttle those who ask for more.
READS_AT_ONCE_MAX = 16

# One request could delete a thousand, but a small server takes long for them.
DELETED_PER_REQUEST_MAX = 100
