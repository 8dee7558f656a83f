"""What Lance's failures mean.

Lance raises OSError, ValueError, ArrowInvalid and its own CommitConflictError, and
only the text tells them apart. All reading of that text happens here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from omnigraph_core.errors import ConflictError, InternalError, NotFoundError, RefusedError, StorageError
from omnigraph_core.patterns import pattern
from omnigraph_core.tables.refs import TableRef


class HeadMoved(ConflictError):
    """Another writer committed to a table between our reading it and our commit."""

    retryable = True

    def __init__(self, table_key: str, expected: int, actual: int) -> None:
        super().__init__(f"table '{table_key}' moved: expected HEAD at version {expected}, found {actual}")
        self.table_key = table_key
        self.expected = expected
        self.actual = actual

    def details(self) -> Mapping[str, object]:
        return {"table_key": self.table_key, "expected": self.expected, "actual": self.actual}


class CommitLost(ConflictError):
    """Lance refused a commit because of a conflicting one; nothing of ours landed."""

    retryable = True


class ForeignCommit(InternalError):
    """A commit of ours landed on top of one we had not seen, in spite of the lock.

    Another program writes to the dataset. The commit stands; the caller
    must treat the table as drifted and let recovery decide.
    """


class CommitUnknown(StorageError):
    """A commit failed in a way that does not tell whether it landed, and asking failed too."""

    retryable = True


class TableNotFound(NotFoundError):
    """There is no dataset at this place."""


class VersionNotFound(NotFoundError):
    """The dataset exists, but this version of it was removed (by cleanup) or never was."""

    def __init__(self, table_key: str, version: int) -> None:
        super().__init__(
            f"version {version} of table '{table_key}' no longer exists",
            hint="cleanup removed it, or the commit that names it is not of this graph",
        )
        self.table_key = table_key
        self.version = version

    def details(self) -> Mapping[str, object]:
        return {"table_key": self.table_key, "version": self.version}


class TableLost(StorageError):
    """A version that is published, and that nothing removes while it is the newest, is not there."""

    def __init__(self, ref: TableRef, version: int, *, is_there: bool) -> None:
        what = f"version {version} of table '{ref.key}'" if is_there else f"table '{ref.key}'"
        super().__init__(
            f"{ref.directory}: {what} is published but missing",
            hint="restore the directory from a backup",
        )
        self.table_key, self.path, self.version = ref.key, ref.directory, version

    def details(self) -> Mapping[str, object]:
        return {"table_key": self.table_key, "path": self.path, "version": self.version}


class GraphMoved(RefusedError):
    """The graph is not where its branches were made."""

    def __init__(self, table_key: str, recorded: str) -> None:
        super().__init__(
            f"this graph was moved or copied: its branches still refer to {recorded}",
            hint="run `omnigraph relocate` once, here",
        )
        self.table_key, self.recorded = table_key, recorded

    def details(self) -> Mapping[str, object]:
        return {"recorded": self.recorded}


class ReadsElsewhere(StorageError):
    """A table whose rows are in files of another place, which no graph of ours has."""

    def __init__(self, ref: TableRef, elsewhere: str) -> None:
        super().__init__(
            f"{ref.path}: table '{ref.key}' refers to files outside of this graph, in {elsewhere}",
            hint="it is a clone of another table; restore the graph's own table from a backup",
        )
        self.table_key, self.path, self.elsewhere = ref.key, ref.path, elsewhere

    def details(self) -> Mapping[str, object]:
        return {"table_key": self.table_key, "path": self.path, "elsewhere": self.elsewhere}


# What a call into Lance can raise (beside pyarrow's own, most of which are among these).
LANCE_RAISES = (OSError, ValueError, RuntimeError)

_S3_BODY = pattern(r"<\?xml|<Error\b")
_S3_CODE = pattern(r"<Code>(\w+)</Code>")
_RUST_POSITION = pattern(r", \S+\.rs:\d+")

_CONTENTION = ("Too many concurrent writers", "Commit conflict", "Incompatible transaction", "Retryable")


def is_contention(error: BaseException) -> bool:
    """Did the write lose a race (and so certainly did not land)?"""
    from lance.commit import CommitConflictError

    return isinstance(error, CommitConflictError) or any(text in str(error) for text in _CONTENTION)


def is_missing(error: BaseException) -> bool:
    """Does the error say that a dataset, version or file is not there?"""
    text = str(error).lower()
    return "not found" in text or "no such file" in text or "does not exist" in text


def is_panic(error: BaseException) -> bool:
    """A panic of Lance's Rust code, on damaged files for example. It is not even an Exception."""
    return type(error).__name__ == "PanicException"


@contextmanager
def panics_as_failures(ref: TableRef, doing: str) -> Iterator[None]:
    """Turn a panic inside into a storage error; everything else passes."""
    try:
        yield
    except BaseException as error:
        if not is_panic(error):
            raise
        raise storage_error(ref, doing, error) from error


@contextmanager
def lance_failures(ref: TableRef, doing: str) -> Iterator[None]:
    """Turn whatever Lance raises inside into a typed storage error that names the table."""
    import pyarrow as pa

    try:
        with panics_as_failures(ref, doing):
            yield
    except (*LANCE_RAISES, pa.ArrowException) as error:
        raise storage_error(ref, doing, error) from error


# Ctrl-C while Lance called back into Python, in the words of its commit handler and of Arrow's readers.
_INTERRUPTED = pattern(r"(?:^|: |\n)KeyboardInterrupt(?::|,|\s|$)")


def raise_if_interrupted(error: BaseException) -> None:
    """An interrupt that came back as an error of Lance's is an interrupt all the same."""
    if _INTERRUPTED.search(str(error)):
        raise KeyboardInterrupt from error


def storage_error(ref: TableRef, doing: str, error: BaseException) -> StorageError:
    """A storage error with the part of Lance's message a person can use. Raises what was an interrupt."""
    raise_if_interrupted(error)
    text = str(error)
    where = f"table '{ref.key}'" if ref.branch is None else f"table '{ref.key}' on branch '{ref.branch}'"
    if "No space left on device" in text or "os error 28" in text:
        return StorageError(
            f"no space left on the device while {doing} {where}",
            hint="free some space and try again; nothing was published",
        )
    if "Permission denied" in text or "Read-only file system" in text:
        return StorageError(f"not allowed to write while {doing} {where}: {short_reason(error)}")
    return StorageError(f"{doing} {where} failed: {short_reason(error)}")


def short_reason(error: BaseException) -> str:
    """Lance's message without the Rust source position at its end and the body of an S3 answer.

    The body of a refused signature may quote credentials; its code says enough.
    """
    head, *body = _S3_BODY.split(str(error), maxsplit=1)
    code = _S3_CODE.search(body[0]) if body else None
    first = _RUST_POSITION.split(head.split("\n", 1)[0], maxsplit=1)[0].strip()
    return f"{first} {code[1]}" if code else first
