"""Files that appear complete or not at all: a half-written backup must not look like a whole one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from omnigraph_core.errors import StorageError, UsageError


class Unfinished:
    """Files written under other names; they get their own when all of them are written.

    Several names cannot change in one moment: a crash in between can leave new files beside
    old ones, each of them whole.
    """

    def __init__(self) -> None:
        self._files: dict[Path, Path] = {}

    @contextmanager
    def open(self, path: Path) -> Iterator[BinaryIO]:
        """A file to write what will be found under `path`, or where that is a link to.

        Pipes and devices have no content that could be replaced: they are written into.
        """
        if os.path.isdir(path):
            raise UsageError(f"{path} is a directory", field="out")
        target = Path(os.path.realpath(path))
        in_place = os.path.exists(target) and not os.path.isfile(target)
        unfinished = target if in_place else target.with_name(f".{target.name}.{os.getpid()}.tmp")
        if not in_place:
            self._files[unfinished] = target
        try:
            with open(unfinished, "wb") as file:
                yield file
                file.flush()
                if not in_place:
                    os.fsync(file.fileno())
        except OSError as error:
            raise _unwritable(path, error) from error

    def finish(self) -> None:
        for unfinished, path in self._files.items():
            try:
                unfinished.replace(path)
            except OSError as error:
                raise _unwritable(path, error) from error

    def discard(self) -> None:
        """Remove the files that have not been renamed; none after `finish`."""
        for unfinished in self._files:
            with contextlib.suppress(OSError):
                unfinished.unlink()


def _unwritable(path: Path, error: OSError) -> StorageError:
    return StorageError(f"{path} cannot be written: {error.strerror or error}", field="out")


@contextmanager
def whole_files() -> Iterator[Unfinished]:
    """Files that get their names at the end of the block, if it succeeds."""
    unfinished = Unfinished()
    try:
        yield unfinished
        unfinished.finish()
    finally:
        unfinished.discard()


def export_paths(out: Path, suffix: str, names: Mapping[str, str]) -> dict[str, Path]:
    """Where the file of each table key goes: `out` itself for one, else one per type inside it.

    `names` are the types by table key. The directory is made if need be.
    """
    if len(names) == 1 and not os.path.isdir(out):
        return dict.fromkeys(names, out)
    if os.path.exists(out) and not os.path.isdir(out):
        raise UsageError(f"{out} is a file, and {len(names)} types need a directory", field="out")
    try:
        out.mkdir(exist_ok=True)
    except OSError as error:
        raise _unwritable(out, error) from error
    return {key: out / f"{_stem(key, names)}.{suffix}" for key in names}


def _stem(key: str, names: Mapping[str, str]) -> str:
    """The type's name; its key where a node and an edge type differ in nothing or in case only."""
    folded = [name.lower() for name in names.values()]
    return names[key] if folded.count(names[key].lower()) == 1 else key
