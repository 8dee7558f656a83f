"""The one place where an `OSError` becomes a typed error (for S3 see `s3_failures`).

Above `storage/` nobody sees an `OSError` of ours: what a person can act on (a full
disk, a missing permission) has its own type and hint, the rest keeps the system's
words. Every error names the path it is about.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from omnigraph_core.errors import StorageError

ABSENT = (FileNotFoundError, NotADirectoryError)
"""How the system says that nothing is there: no such name, or a file where a folder would be."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_DENIED = frozenset({errno.EACCES, errno.EPERM})


class StorageFailure(StorageError):
    """A system call or request on `path` failed with the error named by `errno_name`."""

    def __init__(self, message: str, *, path: str, errno_name: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.path = path
        self.errno_name = errno_name

    def details(self) -> Mapping[str, object]:
        return {"path": self.path, "errno": self.errno_name}


class NoSpaceLeft(StorageFailure):
    """The disk or the quota is full."""


class AccessDenied(StorageFailure):
    """The file system is read-only, or its permissions keep us out."""


class NoSuchBucket(StorageFailure):
    """The S3 bucket does not exist, or not there."""


class Unreachable(StorageFailure):
    """The server cannot be reached, is silent or has troubles; what was sent may still land."""


class SyncFailed(StorageFailure):
    """An fsync failed: what was written may be lost although a read still shows it.

    The kernel drops the failed pages and reports the error once, so a second fsync
    would succeed and prove nothing. A writer that sees this error rolls back.
    """


@contextmanager
def translated(action: str, path: Path | str) -> Iterator[None]:
    """Turn an `OSError` in the block into the typed error for "cannot `action` `path`"."""
    try:
        yield
    except OSError as error:
        raise storage_failure(error, action, path) from error


def check_writable(folder: Path) -> None:
    """`AccessDenied` if nothing can be written there; it is asked, not tried."""
    if not os.access(folder, os.W_OK):
        is_read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
        error = OSError(errno.EROFS if is_read_only else errno.EACCES, "not writable")
        raise storage_failure(error, "write to", folder)


def storage_failure(error: OSError, action: str, path: Path | str) -> StorageFailure:
    """The typed error for a failed system call."""
    name = errno.errorcode.get(error.errno or 0, "EUNKNOWN")
    reason = error.strerror or str(error)
    cannot = f"cannot {action} {path}"
    if error.errno in _FULL:
        return NoSpaceLeft(
            f"{cannot}: no space left on the device",
            path=str(path),
            errno_name=name,
            hint="free some space and run the command again",
        )
    if error.errno == errno.EROFS:
        return AccessDenied(
            f"{cannot}: the file system is read-only",
            path=str(path),
            errno_name=name,
            hint="mount it read-write, or use a command that only reads",
        )
    if error.errno in _DENIED:
        return AccessDenied(
            f"{cannot}: permission denied",
            path=str(path),
            errno_name=name,
            hint="check the owner and the permissions of the file and its directory",
        )
    if error.errno == errno.ENOTDIR:
        return StorageFailure(
            f"{cannot}: part of the path is a file, not a directory", path=str(path), errno_name=name
        )
    return StorageFailure(f"{cannot}: {reason}", path=str(path), errno_name=name)


def sync_failure(error: OSError, path: Path | str) -> SyncFailed:
    """The typed error for a failed fsync, whatever the reason: it is never retried."""
    name = errno.errorcode.get(error.errno or 0, "EUNKNOWN")
    return SyncFailed(
        f"cannot sync {path}: {error.strerror or error}; the last write may not be on disk",
        path=str(path),
        errno_name=name,
        hint="check the disk (`dmesg`) before writing again",
    )
