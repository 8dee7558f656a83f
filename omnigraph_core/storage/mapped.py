"""Files that never change, as memory: mapped where they are on a local disk.

A file that is shorter than the map kills the process that touches what is missing, so the size
is compared before it is mapped, and again before each use. Whoever writes such a file gives it its name
when it is whole, and never writes into it again; removing its name leaves those alone who have it mapped.
But others do: a copy over it, or a backup that is restored, cuts it and fills it again.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from pathlib import Path

from omnigraph_core.storage.failures import ABSENT, translated
from omnigraph_core.storage.inside import open_inside


def mapped_file(root: Path, path: str, size: int) -> mmap.mmap | None:
    """The plain file at `path` below `root`; None if it is not there, or not of this size."""
    with translated("read", root / path), suppress(*ABSENT):
        descriptor = open_inside(str(root), path)
        try:
            if size > 0 and os.fstat(descriptor).st_size == size:
                return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
    return None
