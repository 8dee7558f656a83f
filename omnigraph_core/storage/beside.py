"""Calls that run beside their caller, or each other, in threads: for work that waits, or in Lance."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from omnigraph_core.storage.limits import READS_AT_ONCE_MAX

A = TypeVar("A")
T = TypeVar("T")


def side_by_side(call: Callable[[A], T], arguments: Iterable[A]) -> list[T]:
    """What the calls return, in order; for such as wait for the network. Raises what the first one raises."""
    given = list(arguments)
    if len(given) < 2:
        return [call(each) for each in given]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(READS_AT_ONCE_MAX, thread_name_prefix="omnigraph-read") as pool:
        return list(pool.map(call, given))


class Beside(Generic[T]):
    """Starts at once. Whoever starts one asks how it ended, also after a failure of his own."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="omnigraph-beside")
        self._thread.start()

    def result(self) -> T:
        """What it returned, or what it raised; waits for it."""
        error = self.error()
        if error is not None:
            raise error
        return self._results[0]

    def error(self) -> BaseException | None:
        """What it raised, if it did; waits for it."""
        self._thread.join()
        return self._error

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        except BaseException as error:
            self._error = error
