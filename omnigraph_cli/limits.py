"""Limits of the command line, each with its unit and its reason; docs/limits.md lists them."""

from __future__ import annotations

# A command that waits for a lock or a server says so after this many seconds.
WAIT_TOLD_AFTER_S = 1

# How often, in seconds, the status line of a terminal is drawn.
REDRAW_S = 0.1

# How often, in seconds, --progress json tells how far a phase has come.
PROGRESS_LINE_S = 0.5

# A schema, a query file or a file of parameters: nobody writes that much by hand.
SOURCE_BYTES_MAX = 16 << 20

# A wider cell of a table is cut: a terminal has room for a few columns like that.
CELL_CHARACTERS_MAX = 80

# A column of a table on a terminal is cut to no less: with fewer letters nothing can be told apart.
COLUMN_WIDTH_MIN = 8

# Listings on a terminal show this much of an id, its end; a REF takes it.
SHORT_ID_CHARACTERS = 8

# Rows are turned into text this many at a time, so that a large answer needs little memory.
ROWS_PER_BLOCK = 4_096

# From here on a load takes so long that starting Spark is not noticed: the command mentions it.
SPARK_HINT_BYTES = 20 << 30

# Imports create hundreds of thousands of objects and no garbage. Looking for garbage after every
# 700, as Python does, takes a tenth of the start; a command that reads ends before this many.
OBJECTS_BEFORE_COLLECTION = 300_000

# A load may run for hours within its memory limit, which garbage must not use up.
OBJECTS_BETWEEN_COLLECTIONS = 10_000

# Warm servers per user, one for each kind of process that asks. Each takes about 150 MB.
WARM_SERVERS_MAX = 8

# Commands that one server runs at a time; the next one starts cold.
WARM_CHILDREN_MAX = 64

# How often, in seconds, a server looks whether its socket is still there.
WARM_GLANCE_S = 5

# A kind of process that no server can serve is not tried again for this many seconds.
WARM_USELESS_S = 600
