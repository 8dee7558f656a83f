"""A verb that falls asleep past its lease, in one process: at a failpoint its leases are given away, and
another handle of the graph acts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from omnigraph_core import faults, layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from omnigraph_core.storage import parse_location
from omnigraph_core.storage.lease_object import decode_lease

Act = Callable[[Graph, str], object]


def give_leases_away(graph: Graph) -> None:
    """What everybody sees once the leases of a sleeper have run out and others had them."""
    control = graph._storage.control
    for name in control.list(layout.LOCKS_DIR):
        path = f"{layout.LOCKS_DIR}/{name}"
        found = control.get(path)
        record = decode_lease(found.data) if found else None
        if record is not None and record.holder is not None:
            control.put(path, record.freed().encode())


class Sleeper:
    """Runs a verb on a handle of its own; at the chosen step others act first, without its knowing.

    Where there is no graph yet, the verb makes it. If `everywhere`, every request of a control object is
    a step, too, right before it and right after it.
    """

    def __init__(
        self, place: str, settings: Settings, patch: pytest.MonkeyPatch, *, everywhere: bool = False
    ) -> None:
        self.place, self._settings, self._patch = place, settings, patch
        self._ignored = ("lease.",) if everywhere else ("lease.", "control.")
        self.passed: list[str] = []
        self.error: OmnigraphError | None = None
        """What it was told if it was not told success."""

    @property
    def places(self) -> list[tuple[str, int]]:
        """Where it came by, each with how many times it had been there."""
        return [(name, self.passed[: at + 1].count(name)) for at, name in enumerate(self.passed)]

    def _opened(self) -> Graph:
        return Graph(parse_location(self.place, self._settings.working_directory), self._settings)

    def run(
        self, verb: Act, branch: str, step: str | None = None, meanwhile: Act | None = None, *, nth: int = 1
    ) -> bool:
        """Was the sleeper told success? It falls asleep when it comes to the step for the nth time."""
        graph, other = self._opened(), self._opened()
        is_awake = True
        self.passed, self.error = [], None

        def hit(name: str) -> None:
            nonlocal is_awake
            if not is_awake or name.startswith(self._ignored) or _is_beside():
                return
            self.passed.append(name)
            if name == step and self.passed.count(name) == nth and meanwhile is not None:
                is_awake = False
                give_leases_away(other)
                meanwhile(other, branch)
                is_awake = True

        with self._patch.context() as patched:
            patched.setattr(faults, "hit", hit)
            try:
                verb(graph, branch)
            except OmnigraphError as error:
                self.error = error
                return False
            return True


def _is_beside() -> bool:
    """Leases are renewed, and files synced, in threads beside the one that falls asleep."""
    return threading.current_thread() is not threading.main_thread()
