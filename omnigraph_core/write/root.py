"""What is at the place where a graph should be. Looked at by every command, so it imports little."""

from __future__ import annotations

import contextlib
from enum import Enum, auto

from omnigraph_core import layout
from omnigraph_core.jsontext import parse_json
from omnigraph_core.storage import ControlStore

INIT_KIND = "Init"


class RootState(Enum):
    """What is at the place where a graph should be."""

    EMPTY = auto()
    GRAPH = auto()
    UNFINISHED = auto()
    FOREIGN = auto()


def inspect_root(control: ControlStore) -> RootState:
    """Look without touching anything, and without Lance."""
    names = set(control.entries())
    versions = control.list(f"{layout.MANIFEST}/_versions")
    has_manifest = any(name.endswith(".manifest") for name in versions)
    unfinished = bool(init_records(control))
    if has_manifest and not unfinished:
        return RootState.GRAPH
    if names - layout.ROOT_NAMES:
        return RootState.FOREIGN
    if unfinished:
        return RootState.UNFINISHED
    # An init that was killed before its record leaves these, the second with a temporary file.
    if names == {layout.LOCKS_DIR, layout.STAGING_DIR} and not control.list(layout.STAGING_DIR):
        return RootState.UNFINISHED
    return RootState.EMPTY if names <= {layout.LOCKS_DIR} else RootState.FOREIGN


def init_records(control: ControlStore) -> list[str]:
    """Names of staging records that an init wrote; an unreadable one is a torn record of nobody's."""
    found: list[str] = []
    for name in control.list(layout.STAGING_DIR):
        record = control.get(f"{layout.STAGING_DIR}/{name}")
        with contextlib.suppress(ValueError, AttributeError):
            if record is not None and parse_json(record.data).get("kind") == INIT_KIND:
                found.append(name)
    return found
