"""Processes that stop at a failpoint armed with `stop` until told to go on, and others that act meanwhile.

No clock is involved: what is waited for is the state of a process, or something it brings about.
"""

from __future__ import annotations

import fcntl
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support import warm
from tests.support.processes import Finished, clean_environment, state_of

WAITING_S = 240.0


def stops(process: subprocess.Popen[Any]) -> bool:
    """Wait until it stands at the failpoint; False when it ended without coming there."""
    give_up = time.monotonic() + WAITING_S
    while (state := state_of(process.pid)) not in ("T", "Z", ""):
        assert time.monotonic() < give_up, "the process neither stops nor ends"
        time.sleep(0.005)
    return state == "T"


def wait_until_stopped(process: subprocess.Popen[Any]) -> None:
    """Return when it has come to the failpoint; fails if it ended instead."""
    assert stops(process), "it ended before the failpoint"


def go_on(process: subprocess.Popen[Any]) -> None:
    process.send_signal(signal.SIGCONT)


class Paused:
    """A running process; `until_stopped` waits for a failpoint armed with `stop`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait for something that the process brings about; its end is a failure."""
        give_up = time.monotonic() + WAITING_S
        while True:
            ended = self.has_ended
            if reached():
                return
            assert not ended, self.process.communicate()
            assert time.monotonic() < give_up, "waited in vain"
            time.sleep(0.005)

    @property
    def is_stopped(self) -> bool:
        return state_of(self.process.pid) == "T"

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def until_stopped(self) -> None:
        assert stops(self.process), self.process.communicate()

    def go_on(self) -> None:
        go_on(self.process)

    def feed(self, text: str) -> None:
        """Give it some of its input, and wait until it has taken it."""
        pipe = self.process.stdin
        assert pipe is not None
        pipe.write(text.encode())
        pipe.flush()
        self.until(lambda: not unread(pipe.fileno()))

    def say(self, text: str) -> None:
        """Give it the rest of its input."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.close()
        self.process.stdin = None

    def ended(self) -> Finished:
        out, err = self.process.communicate(timeout=WAITING_S)
        return Finished(self.process.returncode, out.decode(), err.decode())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def unread(pipe: int) -> int:
    """How many bytes wait in a pipe."""
    return int(struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0])


@contextmanager
def started(
    command: Sequence[str | Path], *, cwd: Path | None = None, stop_at: str = "", **environment: str
) -> Iterator[Paused]:
    """A process with a pipe to its input, killed at the end if it still runs."""
    armed = stop_at if "=" in stop_at else f"{stop_at}=stop"
    points = {"OMNIGRAPH_FAILPOINTS": armed} if stop_at else {}
    process = warm.Popen(
        [str(each) for each in command],
        cwd=cwd,
        env=clean_environment(**points, **environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield Paused(process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.communicate()
