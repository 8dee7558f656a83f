"""Long output on a terminal goes through a pager; short output does not even start one.

What a command prints is held back until it is longer than the screen. Then the pager starts and gets
all of it, and the rest as it comes: the first page is shown while the command still works. Remarks
come along in their place. A person who leaves the pager has seen enough: the command ends, and well.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import TextIO

from omnigraph_cli.tables import width
from omnigraph_core.settings import Settings

# As git has it: quit if it is one screen, ignore case, show colours, leave the text on the screen.
_LESS = ["less", "-FIRX"]
_ANSWER, _REMARK = 1, 2


class EnoughSeen(BaseException):
    """The pager was left. Not an Exception: nothing on the way may take it for a failure."""


@contextlib.contextmanager
def paged(settings: Settings, *, wanted: bool) -> Iterator[None]:
    """While the block runs, what it prints is paged if it is long and a person reads it."""
    command = _command(settings) if wanted and sys.stdout.isatty() else None
    if command is None:
        yield
        return
    answers, remarks = sys.stdout, sys.stderr
    held = _Held(command, answers, remarks)
    sys.stdout = _text(_Part(held, _ANSWER), answers)
    if remarks.isatty():
        sys.stderr = _text(_Part(held, _REMARK), remarks)
    try:
        yield
    except EnoughSeen:
        pass
    finally:
        with contextlib.suppress(EnoughSeen):
            sys.stdout.flush()
            sys.stderr.flush()
        sys.stdout, sys.stderr = answers, remarks
        held.finish()


def _command(settings: Settings) -> list[str] | None:
    """What to start; None where there is nothing, or nothing is wanted."""
    if settings.is_dumb_terminal or settings.pager in ("", "cat"):
        return None
    found = shlex.split(settings.pager or "less")
    found = _LESS if found == ["less"] else found
    return found if found and shutil.which(found[0]) else None


class _Held:
    """What was printed so far, until the pager has it."""

    def __init__(self, command: list[str], answers: TextIO, remarks: TextIO) -> None:
        self._command = command
        self._streams = {_ANSWER: answers, _REMARK: remarks}
        self._parts: list[tuple[int, bytes]] = []
        self._rows = 0
        self._size = shutil.get_terminal_size()
        self._pager: subprocess.Popen[bytes] | None = None
        self._is_left = False

    def take(self, kind: int, data: bytes) -> None:
        if self._pager is not None:
            self._send(data)
            return
        self._parts.append((kind, data))
        self._rows += self._rows_of(data)
        if self._rows >= self._size.lines:
            self._start()

    def finish(self) -> None:
        """Print what was short, or wait until the pager is left."""
        if self._pager is None:
            for kind, data in self._parts:
                stream = self._streams[kind]
                stream.buffer.write(data)
                stream.flush()
            return
        with contextlib.suppress(OSError):
            assert self._pager.stdin is not None
            self._pager.stdin.close()
        while True:  # Ctrl-C is the pager's own
            with contextlib.suppress(KeyboardInterrupt):
                self._pager.wait()
                return

    def _start(self) -> None:
        self._pager = subprocess.Popen(self._command, stdin=subprocess.PIPE)
        for _, data in self._parts:
            self._send(data)
        self._parts = []

    def _send(self, data: bytes) -> None:
        if self._is_left:
            raise EnoughSeen
        try:
            assert self._pager is not None
            assert self._pager.stdin is not None
            self._pager.stdin.write(data)
            self._pager.stdin.flush()
        except OSError:
            self._is_left = True
            raise EnoughSeen from None

    def _rows_of(self, data: bytes) -> int:
        """Rows of the screen; a line may take several."""
        text = data.decode("utf-8", "replace")
        return sum(max(0, width(line) - 1) // max(self._size.columns, 1) + 1 for line in text.split("\n")) - 1


class _Part(io.RawIOBase):
    """Standard output or standard error, as far as it is held."""

    def __init__(self, held: _Held, kind: int) -> None:
        self._held = held
        self._kind = kind

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def write(self, data: object) -> int:
        content = bytes(data)  # type: ignore[call-overload]
        self._held.take(self._kind, content)
        return len(content)


def _text(part: _Part, like: TextIO) -> TextIO:
    return io.TextIOWrapper(
        part,  # type: ignore[type-var]
        encoding=like.encoding,
        errors="backslashreplace",
        write_through=True,
    )
