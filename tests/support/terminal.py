"""Running the installed command on a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path

from tests.support.processes import OMNIGRAPH, clean_environment
from tests.support.programs import require_program

CTRL_C, CTRL_D = b"\x03", b"\x04"


def on_a_terminal(
    *arguments: str | Path,
    cwd: Path,
    typed: bytes = b"",
    at: bytes = b"",
    stdout: int | None = None,
    columns: int = 80,
    meanwhile: Callable[[], object] = lambda: None,
    **environment: str,
) -> tuple[int, str]:
    """Run on a terminal of its own; `typed` is typed once `at` is on the screen, after `meanwhile`."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    # The terminal is the command's own, so that Ctrl-C typed there is a signal.
    process = subprocess.Popen(
        [require_program("setsid"), "--ctty", OMNIGRAPH, *map(str, arguments)],
        cwd=cwd,
        env=clean_environment(**{"TERM": "xterm-256color", "COLUMNS": "", "PAGER": "cat", **environment}),
        stdin=slave,
        stdout=slave if stdout is None else stdout,
        stderr=slave,
    )
    os.close(slave)
    screen = b""
    while True:
        if typed and at in screen:
            meanwhile()
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
