"""A call that runs beside its caller, in a thread: for work that waits for a disk, or in Lance."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


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
