"""Work on a few threads at a time, its results in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

_THREADS_MAX = 4


def in_order(tasks: Iterable[_Task], work: Callable[[_Task], _Result]) -> Iterator[_Result]:
    """The results of `work` in the order of the tasks, a few of which run at a time."""
    threads = min(os.cpu_count() or 1, _THREADS_MAX)
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="load") as pool:
        try:
            for task in tasks:
                waiting.append(pool.submit(work, task))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
