"""A fork of the server becomes the command: with the client's files, directory, variables and signals."""

from __future__ import annotations

import ctypes
import fcntl
import io
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from typing import IO

from omnigraph_cli import process
from omnigraph_cli.entry import leave
from omnigraph_cli.warm import wire
from omnigraph_cli.warm.rehearsal import rehearse

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

_PR_SET_PDEATHSIG = 1
_BROKEN = 70
Program = Callable[[bool], None]
"""What a fork does; told whether Ctrl-C may interrupt it."""
_KEPT_SIGNALS = frozenset({int(signal.SIGKILL), int(signal.SIGSTOP)})
# Without the names that `signal` looks up for each number, in pages that every fork would copy.
ALL_SIGNALS = frozenset(map(int, signal.valid_signals()))
set_mask = _signal.pthread_sigmask


def become(body: bytes, received: list[int], connection: socket.socket, server: int) -> wire.Request:
    """Everything but running it. Ends the process if nobody wants it any more, or if it cannot be.

    Until GO it is nobody's command: the server still looks whether its code is the newest, and the
    client may start cold. So all of this is done meanwhile, and none of it can be seen from outside.
    """
    try:
        return _become(body, received, connection, server)
    except BaseException:
        traceback.print_exc()
        os._exit(_BROKEN)


def _become(body: bytes, received: list[int], connection: socket.socket, server: int) -> wire.Request:
    request = wire.decoded(body)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.setsid()
    client = fcntl.fcntl(connection, fcntl.F_DUPFD_CLOEXEC, max(request.descriptors) + 1)
    connection.close()
    directory, *files = received
    os.fchdir(directory)
    os.close(directory)
    _take_over(files, request.descriptors)
    os.umask(request.umask)
    _set_variables(request.environment)
    _set_streams()
    sys.argv = [os.fsdecode(each) for each in request.arguments]
    rehearse()
    _wait_for_go(client, server)
    return request


def _wait_for_go(client: int, server: int) -> None:
    try:
        is_wanted = os.read(client, 1) == wire.GO
    except OSError:
        is_wanted = False
    if not is_wanted or os.getppid() != server:
        os._exit(0)
    os.close(client)


def run(request: wire.Request, program: Program) -> None:
    is_interruptible = not _contains(request.ignored, signal.SIGINT)
    _set_signals(request.ignored, request.blocked)
    program(is_interruptible)


def run_command(is_interruptible: bool) -> None:
    process.run_here(leaves_server=False, is_interruptible=is_interruptible)


def _take_over(files: list[int], numbers: list[int]) -> None:
    """Give each file its number. First out of the way of all numbers, then into place."""
    aside = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, max(numbers) + 1) for each in files]
    for each in files:
        os.close(each)
    for each, number in zip(aside, numbers, strict=True):
        os.dup2(each, number)
        os.close(each)


def _set_variables(environment: Iterable[bytes]) -> None:
    os.environ.clear()
    for each in environment:
        name, _, value = each.partition(b"=")
        os.environb[name] = value
    time.tzset()


def _set_streams() -> None:
    """As Python makes them; encoding and errors follow from the variables that both have."""
    assert sys.__stdin__ is not None
    errors, at_once = sys.__stdin__.errors or "strict", bool(getattr(sys.__stdout__, "write_through", False))
    sys.stdin = sys.__stdin__ = _stream(0, "r", errors)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "w", errors, at_once)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "w", "backslashreplace", at_once)  # type: ignore[misc]


def _stream(number: int, mode: str, errors: str, at_once: bool = False) -> io.TextIOWrapper:
    assert sys.__stderr__ is not None
    buffer: IO[bytes] = open(number, mode + "b", 0 if at_once else -1, closefd=False)  # noqa: SIM115
    by_line = number == 2 or buffer.isatty()
    text = io.TextIOWrapper(
        buffer, sys.__stderr__.encoding, errors, newline="\n", line_buffering=by_line, write_through=at_once
    )
    text.mode = mode  # type: ignore[misc]
    return text


def _set_signals(ignored: int, blocked: int) -> None:
    """What the client ignored is ignored, what it blocked is blocked, all else is as at a cold start."""
    for number in ALL_SIGNALS - _KEPT_SIGNALS:
        _signal.signal(number, _signal.SIG_IGN if _contains(ignored, number) else _signal.SIG_DFL)
    if not _contains(ignored, _signal.SIGINT):
        _signal.signal(_signal.SIGINT, leave)
    set_mask(_signal.SIG_SETMASK, [number for number in ALL_SIGNALS if _contains(blocked, number)])


def _contains(mask: int, number: int) -> bool:
    """As in `/proc/PID/status`: one bit per signal, the first for signal 1."""
    return bool(mask >> (number - 1) & 1)
