"""The root of every error OmniGraph raises on purpose, and the ten kinds there are.

A kind is what a caller can act on: the command line maps it to an exit code, a
script to a retry. Specific errors live beside the code that raises them and
subclass one of the kinds below; they carry their facts as attributes and repeat
them in `details()` so that machine output never has to parse a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import ClassVar


class ErrorKind(StrEnum):
    """The one-word `code` of a failure, stable across releases."""

    USAGE = "usage"
    CONFLICT = "conflict"
    PRECONDITION = "precondition"
    REFUSED = "refused"
    NOT_FOUND = "not_found"
    BAD_DATA = "bad_data"
    BUSY = "busy"
    LIMIT = "limit"
    INTERNAL = "internal"
    STORAGE = "storage"


class OmnigraphError(Exception):
    """An expected failure: what happened, and (in `hint`) what to do about it.

    `field` names the argument at fault, or the one the hint says to use, as the library calls
    it (`out`, `spark.master`). The core knows no options; a front end words its own from `field`.
    """

    kind: ClassVar[ErrorKind] = ErrorKind.INTERNAL
    retryable: ClassVar[bool] = False
    has_lines: ClassVar[bool] = False
    """Is the message made of lines? What stands in them is made safe where it is put in."""

    def __init__(self, message: str, *, hint: str | None = None, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.field = field

    def details(self) -> Mapping[str, object]:
        """Facts for machine output, JSON-ready; keys are part of the interface."""
        return {}

    def __str__(self) -> str:
        return self.message


class UsageError(OmnigraphError):
    """The caller asked in a way that can never work."""

    kind = ErrorKind.USAGE


class ConflictError(OmnigraphError):
    """Somebody else's committed state is in the way."""

    kind = ErrorKind.CONFLICT


class PreconditionError(OmnigraphError):
    """The head the caller named is not the head any more."""

    kind = ErrorKind.PRECONDITION


class RefusedError(OmnigraphError):
    """Possible, but protected by a rule."""

    kind = ErrorKind.REFUSED


class NotFoundError(OmnigraphError):
    """A graph, branch, commit, query or entity does not exist."""

    kind = ErrorKind.NOT_FOUND


class BadDataError(OmnigraphError):
    """Source text or records break a rule of their language or schema."""

    kind = ErrorKind.BAD_DATA


class BusyError(OmnigraphError):
    """Somebody else is at work; nothing was changed and trying again is safe."""

    kind = ErrorKind.BUSY
    retryable = True


class LimitError(OmnigraphError):
    """A bound on time, memory, size or rejects was hit."""

    kind = ErrorKind.LIMIT


class InternalError(OmnigraphError):
    """A broken invariant of our own."""

    kind = ErrorKind.INTERNAL


class StorageError(OmnigraphError):
    """The place where the graph lives failed, or holds something it should not."""

    kind = ErrorKind.STORAGE


@contextmanager
def said_if_interrupted(text: str) -> Iterator[None]:
    """Let Ctrl-C inside carry a note of what is done and what is not; the innermost note counts."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        if not getattr(interrupt, "__notes__", None):
            interrupt.add_note(text)
        raise
