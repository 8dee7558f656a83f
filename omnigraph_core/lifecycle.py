"""The life of an open graph: how it was opened, and that it may be closed."""

from __future__ import annotations

from enum import StrEnum

from omnigraph_core.errors import RefusedError, UsageError


class OpenMode(StrEnum):
    """What an open does first, and what may be done afterwards."""

    READ_ONLY = "read-only"
    """Nothing is written, and whatever would is refused."""
    READ_WRITE = "read-write"
    """Repair and migrate at once."""
    ON_DEMAND = "on-demand"
    """Repair and migrate before the first write; who only reads writes nothing."""
    AS_IS = "as-is"
    """Neither repair nor refuse: for those who look at a graph before they decide."""


class GraphReadOnly(RefusedError):
    """A graph that was opened for reading is not written through."""

    def __init__(self, place: str) -> None:
        super().__init__(f"{place} was opened for reading only", hint="open it for writing")


class GraphClosed(UsageError):
    """A graph that was closed is not used any more."""

    def __init__(self, place: str) -> None:
        super().__init__(f"the graph {place} was closed", hint="open it again")
