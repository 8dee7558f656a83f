"""Large pages for what a server has in memory.

A fork copies the table of all pages, and the end of a process takes it down again. A large page is
one entry in place of 512, so both cost half as much. What a fork then writes to is copied in small
pages as ever. Where the kernel cannot do it (before Linux 6.1, or without memory to spare), nothing
changes but the time.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator

_MADV_COLLAPSE = 25
_LARGE = 2 << 20
_ENTRY_BYTES = 8
_PRESENT = 0x80  # the highest bit of an entry, which is little-endian


def join_pages() -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    libc = ctypes.CDLL(None)
    libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    per_large = _LARGE // page
    try:
        table = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for start in _aligned():
            entries = os.pread(table, per_large * _ENTRY_BYTES, start // page * _ENTRY_BYTES)
            used = sum(each & _PRESENT != 0 for each in entries[_ENTRY_BYTES - 1 :: _ENTRY_BYTES])
            if used > per_large // 2:  # what is not used yet would be taken, too
                libc.madvise(start, _LARGE, _MADV_COLLAPSE)
    finally:
        os.close(table)


def _aligned() -> Iterator[int]:
    """Where a large page can be, in memory that is this process's own and comes from no file."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        areas = [line.split() for line in file]
    for span, access, _, _, inode, *_ in areas:
        if access == "rw-p" and inode == "0":
            low, high = (int(each, 16) for each in span.split("-"))
            yield from range(-(-low // _LARGE) * _LARGE, high - _LARGE + 1, _LARGE)
