"""Progress on stderr: one line that is drawn again on a terminal, or JSON lines for programs.

Each phase has its own count: a bar if its total is known, otherwise a spinner; and the clock of the
command always runs. What has no room in the terminal is left out, so that it stays one line.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from omnigraph_cli.limits import PROGRESS_LINE_S
from omnigraph_cli.tables import terminal_columns, width
from omnigraph_core.errors import UsageError
from omnigraph_core.progress import Progress, ProgressEvent, silent
from omnigraph_core.values.shown import one_line

if TYPE_CHECKING:
    from omnigraph_cli.run import Run

KINDS = ("auto", "json", "off")
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PLAIN_SPINNER = "|/-\\"
_BAR_COLUMNS = 24
_UNITS = ("B", "kB", "MB", "GB", "TB")


def checked_kind(option: str) -> str:
    if option not in KINDS:
        raise UsageError(f"--progress: '{option}' is not one of {', '.join(KINDS)}")
    return option


@contextmanager
def progress_of(run: Run) -> Iterator[Progress]:
    """What the core is to report to while the block runs."""
    if run.progress == "json":
        yield _Lines()
        return
    if run.progress == "off" or not run.screen.can_draw:
        yield silent
        return
    line = StatusLine(time.monotonic, is_plain=not _can_show(_SPINNER + "━"))
    run.screen.show(lambda: line.text(terminal_columns() - 1))
    try:
        yield line.update
    finally:
        run.screen.show(None)


class StatusLine:
    """`⠹ write  ━━━━━━──────  12 of 34 MB  0:07`."""

    def __init__(self, clock: Callable[[], float], *, is_plain: bool) -> None:
        self._clock = clock
        self._began_s = clock()
        self._event = ProgressEvent("open", 0)
        self._spinner = _PLAIN_SPINNER if is_plain else _SPINNER
        self._full, self._empty = ("#", "-") if is_plain else ("━", "─")
        self._turn = 0

    def update(self, event: ProgressEvent) -> None:
        self._event = event

    def text(self, room: int) -> str:
        """As much as there is room for: the phase, then the clock, the count, the bar."""
        event = self._event
        self._turn += 1
        spinner = self._spinner[self._turn % len(self._spinner)]
        seconds = int(self._clock() - self._began_s)
        head, clock = f"{spinner} {one_line(event.phase)}", f"{seconds // 60}:{seconds % 60:02}"
        parts = [head, clock]
        amount = _amount(event)
        if amount and width("  ".join([head, amount, clock])) <= room:
            parts = [head, amount, clock]
            bar = self._bar(event)
            if bar and width("  ".join([head, bar, amount, clock])) <= room:
                parts = [head, bar, amount, clock]
        return "  ".join(parts)

    def _bar(self, event: ProgressEvent) -> str:
        if not event.total:
            return ""
        full = min(_BAR_COLUMNS, _BAR_COLUMNS * event.done // event.total)
        return self._full * full + self._empty * (_BAR_COLUMNS - full)


class _Lines:
    """One JSON object a line: when a phase begins, and then now and again."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._phase: str | None = None
        self._last_s = 0.0

    def __call__(self, event: ProgressEvent) -> None:
        now = time.monotonic()
        if event.phase == self._phase and now - self._last_s < PROGRESS_LINE_S:
            return
        self._phase, self._last_s = event.phase, now
        content = {
            "phase": event.phase,
            "done": event.done,
            "total": event.total,
            "unit": event.unit,
            "seconds": round(now - self._began_s, 3),
        }
        sys.stderr.write(json.dumps({"progress": content}) + "\n")


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stderr.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _amount(event: ProgressEvent) -> str:
    """`1.2 of 3.4 MB`, `3 of 14 checks`, `1,234 rows`; nothing for a phase that counts nothing."""
    if not event.done and not event.total:
        return ""
    if event.unit == "bytes":
        return " of ".join(_size(each) for each in (event.done, event.total) if each is not None)
    whole = "" if event.total is None else f" of {event.total:,}"
    return f"{event.done:,}{whole} {event.unit}"


def _size(number: float) -> str:
    for unit in _UNITS[:-1]:
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} {_UNITS[-1]}"
