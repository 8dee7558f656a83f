"""Work on a few threads at a time, its results in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from omnigraph_core.load.formats.limits import READ_BYTES_MAX

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")

_THREADS_MAX = 4


def in_order(
    tasks: Iterable[_Task], work: Callable[[_Task], _Result], weight: Callable[[_Task], int]
) -> Iterator[_Result]:
    """The results of `work` in the order of the tasks.

    A few of them run at a time, and of large ones fewer: `weight` tells the bytes of a task.
    """
    threads = min(os.cpu_count() or 1, _THREADS_MAX)
    waiting: deque[tuple[Future[_Result], int]] = deque()
    heavy = 0
    with ThreadPoolExecutor(threads, thread_name_prefix="load") as pool:
        try:
            for task in tasks:
                bytes_ = weight(task)
                while waiting and (len(waiting) > threads or heavy + bytes_ > READ_BYTES_MAX):
                    future, done = waiting.popleft()
                    heavy -= done
                    yield future.result()
                    del future
                waiting.append((pool.submit(work, task), bytes_))
                heavy += bytes_
                del task
            while waiting:
                yield waiting.popleft()[0].result()
        finally:
            for future, _ in waiting:
                future.cancel()
