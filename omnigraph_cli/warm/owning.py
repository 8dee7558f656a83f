"""Who a server's name belongs to: whoever holds the lock on its lock file.

The lock goes with the process, however that ends. A lock file is removed only by the one who holds
its lock, so whoever has locked a file looks whether it is still the one of that name.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time

from omnigraph_cli.limits import WARM_USELESS_S
from omnigraph_cli.warm import place


def own(directory: int, name: str) -> int | None:
    """A descriptor that holds the name until it is closed; None if another process holds it."""
    path = place.inside(directory, name + place.LOCK)
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.lstat(path)):
                return lock
        os.close(lock)


def disown(directory: int, name: str, lock: int) -> None:
    """Remove the lock file and let go of the name."""
    with contextlib.suppress(OSError):
        os.unlink(place.inside(directory, name + place.LOCK))
    os.close(lock)


def sweep(directory: int) -> int:
    """How many servers are alive. What dead ones have left is removed."""
    living = 0
    for file in os.listdir(place.inside(directory, ".")):
        name, kind = os.path.splitext(file)
        if kind == place.SOCKET and (lock := own(directory, name)) is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place.inside(directory, file))
            disown(directory, name, lock)
        elif kind == place.SOCKET:
            living += 1
        elif kind == place.USELESS and not is_useless(directory, name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place.inside(directory, file))
    return living


def is_useless(directory: int, name: str) -> bool:
    """Whether a server of this name has tried and given up lately."""
    try:
        found = os.stat(place.inside(directory, name + place.USELESS))
    except OSError:
        return False
    return time.time() - found.st_mtime < WARM_USELESS_S
