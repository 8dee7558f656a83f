"""Inputs on S3, read with the graph's credentials; and what kind of place a name denotes."""

from __future__ import annotations

import io
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from omnigraph_core.errors import StorageError, UsageError
from omnigraph_core.load.formats.source import LocalFile, Place
from omnigraph_core.records import dataclass
from omnigraph_core.settings import S3Settings
from omnigraph_core.storage import parse_location
from omnigraph_core.storage.s3_options import check_settings

if TYPE_CHECKING:
    from omnigraph_core.storage.s3 import S3ControlStore

SCHEME = "s3://"
# One request fetches so much; less would be many requests, more is thrown away at a part's end.
_REQUEST_BYTES = 8 * 2**20


def is_remote(path: str) -> bool:
    return path.startswith(SCHEME)


def place_of(path: str, s3: S3Settings) -> Place:
    return RemoteFile(path, s3) if is_remote(path) else LocalFile(path)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """An object on S3."""

    uri: str
    s3: S3Settings = field(repr=False)

    def __str__(self) -> str:
        return self.uri

    def size(self) -> int | None:
        store, key = self._store()
        size = store.size(key)
        if size is None:
            raise UsageError(f"input '{self.uri}' does not exist")
        return size

    def open(self) -> BinaryIO:
        size = self.size() or 0
        reader: io.RawIOBase = _Ranges(self, size)
        return cast(BinaryIO, io.BufferedReader(reader, _REQUEST_BYTES))

    def read(self, start: int, end: int) -> bytes:
        store, key = self._store()
        return store.read_range(key, start, end)

    def _store(self) -> tuple[S3ControlStore, str]:
        """The client for the object's folder; it retries transient failures."""
        folder, _, name = self.uri.rpartition("/")
        if folder.count("/") < 2 or not name:
            raise UsageError(f"input '{self.uri}' is a bucket, not an object")
        return _client(folder, self.s3), name


def list_folder(folder: str, s3: S3Settings) -> list[str]:
    """The names of the objects directly in a folder."""
    return _client(folder, s3).list("")


def _client(folder: str, s3: S3Settings) -> S3ControlStore:
    from omnigraph_core.storage.s3 import S3ControlStore

    location = parse_location(folder, Path("/"))
    check_settings(location, s3)
    return S3ControlStore(location, s3)


class _Ranges(io.RawIOBase):
    """The bytes of an object, one request at a time."""

    def __init__(self, file: RemoteFile, size: int) -> None:
        self._file, self._size, self._position = file, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        end = min(self._position + len(view), self._size)
        if end <= self._position:
            return 0
        data = self._file.read(self._position, end)
        if len(data) != end - self._position:
            raise StorageError(f"reading {self._file.uri} failed: it changed while it was read")
        view[: len(data)] = data
        self._position = end
        return len(data)
