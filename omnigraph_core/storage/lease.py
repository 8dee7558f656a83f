"""Locks on S3: leases, one object per name in `__locks/`.

An object cannot be locked, but it can be replaced by exactly one of several rivals.
So a lock is an object that says who holds it, and that its holder replaces every
third of the `ttl` by one with a new nonce. Fault model and rules:

- No clock is compared with another. A holder counts `ttl` from *before* the request
  of its last successful renewal; a rival counts 1.25 × `ttl` (the holder's, from the
  object) from *after* it first saw an e-tag, and takes over only if the e-tag is
  still the same. As long as clocks run at about the same speed, the holder has
  stopped before the rival starts. The clock goes on while the machine sleeps.
- A holder past its time has lost the lock for good, even if nobody took it over:
  a stopped or starved process notices in `check`, before it commits. `check` also
  reads the object, so a holder whose lease was replaced or removed notices, too.
- Every acquisition has an owner id, every write a nonce. So a request that landed
  although its answer was lost, or that lands late, is recognised as ours.
- A holder that cannot reach S3 keeps trying until its time is over.
- A dead holder's lease cannot be told from a live one's at first sight: whoever
  wants it has to watch it for 1.25 × `ttl`. What one lock object of a graph has
  seen counts for the others of the same process.
- Releasing writes a free lease and keeps the token; removing the object starts the
  tokens again from 1. A lease that cannot be read goes on at the clock's
  microseconds, above every counted token.

S3 itself never looks at the token: a commit that was on its way when the lease was
lost may still land. The lease keeps rivals from wasting work; the proof is
elsewhere (`locks`).
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

from omnigraph_core import faults, layout
from omnigraph_core.errors import InternalError, StorageError
from omnigraph_core.ids import now_us
from omnigraph_core.records import dataclass
from omnigraph_core.storage.control import ControlStore, ObjectChanged, ObjectExists
from omnigraph_core.storage.failures import StorageFailure, Unreachable
from omnigraph_core.storage.locks import (
    Claim,
    HeldLocks,
    LockHolder,
    LockLost,
    LockTimeout,
    file_stem,
    in_lock_order,
    take_all,
    wait_until,
)

RENEWALS_PER_TTL = 3
TAKEOVER_FACTOR = 1.25
_TTL_MAX_S = 3600.0
_POLL_FIRST_S = 0.02
_POLL_MAX_S = 0.5


def now_s() -> float:
    """Seconds on a clock of this machine that never goes back and, on Linux, does not stop in sleep."""
    return time.clock_gettime(_CLOCK)


_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


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
        fields = json.loads(content)
        holder = fields["holder"]
        return LeaseRecord(
            token=int(fields["token"]),
            owner=str(fields["owner"]),
            ttl_s=float(fields["ttl_s"]),
            holder=LockHolder(**holder) if holder else None,
            nonce=str(fields["nonce"]),
        )
    except (ValueError, TypeError, KeyError):
        return None


@dataclass(frozen=True, slots=True)
class _Seen:
    """A version of a lease as read from S3; a record of None cannot be read."""

    e_tag: str
    record: LeaseRecord | None

    @property
    def is_free(self) -> bool:
        return self.record is not None and self.record.holder is None

    def belongs_to(self, owner: str) -> bool:
        return self.record is not None and self.record.holder is not None and self.record.owner == owner


class S3Locks:
    """The locks of a graph on S3; `store` should give up on a request well within `ttl_s`."""

    def __init__(self, store: ControlStore, *, actor: str, timeout_s: float, ttl_s: float) -> None:
        self._store = store
        self._actor = actor
        self._timeout_s = timeout_s
        self._ttl_s = ttl_s
        self._watch = _Watch(ttl_s)

    def lock(self, name: str, *, doing: str = "", operation_id: str | None = None) -> Lease:
        return Lease(
            name,
            _LeaseObject(self._store, _path(name)),
            self._watch,
            claim=Claim(self._actor, doing, operation_id),
            timeout_s=self._timeout_s,
            ttl_s=self._ttl_s,
        )

    def lock_all(
        self,
        names: Iterable[str],
        timeout_s: float | None = None,
        *,
        doing: str = "",
        operation_id: str | None = None,
    ) -> HeldLocks:
        locks = [self.lock(name, doing=doing, operation_id=operation_id) for name in in_lock_order(names)]
        return take_all(locks, self._timeout_s if timeout_s is None else timeout_s)

    def read_holder(self, name: str) -> LockHolder | None:
        """See `Locks.read_holder`. A holder that died is shown until its lease has been watched run out."""
        path = _path(name)
        seen = _LeaseObject(self._store, path).read()
        if seen is None or seen.record is None or self._watch.has_run_out(path, seen):
            return None
        return seen.record.holder

    def forget(self, name: str) -> None:
        self._store.delete(_path(name))


def _path(name: str) -> str:
    return f"{layout.LOCKS_DIR}/{file_stem(name)}.json"


class _Watch:
    """Since when each lease has had the e-tag it was last seen with. Safe between threads."""

    def __init__(self, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._since: dict[str, tuple[str, float]] = {}
        self._guard = threading.Lock()

    def has_run_out(self, path: str, seen: _Seen) -> bool:
        """Note what was seen just now; true if the same was seen long enough ago."""
        ttl_s = min(seen.record.ttl_s, _TTL_MAX_S) if seen.record else self._ttl_s
        with self._guard:
            e_tag, since = self._since.get(path, ("", 0.0))
            if e_tag != seen.e_tag:
                self._since[path] = (seen.e_tag, now_s())
                return False
        return now_s() - since >= ttl_s * TAKEOVER_FACTOR


class _LeaseObject:
    """One lease on S3: reading, and writing on condition."""

    def __init__(self, store: ControlStore, path: str) -> None:
        self._store = store
        self.path = path

    def read(self) -> _Seen | None:
        found = self._store.get(self.path)
        return _Seen(found.e_tag, decode_lease(found.data)) if found is not None else None

    def write(self, record: LeaseRecord, over: str | None) -> str | None:
        """Write over the version with this e-tag (None: over nothing); None when a rival was faster."""
        try:
            if over is None:
                return self._store.create(self.path, record.encode())
            return self._store.replace(self.path, record.encode(), over)
        except (ObjectExists, ObjectChanged):
            return None


class _Renewal:
    """A held lease: renews it in a background thread until stopped, lost or out of time.

    `until_s`, the end of our time, only moves when a renewal is known to have landed.
    """

    def __init__(self, lease: _LeaseObject, record: LeaseRecord, e_tag: str, until_s: float) -> None:
        self.record = record
        self.pid = os.getpid()
        self._lease = lease
        self._e_tag = e_tag
        self._until_s = until_s
        self._lost_because: str | None = None
        self._last_failure = ""
        self._guard = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"omnigraph-lease {lease.path}", daemon=True)
        self._thread.start()

    def check(self, name: str) -> None:
        if self.pid != os.getpid():
            raise LockLost(name, "it belongs to the process that forked this one")
        self._raise_if_lost(name)
        seen = self._lease.read()
        if seen is None or not seen.belongs_to(self.record.owner):
            self._lose(_taken_by(seen))
        self._raise_if_lost(name)

    def stop(self) -> None:
        """Let the thread end; it finishes the request it is in."""
        self._stopped.set()
        if self.pid == os.getpid() and self._thread is not threading.current_thread():
            self._thread.join()

    def free(self) -> None:
        """Write the free lease over ours, whatever its nonce is by now. Needs a stopped thread."""
        if self._lease.write(self.record.freed(), self._e_tag) is not None:
            return
        seen = self._lease.read()
        if seen is not None and seen.belongs_to(self.record.owner):
            self._lease.write(self.record.freed(), seen.e_tag)

    def _run(self) -> None:
        period_s = self.record.ttl_s / RENEWALS_PER_TTL
        pause_s = period_s
        while not self._stopped.wait(pause_s) and not self._is_lost():
            try:
                landed = self._renew()
            except StorageError as failure:
                self._last_failure, landed = f" ({failure})", False
            pause_s = period_s if landed else period_s / 4

    def _renew(self) -> bool:
        """One renewal; false when it did not land, and an error when nobody knows."""
        faults.hit("lease.renew")
        started_s = now_s()
        e_tag = self._lease.write(self.record.renewed(), self._e_tag)
        if e_tag is None:
            seen = self._lease.read()
            if seen is None or not seen.belongs_to(self.record.owner):
                self._lose(_taken_by(seen))
            else:
                # An earlier renewal of ours has landed late; the next one goes over it.
                self._e_tag = seen.e_tag
            return False
        self._e_tag = e_tag
        with self._guard:
            if now_s() < self._until_s:
                self._until_s = started_s + self.record.ttl_s
        self._last_failure = ""
        return True

    def _is_lost(self) -> bool:
        with self._guard:
            if self._lost_because is None and now_s() >= self._until_s:
                ttl_s = self.record.ttl_s
                self._lost_because = f"it was not renewed within {ttl_s:g} s{self._last_failure}"
            return self._lost_because is not None

    def _lose(self, reason: str) -> None:
        with self._guard:
            self._lost_because = self._lost_because or reason

    def _raise_if_lost(self, name: str) -> None:
        if self._is_lost():
            raise LockLost(name, self._lost_because or "")


def _taken_by(seen: _Seen | None) -> str:
    if seen is None:
        return "its lease was removed"
    if seen.record is None or seen.record.holder is None:
        return "its lease was replaced"
    return f"it was taken over by {seen.record.holder}"


class Lease:
    """A `Lock` on one lease object. Use one object from one thread; two objects exclude each other."""

    def __init__(
        self, name: str, lease: _LeaseObject, watch: _Watch, *, claim: Claim, timeout_s: float, ttl_s: float
    ) -> None:
        self._name = name
        self._lease = lease
        self._watch = watch
        self._claim = claim
        self._timeout_s = timeout_s
        self._ttl_s = ttl_s
        self._owner = secrets.token_hex(16)
        self._rival: LockHolder | None = None
        self._held: _Renewal | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def token(self) -> int:
        if self._held is None:
            raise LockLost(self._name, "it was not taken")
        return self._held.record.token

    @property
    def holder(self) -> LockHolder | None:
        return self._held.record.holder if self._held else None

    def acquire(self, timeout_s: float | None = None) -> Self:
        """See `Lock.acquire`. While S3 cannot be reached, the time runs as if the lock were taken."""
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        unreachable: Unreachable | None = None

        def attempt() -> bool:
            nonlocal unreachable
            try:
                taken, unreachable = self.try_acquire(), None
            except Unreachable as failure:
                taken, unreachable = False, failure
            return taken

        pause_max_s = min(_POLL_MAX_S, self._ttl_s / 10)
        if wait_until(attempt, limit_s, pause_first_s=_POLL_FIRST_S, pause_max_s=pause_max_s):
            return self
        if unreachable is not None:
            raise unreachable
        raise LockTimeout(self._name, limit_s, self._rival)

    def try_acquire(self) -> bool:
        if self._held is not None:
            raise InternalError(f"the lock '{self._name}' is taken twice through one object")
        seen = self._lease.read()
        if not self._may_take(seen):
            self._rival = seen.record.holder if seen and seen.record else None
            return False
        started_s = now_s()
        record = LeaseRecord(
            token=self._next_token(seen),
            owner=self._owner,
            ttl_s=self._ttl_s,
            holder=self._claim.holder(),
            nonce=secrets.token_hex(8),
        )
        e_tag = self._lease.write(record, over=seen.e_tag if seen else None)
        if e_tag is None:
            return False
        self._held = _Renewal(self._lease, record, e_tag, until_s=started_s + self._ttl_s)
        faults.hit("lock.acquired")
        return True

    def check(self) -> None:
        if self._held is None:
            raise LockLost(self._name, "it was not taken")
        self._held.check(self._name)

    def release(self) -> None:
        held, self._held = self._held, None
        if held is None:
            return
        self._owner = secrets.token_hex(16)
        if held.pid != os.getpid():
            return
        held.stop()
        # Unreachable: the lease runs out by itself.
        with suppress(StorageFailure):
            held.free()

    def __enter__(self) -> Self:
        return self if self._held is not None else self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _may_take(self, seen: _Seen | None) -> bool:
        """Free, ours (an earlier attempt landed unnoticed), or watched until it ran out."""
        if seen is None or seen.is_free or seen.belongs_to(self._owner):
            return True
        return self._watch.has_run_out(self._lease.path, seen)

    def _next_token(self, seen: _Seen | None) -> int:
        if seen is None:
            return 1
        return seen.record.token + 1 if seen.record else now_us()
