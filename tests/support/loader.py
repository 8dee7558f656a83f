"""A load of a few records that is staged like one of many: fragments of two rows, and a record of them.

Runnable: `python -m tests.support.loader PLACE FILE MODE [BRANCH]`, so that it can be stopped and killed.
"""

from __future__ import annotations

import sys

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load import intake, staging
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import load_settings


def main() -> None:
    place, file, mode, *branch = sys.argv[1:]
    staging.ROWS_PER_FRAGMENT = intake.ROWS_PER_FRAGMENT = 2
    graph = Graph.open(place, load_settings(), OpenMode.READ_WRITE)
    loaded = graph.load([file], LoadMode(mode), branch=branch[0] if branch else "main")
    sys.stdout.write(f"{loaded.commit_id}\n")


if __name__ == "__main__":
    main()
