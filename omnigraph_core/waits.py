"""What this process is waiting for, beside its own work: a lock, an answer over the network.

The core prints nothing. Whoever runs it may look from another thread, and tell a person who would
otherwise wonder. A wait costs two operations on a dictionary, and its text is made only for a reader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from omnigraph_core.records import dataclass


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait: when it began, by the monotonic clock, and for what."""

    began_s: float
    what: Callable[[], str]


_current: dict[int, Wait] = {}


@contextmanager
def waiting_for(what: Callable[[], str]) -> Iterator[None]:
    """While the block runs, this process waits; `what` says for what, and may read that from disk."""
    wait = Wait(time.monotonic(), what)
    _current[id(wait)] = wait
    try:
        yield
    finally:
        _current.pop(id(wait), None)


def longest() -> Wait | None:
    """The wait that began first and is not over."""
    return min(list(_current.values()), key=lambda wait: wait.began_s, default=None)
