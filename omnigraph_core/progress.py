"""Progress events: what a long operation reports to its caller.

The core never prints. It calls a `Progress` with events; the command line draws a
bar from them, a library user passes `None` and pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from omnigraph_core.records import dataclass


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """One step of `done` out of `total` (None when unknown) in a named phase."""

    phase: str
    done: int
    total: int | None = None
    unit: str = "steps"


Progress = Callable[[ProgressEvent], None]


def silent(event: ProgressEvent) -> None:
    """The progress sink that ignores everything."""
