"""The status line of a long command: one line at any width, and a clock that runs by itself."""

from __future__ import annotations

import io
import re

from omnigraph_cli.progress import StatusLine
from omnigraph_cli.screen import Screen
from omnigraph_cli.tables import width
from omnigraph_core.progress import ProgressEvent


def line(event: ProgressEvent, room: int, *, after_s: float = 7.0) -> str:
    now = [0.0]
    status = StatusLine(lambda: now[0], is_plain=True)
    status.update(event)
    now[0] = after_s
    return status.text(room)


def test_a_phase_with_a_total_has_a_bar() -> None:
    text = line(ProgressEvent("read", 1_200_000, 2_400_000, "bytes"), 79)
    assert text == "/ read  " + "#" * 12 + "-" * 12 + "  1.2 MB of 2.4 MB  0:07"


def test_a_phase_without_one_has_a_spinner_and_the_clock() -> None:
    assert line(ProgressEvent("index", 0), 79, after_s=61) == "/ index  1:01"
    assert line(ProgressEvent("write", 1234, None, "rows"), 79) == "/ write  1,234 rows  0:07"


def test_the_spinner_turns_while_nothing_is_reported() -> None:
    status = StatusLine(lambda: 0.0, is_plain=True)
    assert len({status.text(79) for _ in range(4)}) == 4


def test_it_stays_one_line_at_40_columns() -> None:
    event = ProgressEvent("optimize node:Organisation", 3_000_000_000, 4_000_000_000, "bytes")
    for room in range(10, 80):
        stream = io.StringIO()
        screen = Screen(stream, can_draw=True, tells_waits=False)
        screen.show(lambda room=room: line(event, room))
        screen.draw()
        shown = re.sub(r"\r\033\[K", "", stream.getvalue())
        assert "\n" not in shown
        assert width(shown) <= 79
    assert line(event, 39) == "/ optimize node:Organisation  0:07"


def test_a_line_that_is_said_stands_above_the_status() -> None:
    stream = io.StringIO()
    screen = Screen(stream, can_draw=True, tells_waits=False)
    screen.show(lambda: "busy")
    screen.draw()
    screen.say("waiting for\nAnn")
    assert stream.getvalue() == "\r\033[Kbusy\r\033[Kwaiting for\\nAnn\n"
