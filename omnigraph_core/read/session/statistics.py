"""What every step of a read did: rows, bytes read, time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from omnigraph_core.records import dataclass


@dataclass(slots=True)
class StepStatistics:
    """One step. `rows_read` and `bytes_read` came from tables; `rows` is what the step left."""

    step: str
    depth: int
    rows: int = 0
    rows_read: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    note: str = ""


@dataclass(slots=True)
class Statistics:
    """The steps in the order they began; a step inside a negation is deeper."""

    steps: list[StepStatistics] = field(default_factory=list)
    _open: list[StepStatistics] = field(default_factory=list)

    @contextmanager
    def step(self, text: str) -> Iterator[StepStatistics]:
        step = StepStatistics(text, len(self._open))
        self.steps.append(step)
        self._open.append(step)
        began = time.perf_counter()
        try:
            yield step
        finally:
            step.seconds = time.perf_counter() - began
            self._open.pop()

    def summed(self) -> SummedStatistics:
        return SummedStatistics(_whole=self)

    def count_read(self, rows: int, size: int) -> None:
        if self._open:
            self._open[-1].rows_read += rows
            self._open[-1].bytes_read += size

    def note(self, text: str) -> None:
        """How the step that is open is being done, where there is a choice."""
        if self._open:
            self._open[-1].note = text


@dataclass(slots=True)
class SummedStatistics(Statistics):
    """Of a part of a read: what it reads counts for the open step of the whole; its own are forgotten."""

    _whole: Statistics = field(default_factory=Statistics)

    @contextmanager
    def step(self, text: str) -> Iterator[StepStatistics]:
        yield StepStatistics(text, 0)

    def summed(self) -> SummedStatistics:
        return self

    def count_read(self, rows: int, size: int) -> None:
        self._whole.count_read(rows, size)

    def note(self, text: str) -> None:
        """There are many parts, and each may be done in another way."""
