"""Where a graph is: the one reading of a store that a caller, the environment or a config file names.

A location is only text: nothing is opened, created or resolved here. Two spellings
of one place (`g/`, `./g`, `file:///…/g`) give equal locations; a symbolic link and
its target do not, because the name a user typed is the name messages should show.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from omnigraph_core.errors import UsageError
from omnigraph_core.patterns import pattern
from omnigraph_core.records import dataclass
from omnigraph_core.storage.control import checked_path

_SCHEME = pattern(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_BUCKET = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_CONTROL_CHARACTER = pattern(r"[\x00-\x1f\x7f-\x9f]")
# Lance reads these as parts of a URI (it decodes `%20`, and cuts at `#` and `?`), the S3
# client as they are; a graph must not be in two places.
_AMBIGUOUS_IN_S3 = pattern(r"[%#?\\\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Location:
    """A graph root: an absolute, normalised directory, or `bucket/prefix` on S3."""

    scheme: Literal["file", "s3"]
    root: str

    @property
    def is_local(self) -> bool:
        return self.scheme == "file"

    @property
    def uri(self) -> str:
        """The text to show and to store: a plain path for a local graph."""
        return self.root if self.is_local else f"s3://{self.root}"

    @property
    def path(self) -> Path:
        """The root directory; only a local location has one."""
        if not self.is_local:
            raise UsageError(f"{self.uri} is not on the local disk")
        return Path(self.root)

    def child(self, relpath: str) -> str:
        """The address of something below the root, in the form Lance opens."""
        return f"{self.uri.rstrip('/')}/{checked_path(relpath)}"

    def __str__(self) -> str:
        return self.uri


def parse_location(text: str, cwd: Path) -> Location:
    """Read a path, a `file://` or an `s3://` URI; relative paths start at `cwd`."""
    _check_text(text)
    match = _SCHEME.fullmatch(text)
    if match is None:
        return _local(text, cwd)
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        return _local(_file_uri_path(text, rest), cwd)
    if scheme == "s3":
        return _s3(text, rest)
    if scheme in ("http", "https"):
        raise UsageError(f"{text}: {scheme}:// is not supported yet")
    raise UsageError(f"{text}: unknown scheme '{scheme}://'", hint="use a path, file:// or s3://")


def _check_text(text: str) -> None:
    if not text.strip():
        raise UsageError("the graph's location is empty")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(f"{text!a}: a graph's location must be UTF-8 text") from error
    if "\0" in text:
        raise UsageError(f"{text!a}: a graph's location cannot contain a NUL character")


def _local(text: str, cwd: Path) -> Location:
    absolute = os.path.abspath(os.path.join(cwd, text))
    _check_text(absolute)
    if _CONTROL_CHARACTER.search(absolute):
        raise UsageError(f"{absolute!a}: a graph's location cannot contain control characters")
    # POSIX lets exactly two leading slashes mean something else; for us they never do.
    return Location("file", "/" + absolute.lstrip("/"))


def _file_uri_path(text: str, rest: str) -> str:
    host, slash, path = rest.partition("/")
    if not slash or host.lower() not in ("", "localhost"):
        raise UsageError(
            f"{text}: a file:// URI cannot name another host",
            hint="write file:///absolute/path, or the plain path",
        )
    try:
        decoded = unquote(path, errors="strict")
    except UnicodeDecodeError as error:
        raise UsageError(f"{text}: the percent-encoded path is not UTF-8") from error
    _check_text("/" + decoded)
    return "/" + decoded


def _s3(text: str, rest: str) -> Location:
    bucket, _, prefix = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise UsageError(f"{text}: not a valid bucket name", hint="write s3://bucket/prefix")
    prefix = prefix.rstrip("/")
    if prefix and any(part in ("", ".", "..") for part in prefix.split("/")):
        raise UsageError(f"{text}: an s3:// prefix cannot contain empty, '.' or '..' parts")
    if _AMBIGUOUS_IN_S3.search(prefix):
        raise UsageError(
            f"{text!r}: an s3:// prefix cannot contain '%', '#', '?', '\\' or control characters"
        )
    return Location("s3", f"{bucket}/{prefix}" if prefix else bucket)
