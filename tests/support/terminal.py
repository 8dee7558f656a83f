"""Running the installed command on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

from tests.support import warm
from tests.support.processes import OMNIGRAPH, clean_environment

CTRL_C, CTRL_D = b"\x03", b"\x04"

# Makes stdin the controlling terminal, so that Ctrl-C typed there is a signal, and becomes the command.
OWN_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def on_a_terminal(
    *arguments: str | Path,
    cwd: Path,
    typed: bytes = b"",
    at: bytes = b"",
    stdout: int | None = None,
    **environment: str,
) -> tuple[int, str]:
    """Run on a terminal of 80 columns; `typed` is typed once `at` is on the screen."""
    master, slave = pty.openpty()
    process = warm.Popen(
        [sys.executable, "-c", OWN_TERMINAL, OMNIGRAPH, *map(str, arguments)],
        cwd=cwd,
        env=clean_environment(**{"TERM": "xterm-256color", "COLUMNS": "80", **environment}),
        stdin=slave,
        stdout=slave if stdout is None else stdout,
        stderr=slave,
    )
    os.close(slave)
    screen = b""
    while True:
        if typed and at in screen:
            os.write(master, typed)
            typed = b""
        try:
            chunk = os.read(master, 65536)
        except OSError:
            break
        if not chunk:
            break
        screen += chunk
    os.close(master)
    return process.wait(), screen.decode(errors="replace")
