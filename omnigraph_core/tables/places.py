"""Where the files of a table are: in its own directory, or in that of the table it was forked from.

Lance records such places as absolute paths, and reads whatever they name. A graph may be
reached by several names, through a link for example, so two names of one directory are one place.
"""

from __future__ import annotations

import os

from omnigraph_core.storage import Storage


def place_inside(storage: Storage, recorded: str) -> str | None:
    """The path below the graph root of a place that Lance recorded; None if it is outside."""
    root = storage.location.uri.rstrip("/")
    if storage.location.is_local:
        recorded, root = os.path.realpath(recorded), os.path.realpath(root)
    recorded = recorded.rstrip("/")
    return recorded.removeprefix(f"{root}/") if recorded.startswith(f"{root}/") else None
