"""Failpoints: named places where a test can make this process die, fail or wait.

Armed only by `OMNIGRAPH_FAILPOINTS` (through settings), as a comma-separated list of
`name=kill`, `name=stop`, `name=stop:each`, `name=error` or `name=sleep:MILLISECONDS`. With `@N` at the end
the first N - 1 times pass: `name=kill@3`. Not armed, `hit` is one dictionary look-up in an empty dictionary.

Fault model: `kill` is SIGKILL to ourselves, so no `finally`, no `atexit` and no
buffered write runs, exactly as when the kernel or an operator ends the process. `stop`
is SIGSTOP to ourselves, once (or each time): nothing runs, not even the thread that renews a lease,
until somebody sends SIGCONT, as when a machine is suspended.
"""

from __future__ import annotations

import os
import signal
import time

from omnigraph_core.errors import StorageError, UsageError


class InjectedFault(StorageError):
    """Raised by a failpoint armed with `error`; stands for a failed storage call."""


NAP_S = 0.1

_armed: dict[str, str] = {}
_passes: dict[str, int] = {}
"""How many times a failpoint is still passed before it does what it is armed with."""


def arm(specification: str) -> None:
    """Replace the armed failpoints by those of `specification` (empty: none)."""
    parsed: dict[str, str] = {}
    passes: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in specification.split(","))):
        name, separator, armed = item.partition("=")
        action, counted, nth = armed.partition("@")
        if not separator or not _is_action(action) or (counted and not nth.isdigit()):
            raise UsageError(
                f"OMNIGRAPH_FAILPOINTS: cannot read '{item}'",
                hint="use name=kill, name=stop, name=error or name=sleep:MILLISECONDS, separated by commas; "
                "@N at the end is the Nth time",
            )
        parsed[name] = action
        if counted:
            passes[name] = int(nth) - 1
    _armed.clear()
    _armed.update(parsed)
    _passes.clear()
    _passes.update(passes)


def _is_action(action: str) -> bool:
    if action in ("kill", "stop", "stop:each", "error"):
        return True
    verb, _, milliseconds = action.partition(":")
    return verb == "sleep" and milliseconds.isdigit()


def hit(name: str) -> None:
    """Do what the failpoint `name` is armed with, if anything."""
    action = _armed.get(name)
    if action is None or _passed(name):
        return
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif action in ("stop", "stop:each"):
        if action == "stop":
            del _armed[name]
        os.kill(os.getpid(), signal.SIGSTOP)
    elif action == "error":
        raise InjectedFault(f"injected fault at {name}")
    else:
        _sleep(int(action.partition(":")[2]) / 1000)


def _sleep(seconds: float) -> None:
    """In naps: Python would sleep through a signal that came right before the system call."""
    awake = time.monotonic() + seconds
    while (left := awake - time.monotonic()) > 0:
        time.sleep(min(left, NAP_S))


def _passed(name: str) -> bool:
    left = _passes.get(name, 0)
    if left > 0:
        _passes[name] = left - 1
    return left > 0
