"""The last line of a terminal: a status that is drawn again and again, and lines that go above it.

One thread draws, so that the spinner turns and the clock runs while the work stands still. It is
also the one that tells what a command has been waiting for: another writer's lock, or a server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TextIO

from omnigraph_cli.limits import REDRAW_S, WAIT_TOLD_AFTER_S
from omnigraph_cli.tables import cut, terminal_columns
from omnigraph_core import waits
from omnigraph_core.values.shown import one_line

_ERASE = "\r\033[K"


class Screen:
    """Standard error of a command, for what is not its answer."""

    def __init__(self, stream: TextIO, *, can_draw: bool, tells_waits: bool) -> None:
        self.can_draw = can_draw
        """Can a line be drawn again? Not in a pipe, and a dumb terminal cannot go back in it."""
        self._stream = stream
        self._tells_waits = tells_waits
        self._lock = threading.Lock()
        self._status: Callable[[], str] | None = None
        self._is_drawn = False
        self._told: waits.Wait | None = None
        self._told_what: str | None = None
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Watch and draw from now on, if there is anything to tell."""
        if self._thread is None and (self.can_draw or self._tells_waits):
            self._thread = threading.Thread(target=self._run, name="screen", daemon=True)
            self._thread.start()

    def show(self, status: Callable[[], str] | None) -> None:
        """Draw this status from now on; None for none."""
        with self._lock:
            self._status = status
            self._erase()

    def say(self, text: str) -> None:
        """A line of its own, above the status."""
        with self._lock:
            self._erase()
            self._stream.write(f"{one_line(text)}\n")
            self._stream.flush()

    def _run(self) -> None:
        while not self._ends.wait(REDRAW_S):
            wait = waits.longest()
            if self._tells_waits and wait is not None and wait is not self._told and _is_long(wait):
                self._told = wait
                self._tell(wait.what())
            self.draw()

    def _tell(self, what: str) -> None:
        """Once: a writer may wait for the same lock again and again."""
        if what != self._told_what:
            self._told_what = what
            self.say(f"waiting for {what}")

    def draw(self) -> None:
        with self._lock:
            if self._status is None:
                return
            # One column stays free: a full line would make some terminals scroll.
            text = cut(self._status(), max(terminal_columns() - 1, 1))
            self._stream.write(f"{_ERASE}{text}")
            self._stream.flush()
            self._is_drawn = True

    def _erase(self) -> None:
        if self._is_drawn:
            self._stream.write(_ERASE)
            self._stream.flush()
            self._is_drawn = False


def _is_long(wait: waits.Wait) -> bool:
    return time.monotonic() - wait.began_s >= WAIT_TOLD_AFTER_S
