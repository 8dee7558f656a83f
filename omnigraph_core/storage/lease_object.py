"""A lease on object storage as it is seen: its record, its object, and whether it has run out.

How a lease is held, and why that is safe, is told in `lease`. Two clocks judge one that another
process holds. This machine's: it must have been seen unchanged for 1.25 times its life. And the
store's alone, by which a command that looks once tells the long dead.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from dataclasses import replace

from omnigraph_core import layout
from omnigraph_core.fields import Fields
from omnigraph_core.jsontext import parse_json
from omnigraph_core.records import dataclass
from omnigraph_core.storage.control import ControlStore, ObjectChanged, ObjectExists
from omnigraph_core.storage.failures import StorageFailure
from omnigraph_core.storage.limits import (
    LEASE_DEAD_AFTER_MIN_S,
    LEASE_DEAD_FACTOR,
    LEASE_TAKEOVER_FACTOR,
    LEASE_TTL_MAX_S,
)
from omnigraph_core.storage.locks import LockHolder

# No lock has this name: theirs begin with what they lock.
_CLOCK_NAME = "clock"
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_s() -> float:
    """Seconds on a clock of this machine that never goes back and, on Linux, does not stop in sleep."""
    return time.clock_gettime(_CLOCK)


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """The content of a lease; free when it has no holder. `owner` is one acquisition, `nonce` one write."""

    token: int
    owner: str
    ttl_s: float
    holder: LockHolder | None
    nonce: str

    def encode(self) -> bytes:
        fields = {
            "state": "held" if self.holder else "free",
            "token": self.token,
            "owner": self.owner,
            "nonce": self.nonce,
            "ttl_s": self.ttl_s,
            "holder": self.holder.as_json() if self.holder else None,
        }
        return json.dumps(fields).encode() + b"\n"

    def renewed(self) -> LeaseRecord:
        return replace(self, nonce=secrets.token_hex(8))

    def freed(self) -> LeaseRecord:
        return replace(self.renewed(), holder=None)


def decode_lease(content: bytes) -> LeaseRecord | None:
    """The record in a lease object; None when it holds none that can be read."""
    try:
        fields = Fields(parse_json(content))
        return LeaseRecord(
            token=fields.whole("token"),
            owner=fields.optional_text("owner") or "",
            ttl_s=fields.seconds("ttl_s"),
            holder=LockHolder.of(fields.optional_object("holder")),
            nonce=fields.optional_text("nonce") or "",
        )
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Seen:
    """A version of a lease as read from S3; a record of None cannot be read."""

    e_tag: str
    record: LeaseRecord | None
    modified_s: float | None = None

    @property
    def is_free(self) -> bool:
        return self.record is not None and self.record.holder is None

    def belongs_to(self, owner: str) -> bool:
        return self.record is not None and self.record.holder is not None and self.record.owner == owner


class StoreClock:
    """What time it is at the store, at least, by nothing but its own clock.

    Every object was written before now, so the time of the newest one is never ahead. From
    there on our own clock counts the seconds. Asked for once in the life of a process,
    and only if it meets a lease that somebody seems to hold.
    """

    def __init__(self, store: ControlStore) -> None:
        self._store = store
        self._known: tuple[float, float] | None = None
        self._guard = threading.Lock()

    def now_s(self) -> float | None:
        """Seconds; None when the store cannot be asked, and then nothing is old."""
        with self._guard:
            if self._known is None:
                self._known = self._ask()
            if self._known is None:
                return None
            store_s, own_s = self._known
            return store_s + now_s() - own_s

    def _ask(self) -> tuple[float, float] | None:
        path = f"{layout.LOCKS_DIR}/{_CLOCK_NAME}"
        try:
            self._store.put(path, secrets.token_hex(8).encode() + b"\n")
            found = self._store.get(path)
        except StorageFailure:
            return None
        return None if found is None or found.modified_s is None else (found.modified_s, now_s())


class LeaseWatch:
    """Since when each lease has had the e-tag it was last seen with. Safe between threads."""

    def __init__(self, ttl_s: float, clock: StoreClock, dead_after_s: float | None) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._dead_after_s = dead_after_s
        self._since: dict[str, tuple[str, float]] = {}
        self._guard = threading.Lock()

    def has_run_out(self, path: str, seen: Seen) -> bool:
        """Note what was seen just now; true if the same was seen long enough ago."""
        with self._guard:
            e_tag, since = self._since.get(path, ("", 0.0))
            if e_tag != seen.e_tag:
                self._since[path] = (seen.e_tag, now_s())
                return False
        return now_s() - since >= self._ttl_of(seen) * LEASE_TAKEOVER_FACTOR

    def is_long_dead(self, seen: Seen) -> bool:
        """Was it written so long ago that no holder can be behind it, by the clock of the store?"""
        now = self._clock.now_s()
        return now is not None and seen.modified_s is not None and now - seen.modified_s > self._limit_s(seen)

    def _limit_s(self, seen: Seen) -> float:
        if self._dead_after_s is not None:
            return max(self._dead_after_s, LEASE_TAKEOVER_FACTOR * self._ttl_of(seen))
        return max(LEASE_DEAD_AFTER_MIN_S, LEASE_DEAD_FACTOR * self._ttl_of(seen))

    def _ttl_of(self, seen: Seen) -> float:
        return min(seen.record.ttl_s, LEASE_TTL_MAX_S) if seen.record else self._ttl_s


class LeaseObject:
    """One lease on S3: reading, and writing on condition."""

    def __init__(self, store: ControlStore, path: str) -> None:
        self._store = store
        self.path = path

    def read(self) -> Seen | None:
        found = self._store.get(self.path)
        return Seen(found.e_tag, decode_lease(found.data), found.modified_s) if found is not None else None

    def write(self, record: LeaseRecord, over: str | None) -> str | None:
        """Write over the version with this e-tag (None: over nothing); None when a rival was faster."""
        try:
            if over is None:
                return self._store.create(self.path, record.encode())
            return self._store.replace(self.path, record.encode(), over)
        except (ObjectExists, ObjectChanged):
            return None
