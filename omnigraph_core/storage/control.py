"""Control objects: the small files beside the Lance datasets, behind one protocol.

Sidecars, staging records and schema files are read and written whole. A local
directory and an S3 prefix promise the same about them:

- An object appears, changes and disappears atomically: a reader sees the old bytes
  or the new bytes, whole, also when the writer is killed or the power fails.
- When `create`, `replace` or `put` has returned, the bytes survive a power cut.
- Of any number of racing `create` calls on one path, or `replace` calls with one
  e-tag, exactly one wins.
- When one of them *raises* anything but `ObjectExists` or `ObjectChanged`, the
  outcome is unknown: the new bytes may be there. Read before deciding.
- A deletion is not synced: after a power cut a deleted object may be back, so a
  reader must recognise one that has had its day (a sidecar: by its commit id).

A request that fails is made again, for longer than a lease may live. So what takes a `guard` asks
it right before every request: it raises once the lock is lost that keeps others from the path.

On S3 an e-tag is the hash of the content, and a lost response is recognised by
comparing bytes. So an object that is ever replaced, or created by rivals, carries
something unique (an operation id, a nonce) in its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from omnigraph_core.errors import ConflictError, StorageError
from omnigraph_core.records import dataclass

TEMPORARY_PREFIX = ".og-tmp."
"""How the name of a half-written file starts; such names are never listed nor accepted."""

Names = list[str]

Guard = Callable[[], None]


def unguarded() -> None:
    """The guard of what nobody else has the name of, or may find and delete as well."""


@dataclass(frozen=True, slots=True)
class ControlObject:
    """The bytes of an object and the e-tag of exactly these bytes at this time."""

    data: bytes
    e_tag: str
    modified_s: float | None = None
    """When it was written by the clock of the store, to the second; None where that is our own clock."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a listing tells of a file."""

    size: int
    written_s: float
    """By the clock of the store, in seconds since the epoch."""


class ObjectExists(ConflictError):
    """`create` found an object at the path: another process was first."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} already exists")
        self.path = path

    def details(self) -> Mapping[str, object]:
        return {"path": self.path}


class ObjectChanged(ConflictError):
    """`replace` found another version than the one named by the e-tag, or none."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was changed or removed by another process")
        self.path = path

    def details(self) -> Mapping[str, object]:
        return {"path": self.path}


class InvalidObjectPath(StorageError):
    """A path that could lead out of the graph, or that no object may have."""

    def __init__(self, path: str) -> None:
        super().__init__(f"not a path inside a graph: {path!r}")
        self.path = path

    def details(self) -> Mapping[str, object]:
        return {"path": self.path}


class ControlStore(Protocol):
    """Whole objects by path; paths are relative to the graph root (see `layout`)."""

    def probe(self) -> None:
        """Raise a `StorageError` soon if the place cannot be reached; asks once, then does nothing."""

    def get(self, path: str) -> ControlObject | None:
        """The object, or None when there is none."""

    def create(self, path: str, data: bytes, guard: Guard = unguarded) -> str:
        """Write a new object and return its e-tag; `ObjectExists` when the path is taken."""

    def replace(self, path: str, data: bytes, e_tag: str) -> str:
        """Write over the version named by `e_tag`; `ObjectChanged` when it is not the current one."""

    def put(self, path: str, data: bytes) -> str:
        """Write whatever was there before, and return the e-tag."""

    def copy(self, path: str, to: str) -> None:
        """Write the bytes of a file to a path that nobody has. Syncing it is for the caller."""

    def list(self, prefix: str) -> Names:
        """The sorted names (not paths) of the objects directly below `prefix`."""

    def written_at(self, prefix: str) -> Mapping[str, float]:
        """When each object directly below `prefix` was written, by name; in seconds of the store's clock."""

    def delete(self, path: str, guard: Guard = unguarded) -> None:
        """Remove the object if it exists."""

    def list_prefix(self, prefix: str) -> Names:
        """The sorted paths (not names) of everything below `prefix`, at any depth, datasets included."""

    def listing(self, prefix: str) -> Mapping[str, Stored]:
        """The same with sizes and times, by path; all of it for as few requests."""

    def temporaries(self) -> Mapping[str, Stored]:
        """Half-written files, by path: of writers at work, or that were killed. None on object storage."""

    def delete_temporary(self, path: str) -> None:
        """Remove one of these. Its name is random: a writer that was only asleep fails, and harms nobody."""

    def delete_many(self, paths: Sequence[str], guard: Guard = unguarded) -> None:
        """Remove exactly these objects, as far as they exist; not atomic. A folder left empty goes too."""

    def delete_prefix(self, prefix: str, guard: Guard = unguarded) -> None:
        """Remove everything below `prefix`, datasets included. Not atomic: the caller must own it."""

    def exists(self, path: str) -> bool:
        """Whether an object is at the path; a folder is not an object."""

    def size(self, path: str) -> int | None:
        """Its size in bytes, or None when there is none. Also answers for files of datasets."""

    def digest(self, path: str) -> str | None:
        """What tells the bytes of a file from any others, or None when there is none.

        `sha256:HEX` of what can be read from a local disk; `etag:TEXT` of what the store says of
        an object, without reading it. Also answers for files of datasets.
        """

    def entries(self) -> Names:
        """The sorted names of everything directly below the root, whoever put it there."""

    def is_empty(self) -> bool:
        """Whether the root holds nothing at all, or does not exist."""


def checked_path(path: str) -> str:
    """The path itself, if it is relative, normalised and stays below the root.

    Paths also come out of sidecars, that is, from disk; a damaged one must not
    make recovery delete a directory outside the graph.
    """
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") or part.startswith(TEMPORARY_PREFIX) for part in parts):
        raise InvalidObjectPath(path)
    return path
