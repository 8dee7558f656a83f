"""Limits of the command line, each with its unit and its reason; docs/limits.md lists them."""

from __future__ import annotations

# A schema, a query file or a file of parameters: nobody writes that much by hand.
SOURCE_BYTES_MAX = 16 << 20

# A wider cell of a table is cut: a terminal has room for a few columns like that.
CELL_CHARACTERS_MAX = 80

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
