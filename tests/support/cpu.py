"""CPU time of an action, without what the machine adds to it.

A garbage collection of a large test process, or a host that takes the core away, can
cost one run half a second. It does not cost every run that.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 5


def cpu_seconds(action: Callable[[], object]) -> float:
    begin = time.thread_time()
    action()
    return time.thread_time() - begin


def is_within(seconds: float, action: Callable[[], object]) -> bool:
    """Does the action take at most so much CPU time, at least once in a few rounds?"""
    return any(cpu_seconds(action) < seconds for _ in range(ROUNDS))
