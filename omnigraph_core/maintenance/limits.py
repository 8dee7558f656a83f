"""Limits of maintenance, each with its unit and its reason; docs/limits.md lists them."""

from __future__ import annotations

# Reading this many rows beside an index costs less than another segment does at every look-up;
# a smaller table's index is stale when one row in so many is outside it.
STALE_ROWS_MAX = 10_000
STALE_SHARE = 10

# Below, comparing a vector with all others is exact and takes milliseconds.
VECTOR_INDEX_ROWS_MIN = 10_000

# Up to so many rows a table is compacted whole, with its indexes. Above, what is indexed is left
# alone until so many of its fragments would gain from it: building indexes anew takes minutes.
WHOLE_ROWS_MAX = 1_000_000
INDEXED_FRAGMENTS_MAX = 16

# How often tables that another writer came first to are planned again.
OPTIMIZE_ROUNDS_MAX = 3

# Up to so many heads the bases of every two are looked for; above, every commit that has two
# children is kept for one.
PAIRED_BRANCHES_MAX = 64

# What a rollback needs, and a reader that is a little late; fewer takes force.
KEPT_COMMITS_MIN = 3
KEPT_COMMITS_DEFAULT = 10

# The longest query, load or pause that cleanup waits for.
CLEANUP_GRACE_DEFAULT_S = 3600.0

# How often a cleanup decides anew because another one was first.
CLEANUP_ATTEMPTS_MAX = 5

# A write leaves up to 16 fragments of a control table; optimize leaves fewer, as it has the time.
CONTROL_FRAGMENTS_MAX = 4

# So many deleted rows of `__manifest` are passed over faster than the rest is written anew.
MANIFEST_DELETED_MAX = 256

# So many superseded rows of `__manifest` are read in a millisecond; deleting them takes a version.
SUPERSEDED_ROWS_MAX = 128

# Nobody stages for longer without a record of it. Lance spares such files for a week.
UNREFERENCED_AGE_S = 86_400.0

# Every version is opened to know what it refers to, 2 ms each; a cleanup that leaves more does not ask.
UNREFERENCED_VERSIONS_MAX = 1_000

# `maintain --if-needed` acts on so many fragments that could be joined with another,
NEEDED_FRAGMENTS = 8
# on so many versions of one lineage beyond the commits that are kept (a listing of 100 takes 0.1 ms),
NEEDED_VERSIONS = 100

# Doctor warns from here on. Versions: a listing of so many takes as long as a small query.
VERSIONS_MANY = 10_000
# Fragments: opening one costs about what reading a thousand rows does.
FRAGMENTS_MANY = 512
# Rows of a manifest that newer ones have replaced: a cold open reads all of them.
SUPERSEDED_ROWS_MANY = 100_000
# A lock: no write takes as long under one.
LOCK_HELD_LONG_S = 3600.0
# Files that nothing refers to are left alone by Lance for so long, then removed with old versions.
UNREFERENCED_GRACE_S = 7 * 24 * 3600.0
# Finding them means reading the manifest of every version; beyond so many only a deep look does.
VERSIONS_READ_MAX = 2_000
# Rows that one finding names; the rest is counted.
EXAMPLES_MAX = 3
