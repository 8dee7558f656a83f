"""Standard output and standard error that each fail in exactly one way.

Typer and rich write to them as we do, and each has its own idea of what a broken pipe
means. So errors are translated below all of them, at the file descriptor: an answer that
cannot be written ends the command, and a remark that cannot be written is dropped.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from collections.abc import Mapping
from typing import TextIO

from omnigraph_core.errors import StorageError

_STDOUT, _STDERR = 1, 2


class ReaderGoneError(Exception):
    """The reader of our output has closed it. Not an OSError: Typer would turn that into exit 1."""


class OutputLostError(StorageError):
    """The answer could not be written: a full disk, a terminal that hung up."""

    def __init__(self, error: OSError) -> None:
        super().__init__(
            f"standard output cannot be written: {error.strerror}",
            hint="only the answer is lost; what the command changed stays changed",
        )
        self.errno_name = errno.errorcode.get(error.errno or 0, "EUNKNOWN")

    def details(self) -> Mapping[str, object]:
        return {"errno": self.errno_name}


class _Answers(io.FileIO):
    """File descriptor 1. Raises the first failure and drops everything written after it.

    Buffers above keep what they could not write and try again when they are closed;
    dropping that keeps the end of the process silent.
    """

    _is_lost = False

    def write(self, data: object) -> int:
        if self._is_lost:
            return _size(data)
        try:
            written = super().write(data)  # type: ignore[arg-type]
            while written is None:  # the pipe is non-blocking, and full
                select.select([], [self], [])
                written = super().write(data)  # type: ignore[arg-type]
        except BrokenPipeError as error:
            self._is_lost = True
            raise ReaderGoneError from error
        except OSError as error:
            self._is_lost = True
            raise OutputLostError(error) from error
        return written


class _Remarks(io.FileIO):
    """File descriptor 2. What cannot be written is dropped: the exit code still tells the outcome."""

    def write(self, data: object) -> int:
        try:
            return super().write(data) or 0  # type: ignore[arg-type]
        except OSError:
            return _size(data)


def prepare() -> None:
    """Make the three streams safe to use, before anything else is opened.

    A closed descriptor is opened on /dev/null, as git does: otherwise the next file we
    open gets its number, and a library's `printf` would write into a graph.
    `sys.stdin` stays None if it was closed: it must not look like empty input.
    """
    for descriptor in (0, _STDOUT, _STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
    sys.stdout = _text_stream(_Answers(_STDOUT, "w", closefd=False), sys.stdout, by_line=False)
    sys.stderr = _text_stream(_Remarks(_STDERR, "w", closefd=False), sys.stderr, by_line=True)


def _text_stream(raw: io.FileIO, old: TextIO | None, *, by_line: bool) -> TextIO:
    """Text over a descriptor; characters that the encoding lacks are escaped."""
    if old is not None:
        old.flush()
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=old.encoding if old is not None else "utf-8",
        errors="backslashreplace",
        line_buffering=by_line or raw.isatty(),
    )


def _size(data: object) -> int:
    return memoryview(data).nbytes  # type: ignore[arg-type]
