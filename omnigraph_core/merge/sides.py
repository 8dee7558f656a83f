"""The states of a merge."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from omnigraph_core.diff.graph import State
from omnigraph_core.history.bases import Parents
from omnigraph_core.records import dataclass


@dataclass(frozen=True, slots=True)
class Sides:
    """Those that a merge starts from by commit id, and the two that came of them.

    `parents` says how the bases hang together, for bases of bases; `state_at` reads one, if it
    `is_readable`.
    """

    bases: Mapping[str, State]
    ours: State
    theirs: State
    parents: Parents
    state_at: Callable[[str], State]
    is_readable: Callable[[str], bool] = lambda _: True
    takes_back: bool = False
    """Is theirs older than the base? Then a column that only theirs has comes back with its values,
    which nobody changed."""
