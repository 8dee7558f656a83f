"""Compressed inputs: the content is read, while the file itself is counted and hashed.

gzip and Zstandard are known by their first bytes, whatever the name says, so standard
input may be compressed too; no UTF-8 text begins like that. A name that promises
compression has to keep the promise: `x.csv.gz` that is plain text is a broken download
more often than a wrong name.
"""

from __future__ import annotations

import hashlib
import io
from typing import BinaryIO

import pyarrow as pa

from omnigraph_core.errors import BadDataError, StorageError
from omnigraph_core.values.shown import clipped

# By the suffix of a file's name: what pyarrow calls the codec, and how its data begins.
CODECS = {".gz": ("gzip", b"\x1f\x8b"), ".zst": ("zstd", b"\x28\xb5\x2f\xfd")}
_START_BYTES = 4
_BUFFER_BYTES = 2**20


class DamagedInput(BadDataError):
    """A file is not what it claims to be: truncated, damaged, or in another format."""

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(f"{source}: {problem}", hint="nothing was loaded; get the file again")
        self.source = source
        self.problem = problem

    def details(self) -> dict[str, object]:
        return {"file": self.source}


class Tally:
    """How many bytes of an input have been read so far, and their digest."""

    def __init__(self) -> None:
        self.bytes_read = 0
        self._hash = hashlib.sha256()

    def add(self, data: bytes | memoryview) -> None:
        self.bytes_read += len(data)
        self._hash.update(data)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


class Measured(io.RawIOBase):
    """A file that counts and hashes its bytes as they are read."""

    def __init__(self, file: BinaryIO, name: str, tally: Tally) -> None:
        self._file, self._name, self._tally = file, name, tally
        self._start = b""
        self._is_over = False

    def start(self) -> bytes:
        """The first bytes, without consuming them; call before reading."""
        self._start = self._read(_START_BYTES)
        return self._start

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Returns fewer bytes than asked for only at the end of the file or of the peeked start."""
        data, self._start = (self._start, b"") if self._start else (self._read(size), b"")
        self._tally.add(data)
        return data

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        if self._start:
            data = self.read(len(view))
            view[: len(data)] = data
            return len(data)
        if self._is_over:
            return 0
        try:
            number = int(self._file.readinto(view))  # type: ignore[attr-defined]
        except OSError as error:
            raise self._failed(error) from error
        self._tally.add(view[:number])
        self._notice_end(number, len(view))
        return number

    def _read(self, size: int) -> bytes:
        if self._is_over:
            return b""
        try:
            data = self._file.read(size)
        except OSError as error:
            raise self._failed(error) from error
        self._notice_end(len(data), size)
        return data

    def _notice_end(self, number: int, wanted: int) -> None:
        """Ask no more after the end: a terminal would want Ctrl-D again. Only buffers fill what they can."""
        if wanted > 0:
            self._is_over = not number or (number < wanted and isinstance(self._file, io.BufferedReader))

    def _failed(self, error: OSError) -> StorageError:
        return StorageError(f"reading {self._name} failed: {error.strerror or error}")


class _Decoded(io.RawIOBase):
    """The content of a compressed file; concatenated streams are read as one."""

    def __init__(self, measured: Measured, name: str, codec: str) -> None:
        self._name, self._codec = name, codec
        self._stream = pa.CompressedInputStream(pa.PythonFile(measured, mode="r"), codec)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        try:
            data = self._stream.read(len(view))
        except OSError as error:
            raise _damaged(self._name, self._codec, error) from error
        view[: len(data)] = data
        return len(data)


def _damaged(name: str, codec: str, error: OSError) -> DamagedInput:
    if "Truncated" in str(error):
        return DamagedInput(name, f"the {codec} data is cut short")
    return DamagedInput(name, f"the {codec} data is damaged ({clipped(str(error))})")


def content(measured: Measured, name: str) -> io.BufferedReader:
    """The bytes to read, decompressed if necessary."""
    start = measured.start()
    for suffix, (codec, magic) in CODECS.items():
        if start.startswith(magic):
            return io.BufferedReader(_Decoded(measured, name, codec), _BUFFER_BYTES)
        if name.lower().endswith(suffix):
            raise DamagedInput(name, f"not {codec} data, although its name says so")
    return io.BufferedReader(measured, _BUFFER_BYTES)
