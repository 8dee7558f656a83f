"""Files that a caller wants written: never one of its own inputs, nor a part of the graph itself."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from omnigraph_core.errors import UsageError

STANDARD = "-"
_STDIN = 0

_Identity = tuple[int, int]


def refuse_inputs(out: str, inputs: Iterable[str], field: str) -> None:
    """Raise UsageError if `out` is one of the inputs, by whatever name or link.

    A directory stands for the files in it, `-` for standard input. Devices and pipes have
    nothing that could be lost.
    """
    wanted = _identity(out)
    if wanted is None:
        return
    for path in inputs:
        for each in _files(path):
            if _identity(each) == wanted:
                shown = "standard input" if each == STANDARD else f"the input '{each}'"
                raise UsageError(f"'{out}' is the same file as {shown}", field=field)


def refuse_graph(out: Path, root: Path, field: str) -> None:
    """Raise UsageError if `out` is the directory of the graph, or anything in it."""
    inside, real = Path(os.path.realpath(out)), Path(os.path.realpath(root))
    if inside == real or real in inside.parents:
        raise UsageError(f"'{out}' is inside the graph {root}, where only OmniGraph writes", field=field)


def _files(path: str) -> Iterator[str]:
    yield path
    if path != STANDARD:
        try:
            with os.scandir(path) as entries:
                yield from [entry.path for entry in entries]
        except (OSError, ValueError):
            return


def _identity(path: str) -> _Identity | None:
    """Device and inode of a regular file; None for anything else, and for what is not there."""
    try:
        found = os.fstat(_STDIN) if path == STANDARD else os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None
