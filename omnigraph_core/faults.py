"""Failpoints: named places where a test can make this process die, fail or wait.

Armed only by `OMNIGRAPH_FAILPOINTS` (through settings), as a comma-separated list of
`name=kill`, `name=stop`, `name=stop:each`, `name=error` or `name=sleep:MILLISECONDS`. Not armed, `hit` is
one dictionary look-up in an empty dictionary.

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


_armed: dict[str, str] = {}


def arm(specification: str) -> None:
    """Replace the armed failpoints by those of `specification` (empty: none)."""
    parsed: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in specification.split(","))):
        name, separator, action = item.partition("=")
        if not separator or not _is_action(action):
            raise UsageError(
                f"OMNIGRAPH_FAILPOINTS: cannot read '{item}'",
                hint="use name=kill, name=stop, name=error or name=sleep:MILLISECONDS, separated by commas",
            )
        parsed[name] = action
    _armed.clear()
    _armed.update(parsed)


def _is_action(action: str) -> bool:
    if action in ("kill", "stop", "stop:each", "error"):
        return True
    verb, _, milliseconds = action.partition(":")
    return verb == "sleep" and milliseconds.isdigit()


def hit(name: str) -> None:
    """Do what the failpoint `name` is armed with, if anything."""
    action = _armed.get(name)
    if action is None:
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
        time.sleep(int(action.partition(":")[2]) / 1000)
