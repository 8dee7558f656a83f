"""Named exclusive locks that hold between processes, threads and (on S3) machines.

`Lock` is what a `flock` and an S3 lease can both promise: exclusive, taken with a
deadline, able to say that it was lost, and numbered. The number, `token`, grows with
every acquisition of the same name, so whoever wrote with a smaller one is the older
holder. A lock keeps rivals from wasting work; it is never the proof that a commit
was exclusive.

Order: `refs`, then the others by the bytes of their names. Whoever takes several
takes them through `take_all`, so two processes never wait for each other.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from types import TracebackType
from typing import Protocol, Self

from omnigraph_core import layout
from omnigraph_core.errors import BusyError, InternalError, StorageError
from omnigraph_core.fields import Fields
from omnigraph_core.ids import now_us
from omnigraph_core.jsontext import parse_json
from omnigraph_core.records import dataclass
from omnigraph_core.storage.control import checked_path
from omnigraph_core.storage.limits import LOCK_NAME_BYTES_MAX, LOCK_TEXT_CHARACTERS_MAX

_POLL_FIRST_S = 0.001
_POLL_MAX_S = 0.05
_POLL_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who holds a lock and why; for people, never for a decision."""

    pid: int
    host: str
    actor: str
    doing: str
    operation_id: str | None
    since_us: int

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since_us / 1_000_000, timezone.utc)
        what = f" ({self.doing})" if self.doing else ""
        return f"{self.actor}{what}, pid {self.pid} on {self.host}, since {since:%Y-%m-%d %H:%M:%S} UTC"

    def as_json(self) -> Mapping[str, object]:
        return asdict(self)

    @classmethod
    def of(cls, fields: Fields | None) -> LockHolder | None:
        """The holder that a record names, if it names one; ValueError for what `as_json` would not write."""
        if fields is None:
            return None
        since = fields.moment("since_us")
        doing, operation_id = fields.optional_text("doing") or "", fields.optional_text("operation_id")
        return cls(fields.whole("pid"), fields.text("host"), fields.text("actor"), doing, operation_id, since)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a lock tells the others about its holder, once it is held."""

    actor: str
    doing: str
    operation_id: str | None

    def holder(self) -> LockHolder:
        """Texts are cut so that the record stays within one disk sector or two."""
        return LockHolder(
            pid=os.getpid(),
            host=socket.gethostname(),
            actor=self.actor[:LOCK_TEXT_CHARACTERS_MAX],
            doing=self.doing[:LOCK_TEXT_CHARACTERS_MAX],
            operation_id=self.operation_id,
            since_us=now_us(),
        )


def described(lock: str, holder: LockHolder | None) -> str:
    """What a process waits for that does not get this lock."""
    return f"the lock '{lock}', held by {holder or 'another process'}"


class LockTimeout(BusyError):
    """Another process held the lock for as long as we were willing to wait."""

    def __init__(self, lock: str, waited_s: float, holder: LockHolder | None) -> None:
        by = f"held by {holder}" if holder else "held by another process"
        super().__init__(
            f"the lock '{lock}' is {by}; gave up after {waited_s:.1f} s",
            hint="try again when it is done, or wait longer",
            field="lock_timeout",
        )
        self.lock = lock
        self.holder = holder

    def details(self) -> Mapping[str, object]:
        return {"lock": self.lock, "holder": self.holder.as_json() if self.holder else None}


class LockLost(StorageError):
    """A lock that we took is no longer ours: stop, and let recovery sort it out."""

    def __init__(self, lock: str, reason: str) -> None:
        super().__init__(
            f"the lock '{lock}' is no longer held: {reason}",
            hint="the next writing command recovers what was begun; look at `omnigraph status`",
        )
        self.lock = lock

    def details(self) -> Mapping[str, object]:
        return {"lock": self.lock}


class Lock(Protocol):
    """One name, taken at most once at a time. Leaving the `with` block releases it."""

    @property
    def name(self) -> str: ...

    @property
    def token(self) -> int:
        """The number of this acquisition, larger than all before; `LockLost` when not held."""

    @property
    def holder(self) -> LockHolder | None:
        """What we told the others about ourselves; None when not held."""

    def acquire(self, timeout_s: float | None = None) -> Self:
        """Wait for the lock (None: as long as settings say), or raise `LockTimeout`."""

    def acquire_within(self, most_s: float) -> bool:
        """Wait for the lock, so long at the most, and no longer than settings say; was it taken?"""

    def try_acquire(self) -> bool:
        """Take the lock if it is free, without waiting."""

    def check(self) -> None:
        """Raise `LockLost` unless the lock is still ours; called before each commit."""

    def release(self) -> None:
        """Give the lock back; nothing happens when it is not held."""

    def __enter__(self) -> Self:
        """Acquire it with the default timeout, unless it is held already."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class HeldLocks:
    """Several locks taken in order; leaving the `with` block releases them in reverse."""

    locks: tuple[Lock, ...]

    def check(self) -> None:
        for lock in self.locks:
            lock.check()

    def token(self, name: str) -> int:
        """The token of the lock with this name, which must be among these."""
        return next(lock.token for lock in self.locks if lock.name == name)

    def release(self) -> None:
        for lock in reversed(self.locks):
            lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Locks(Protocol):
    """The locks of one graph."""

    def lock(self, name: str, *, doing: str = "", operation_id: str | None = None) -> Lock:
        """A lock, not taken yet; `doing` and the operation are shown to those who wait."""

    def lock_all(
        self,
        names: Iterable[str],
        timeout_s: float | None = None,
        *,
        doing: str = "",
        operation_id: str | None = None,
    ) -> HeldLocks:
        """Take all of them in the fixed order within one timeout, or none."""

    def read_holder(self, name: str) -> LockHolder | None:
        """Who holds the lock now, None when it is free. Creates nothing."""

    def forget(self, name: str) -> None:
        """Remove the trace of a lock that nobody will ever take again; its token is lost with it."""


def in_lock_order(names: Iterable[str]) -> list[str]:
    """The distinct names in the one order in which locks may be taken."""
    return sorted(set(names), key=lambda name: (name != layout.REFS_LOCK, name.encode("utf-8")))


def take_all(locks: Sequence[Lock], timeout_s: float) -> HeldLocks:
    """Acquire locks that are already in order; a failure releases those taken before it."""
    deadline = time.monotonic() + timeout_s
    taken: list[Lock] = []
    try:
        for lock in locks:
            lock.acquire(max(0.0, deadline - time.monotonic()))
            taken.append(lock)
    except BaseException:
        HeldLocks(tuple(taken)).release()
        raise
    return HeldLocks(tuple(taken))


def file_stem(name: str) -> str:
    """A lock's name as the name of a file or key, without an ending.

    Long branch names are cut and told apart by a hash; file names end at 255 bytes.
    """
    if "/" in checked_path(name):
        raise InternalError(f"a lock's name cannot contain a slash: {name!r}")
    encoded = name.encode("utf-8")
    if len(encoded) <= LOCK_NAME_BYTES_MAX:
        return name
    return encoded[:100].decode("utf-8", "ignore") + "~" + hashlib.sha256(encoded).hexdigest()


def wait_until(
    attempt: Callable[[], bool],
    timeout_s: float,
    *,
    pause_first_s: float = _POLL_FIRST_S,
    pause_max_s: float = _POLL_MAX_S,
    pause_share: float = _POLL_SHARE,
) -> bool:
    """Call `attempt` until it is true or the time is over; at least once.

    The pauses are a share of the time that was waited, within limits, and are shuffled, so
    that many waiters do not march in step. A pause is what a lock lies idle for when it is
    released: a small part of the wait, whether that is milliseconds or minutes.
    """
    start = time.monotonic()
    while not attempt():
        waited = time.monotonic() - start
        if waited >= timeout_s:
            return False
        pause = min(max(pause_first_s, waited * pause_share), pause_max_s)
        time.sleep(min(timeout_s - waited, pause * random.uniform(0.5, 1.0)))
    return True


@dataclass(frozen=True, slots=True)
class LockRecord:
    """The content of a lock file or lease: the last token given out, and to whom."""

    token: int
    holder: LockHolder | None

    def encode(self) -> bytes:
        """One line of JSON, so that leftovers of a longer one behind it are ignored."""
        holder = self.holder.as_json() if self.holder else None
        return json.dumps({"token": self.token, "holder": holder}).encode() + b"\n"


def decode_record(content: bytes) -> LockRecord | None:
    """The record in a lock file; None when it holds none that can be read."""
    line, newline, _ = content.partition(b"\n")
    if not newline:
        return None
    try:
        fields = Fields(parse_json(line))
        return LockRecord(fields.whole("token"), LockHolder.of(fields.optional_object("holder")))
    except ValueError:
        return None
