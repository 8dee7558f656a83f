"""One version of a control object on a local disk: its bytes, and the e-tag that tells it from all others.

An e-tag is the hash of the bytes, the inode and the modification time. Inodes are reused and
the kernel's clock ticks in milliseconds, so the time is set by us, in nanoseconds and always later
than that of the version written over: the same bytes written twice have two e-tags.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from omnigraph_core.records import dataclass
from omnigraph_core.storage.failures import ABSENT
from omnigraph_core.storage.inside import open_file


@dataclass(frozen=True, slots=True)
class FileVersion:
    """One version of a file as read from disk."""

    data: bytes
    e_tag: str
    mtime_ns: int


def read_named(file: Path, folder: int) -> FileVersion | None:
    """The file of this name in an open directory."""
    try:
        return read_version(open_file(file.name, folder, os.O_RDONLY, str(file)))
    except ABSENT:
        return None


def read_version(descriptor: int) -> FileVersion:
    """Everything in an open file, which is closed afterwards."""
    try:
        with open(descriptor, "rb", closefd=False) as stream:
            data = stream.read()
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return FileVersion(data, e_tag_of(data, status), status.st_mtime_ns)


def write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def e_tag_of(data: bytes, status: os.stat_result) -> str:
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    return f"{digest}-{status.st_ino:x}-{status.st_mtime_ns:x}"
