"""Limits of tables, each with its unit and its reason; docs/limits.md lists them."""

from __future__ import annotations

# A one-row update costs time in proportion to the rows of the fragment it hits
# (30 ms at a million, 12 at 250,000), a scan in proportion to the number of fragments.
ROWS_PER_FRAGMENT = 250_000

# Merging costs 9-14 ms at 16 fragments and 120 at a thousand; rewriting 16 costs about 20.
FRAGMENTS_MAX = 16

# Joining 32 one-row fragments takes about as long as writing two of them.
FOLD_FRAGMENTS = 32

# A fragment this large has left the tail: only `optimize` rewrites it.
FOLD_ROWS_MAX = 4096

# Up to here a list of keys goes to Lance as `IN (…)`, which a BTREE answers; beyond it
# (unless the table is a hundred times larger) one pass over the key column is cheaper.
KEYS_IN_FILTER_MAX = 1_000
ROWS_PER_KEY_FOR_FILTER = 100

# So many keys are remembered once they were looked up, per open version of a table: a merge looks
# at rows, judges them and replaces them, and each time needs to know where they are.
REMEMBERED_KEYS_MAX = 10_000

# So many rows are read by their addresses; beyond it, one pass over their fragments is cheaper.
ADDRESSES_IN_FILTER_MAX = 1_000

# Of the memory for data, what Lance may keep of indexes and of manifests: one in so many bytes. A commit
# leaves 90 KB of manifests behind that nobody asks for again.
INDEX_CACHE_SHARE = 4
METADATA_CACHE_SHARE = 16

# So many rows are sorted in memory; more are sorted by Lance, which spills to disk.
SORTED_ROWS_MAX = 4_096

# Up to here it is cheaper to read rows than to find out which of them were only carried along.
CARRIED_ROWS_MIN = 512

# About 50 bytes of memory each. Beyond it, whoever looks at the rows finds that they are the same.
CARRIED_ROWS_MAX = 8_000_000

# A fragment with a larger share of deleted rows is rewritten by `optimize` even alone: scans pay for
# rows that nobody gets.
DELETED_SHARE_MAX = 0.1

# Files of new columns go on record in steps of so many bytes: a record costs more than a small file.
# If their writer dies in between, cleanup removes them a week later.
UNRECORDED_BYTES_MAX = 4_194_304

# Numbers that get a wider type are read and written so many rows at once. With the 1,024 that Lance takes,
# a quarter of the time goes into handing batches on; more rows than this gain nothing.
CAST_ROWS = 8_192

# A compaction levels the row versions of a fragment with more runs of them than this, 22 bytes each in
# every manifest; a run of so many rows keeps its version.
ROW_VERSION_RUNS_MAX = 256
LEVELLED_ROWS_MIN = 64
