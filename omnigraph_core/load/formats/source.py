"""An input of a load: bytes, in blocks of whole lines.

What is read is counted and hashed on the way, so that the commit can name its inputs;
of a compressed file that is the file itself, while the lines are what it holds.
Whether the lines make sense is not looked at here, except for what would turn every
line into nonsense: a file that is no UTF-8 text at all.
"""

from __future__ import annotations

import io
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from omnigraph_core.errors import LimitError, UsageError
from omnigraph_core.load.formats.compressed import Measured, Tally, content
from omnigraph_core.load.formats.limits import BLOCK_BYTES, LINE_BYTES_MAX
from omnigraph_core.records import dataclass
from omnigraph_core.rules.violations import InvalidRecords, Violation

STDIN = "-"
STDIN_NAME = "<stdin>"


_NEWLINE = ord("\n")
_UTF8_MARK = b"\xef\xbb\xbf"
_OTHER_MARKS = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_LOOKED_AT_BYTES = 4096
_BUFFER_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines, each ended by a newline; `first_line` counts from 1."""

    first_line: int
    text: bytes


class LineTooLong(LimitError):
    """A line is longer than any record should be, and would not fit in memory."""

    def __init__(self, source: str, line: int, limit: int) -> None:
        super().__init__(
            f"{source}:{line}: the line is longer than {limit // 2**20} MiB",
            hint="one record is one line; is the input a JSON array instead of JSON lines? "
            "If not, raise OMNIGRAPH_MEMORY_LIMIT",
        )
        self.source = source
        self.line = line
        self.limit = limit

    def details(self) -> dict[str, object]:
        return {"file": self.source, "line": self.line}


class Place(Protocol):
    """Where an input is."""

    def size(self) -> int | None:
        """The length in bytes; None for a pipe. Raises UsageError if it cannot be an input."""

    def open(self) -> BinaryIO:
        """The bytes, from the start."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A local path; `-` is standard input."""

    path: str

    def size(self) -> int | None:
        return input_size(self.path)

    def open(self) -> BinaryIO:
        return open_input(self.path)


class Source:
    """One input, read once from front to end; `-` is standard input.

    `sha256` and `bytes_read` describe what has been read so far: the whole input once
    `blocks` is exhausted.
    """

    def __init__(
        self,
        path: str,
        place: Place | None = None,
        *,
        block_bytes: int = BLOCK_BYTES,
        line_bytes_max: int = LINE_BYTES_MAX,
    ) -> None:
        self.place = LocalFile(path) if place is None else place
        self.name = STDIN_NAME if path == STDIN else path
        self.size = None if path == STDIN else self.place.size()
        self._tally = Tally()
        self._block_bytes = min(block_bytes, line_bytes_max)
        self.line_bytes_max = line_bytes_max

    @property
    def sha256(self) -> str:
        return self._tally.sha256

    @property
    def bytes_read(self) -> int:
        return self._tally.bytes_read

    def blocks(self, on_bytes: Callable[[int], None] | None = None) -> Iterator[Block]:
        """The lines of the input. `on_bytes` is told how many of its bytes each block took."""
        line, told = 1, 0
        with self.place.open() as opened:
            file = content(Measured(opened, self.name, self._tally), self.name)
            while text := self._read_block(file, line):
                if on_bytes is not None and self.bytes_read > told:
                    on_bytes(self.bytes_read - told)
                    told = self.bytes_read
                if line == 1:
                    self._refuse_other_encodings(text)
                    text = text.removeprefix(_UTF8_MARK)
                yield Block(line, text if text.endswith(b"\n") else text + b"\n")
                line += _count_lines(text)
            if on_bytes is not None and self.bytes_read > told:
                on_bytes(self.bytes_read - told)

    def _read_block(self, file: io.BufferedReader, line: int, bytes_max: int | None = None) -> bytes:
        """The next bytes up to the end of a line or of the input; `line` is the number of the first."""
        text = file.read(self._block_bytes if bytes_max is None else min(self._block_bytes, bytes_max))
        if not text or text.endswith(b"\n"):
            return text
        begun = len(text) - (text.rfind(b"\n") + 1)
        rest = file.readline(max(self.line_bytes_max - begun, 0) + 1)
        if begun + len(rest.removesuffix(b"\n")) > self.line_bytes_max:
            raise LineTooLong(self.name, line + text.count(b"\n"), self.line_bytes_max)
        return text + rest

    def _refuse_other_encodings(self, start: bytes) -> None:
        """One message for the whole file instead of a violation per line."""
        beginning = start[:_LOOKED_AT_BYTES]
        for mark, encoding in _OTHER_MARKS.items():
            if beginning.startswith(mark):
                self._refuse(1, f"the input is {encoding}, not UTF-8")
        position = beginning.find(b"\0")
        if position >= 0:
            line = beginning.count(b"\n", 0, position) + 1
            self._refuse(line, "the input is not UTF-8 text: it has NUL bytes")

    def _refuse(self, line: int, message: str) -> None:
        raise InvalidRecords((Violation(message, self.name, line),), 1)


class _Uncounted(Tally):
    """A counter without a digest, for a part of a file."""

    def add(self, data: bytes | memoryview) -> None:
        self.bytes_read += len(data)


class SourceSplit(Source):
    """The lines of a plain file that begin in one stretch of its bytes, counted from 1.

    The code that puts the parts together adds the lines of the parts before.
    """

    def __init__(self, name: str, place: Place, start: int, end: int) -> None:
        super().__init__(name, place)
        self.size = end - start
        self.lines = 0
        """How many there are, once they have been read."""
        self._start, self._end = start, end

    def blocks(self, on_bytes: Callable[[int], None] | None = None) -> Iterator[Block]:
        with self.place.open() as opened:
            position = self._first_line_start(opened)
            measured: io.RawIOBase = Measured(opened, self.name, _Uncounted())
            file: io.BufferedReader = io.BufferedReader(measured, _BUFFER_BYTES)
            while position < self._end and (
                text := self._read_block(file, self.lines + 1, self._end - position)
            ):
                position += len(text)
                if on_bytes is not None:
                    on_bytes(len(text))
                first, self.lines = self.lines + 1, self.lines + _count_lines(text)
                if position == len(text):
                    self._refuse_other_encodings(text)
                    text = text.removeprefix(_UTF8_MARK)
                yield Block(first, text if text.endswith(b"\n") else text + b"\n")

    def _first_line_start(self, file: BinaryIO) -> int:
        """A line that begins before this range belongs to the reader of the range before."""
        if not self._start:
            return 0
        file.seek(self._start - 1)
        while (skipped := file.readline(_BUFFER_BYTES)) and not skipped.endswith(b"\n"):
            pass
        return file.tell()


def _count_lines(text: bytes) -> int:
    """How many lines end in `text`; four times faster than `bytes.count` for lines of 100 bytes."""
    return int(np.count_nonzero(np.frombuffer(text, dtype=np.uint8) == _NEWLINE))


def input_size(path: str) -> int | None:
    """The length of a regular file, None for a pipe; raises UsageError if it cannot be an input."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if stat.S_ISDIR(status.st_mode):
        raise UsageError(f"input '{path}' is a directory")
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def open_input(path: str) -> BinaryIO:
    try:
        if path == STDIN:
            return open(0, "rb", closefd=False)
        return open(path, "rb")
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: OSError | ValueError) -> UsageError:
    if isinstance(error, FileNotFoundError):
        return UsageError(f"input file '{path}' does not exist")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UsageError(f"input '{path}' cannot be read: {reason}")
