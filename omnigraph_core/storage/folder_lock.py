"""The lock on a folder of control objects, held from a comparison to the rename that follows from it.

It is a `flock` on the open directory, so threads exclude each other too, and the kernel frees it
on kill. It is held for an instant, unless its holder is stopped in that instant. So the wait for
it is bounded, like that for any other lock, and says which process is in the way.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path

from omnigraph_core.errors import BusyError
from omnigraph_core.storage.locks import wait_until

_KERNEL_LOCKS = Path("/proc/locks")


class FolderBusy(BusyError):
    """Another process held a folder of control objects for as long as we were willing to wait."""

    def __init__(self, folder: Path, waited_s: float, pid: int | None) -> None:
        by = "another process" if pid is None else f"process {pid}"
        super().__init__(
            f"{by} is replacing a file in {folder}; gave up after {waited_s:.1f} s",
            hint="that takes an instant, so the process is stopped: let it continue or end it, and try again",
            field="lock_timeout",
        )
        self.folder, self.pid = folder, pid

    def details(self) -> Mapping[str, object]:
        return {"folder": str(self.folder), "pid": self.pid}


def lock_folder(descriptor: int, folder: Path, timeout_s: float) -> None:
    """Lock an open directory against every other; closing it unlocks. `FolderBusy` if that takes too long."""

    def attempt() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    if not wait_until(attempt, timeout_s):
        raise FolderBusy(folder, timeout_s, _holder_of(descriptor))


def _holder_of(descriptor: int) -> int | None:
    """The process that has the lock, if the kernel tells."""
    found = os.fstat(descriptor)
    file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    try:
        lines = _KERNEL_LOCKS.read_text().splitlines()
    except (OSError, ValueError):
        return None
    for line in lines:
        # "1: FLOCK  ADVISORY  WRITE 1234 fe:00:5318870 0 EOF"; one who waits has "->" in front.
        _, kind, *rest = line.split()
        if kind == "FLOCK" and len(rest) >= 4 and rest[3] == file and rest[2].isdigit():
            return int(rest[2]) or None
    return None
