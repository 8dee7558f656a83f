"""Where `--conflicts FILE` goes, and where `--resolve FILE` comes from."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph_cli.output import write
from omnigraph_cli.sources import await_stdin
from omnigraph_core.errors import BadDataError, UsageError

if TYPE_CHECKING:
    from omnigraph_core.merge.conflicts import Conflict, Heads
    from omnigraph_core.merge.resolve import Resolution

STANDARD = "-"


class ConflictFile:
    """The file of conflicts: another one beside it until they are known, so that it is always whole.

    Whether it can be written is known before the merge, which cannot be taken back then. A device,
    a pipe and standard output are written to as they are.
    """

    def __init__(self, option: str | None) -> None:
        self._option = option
        self._path = None if option in (None, STANDARD) else Path(os.path.realpath(str(option)))
        self._unfinished: Path | None = None

    @property
    def is_standard_output(self) -> bool:
        return self._option == STANDARD

    def __enter__(self) -> ConflictFile:
        path = self._path
        if path is None:
            return self
        with self._failures():
            if path.is_dir():
                raise IsADirectoryError(0, "it is a directory")
            if not path.exists() or path.is_file():
                unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
                unfinished.touch(exist_ok=False)
                self._unfinished = unfinished
        return self

    def __exit__(self, *raised: object) -> None:
        if self._unfinished is not None:
            self._unfinished.unlink(missing_ok=True)

    def write(self, conflicts: Sequence[Conflict], heads: Heads) -> None:
        from omnigraph_core.merge.conflicts import conflict_lines

        lines = conflict_lines(conflicts, heads)
        if self.is_standard_output:
            for line in lines:
                write(sys.stdout, line)
        if self._path is None:
            return
        with self._failures():
            with (self._unfinished or self._path).open("w", encoding="utf-8") as file:
                file.writelines(lines)
            if self._unfinished is not None:
                self._unfinished.replace(self._path)
                self._unfinished = None

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UsageError(f"--conflicts: {self._option}: {error.strerror}") from error


def read_choices(option: str | None) -> Resolution | None:
    """The choices of a file, of any size: what a merge wrote it takes back."""
    if option is None:
        return None
    from omnigraph_core.merge.resolve import read_resolution

    name = "<stdin>" if option == STANDARD else option
    if option == STANDARD:
        await_stdin("choices")
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if option == STANDARD else open(option, "rb") as file:
            return read_resolution(_texts(file, name), name)
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file") from None
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}") from error


def _texts(lines: Iterator[bytes], name: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            found = f"byte 0x{line[error.start]:02x}"
            raise BadDataError(
                f"{name}:{number}: not UTF-8 text ({found})", hint="save the file as UTF-8"
            ) from error
