"""Locks on S3: leases, one object per name in `__locks/`.

An object cannot be locked, but it can be replaced by exactly one of several rivals.
So a lock is an object that says who holds it, and that its holder replaces every
third of the `ttl` by one with a new nonce. Fault model and rules:

- No clock of ours is compared with another. A holder counts `ttl` from *before* the request
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
- A lease that ran out a moment ago cannot be told from a live one at first sight:
  whoever wants it has to watch it for 1.25 × `ttl`. What one lock object of a graph
  has seen counts for the others of the same process.
- But a command that looks once must be able to tell the long dead. So a lease is also
  judged by the clock of the store alone: by the time it was written against the time
  of something written now (`StoreClock`). One that is older than 10 × `ttl`, and
  than a minute, has missed thirty renewals, and its holder stopped counting on it nine
  `ttl` ago. The margin is for stores of several nodes, whose clocks differ and are
  set: a store whose clocks disagree by more than that may have a live lease taken over,
  which costs its holder the work and nobody the data (`check`, and the proofs below it).
- Releasing writes a free lease and keeps the token; removing the object starts the
  tokens again from 1. A lease that cannot be read goes on at the clock's
  microseconds, above every counted token.

S3 itself never looks at the token: a commit that was on its way when the lease was
lost may still land. The lease keeps rivals from wasting work; the proof is
elsewhere (`locks`).
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

from omnigraph_core import faults, layout
from omnigraph_core.errors import InternalError, StorageError
from omnigraph_core.ids import now_us
from omnigraph_core.storage.control import ControlStore
from omnigraph_core.storage.failures import StorageFailure, Unreachable
from omnigraph_core.storage.lease_object import (
    LeaseObject,
    LeaseRecord,
    LeaseWatch,
    Seen,
    StoreClock,
    now_s,
)
from omnigraph_core.storage.limits import LEASE_RENEWALS
from omnigraph_core.storage.locks import (
    Claim,
    HeldLocks,
    LockHolder,
    LockLost,
    LockTimeout,
    described,
    file_stem,
    in_lock_order,
    take_all,
    wait_until,
)
from omnigraph_core.waits import waiting_for

_POLL_FIRST_S = 0.02
_POLL_MAX_S = 0.5
_POLL_SHARE = 0.5  # Every look is a request.


class S3Locks:
    """The locks of a graph on S3; `store` should give up on a request well within `ttl_s`."""

    def __init__(
        self,
        store: ControlStore,
        *,
        actor: str,
        timeout_s: float,
        ttl_s: float,
        dead_after_s: float | None = None,
    ) -> None:
        self._store = store
        self._actor = actor
        self._timeout_s = timeout_s
        self._ttl_s = ttl_s
        self._watch = LeaseWatch(ttl_s, StoreClock(store), dead_after_s)

    def lock(self, name: str, *, doing: str = "", operation_id: str | None = None) -> Lease:
        return Lease(
            name,
            LeaseObject(self._store, _path(name)),
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
        """See `Locks.read_holder`. A holder that died is shown until its lease has been watched run out.

        Not by the store's clock: asking that writes.
        """
        path = _path(name)
        seen = LeaseObject(self._store, path).read()
        if seen is None or seen.record is None or self._watch.has_run_out(path, seen):
            return None
        return seen.record.holder

    def forget(self, name: str) -> None:
        self._store.delete(_path(name))


def _path(name: str) -> str:
    return f"{layout.LOCKS_DIR}/{file_stem(name)}.json"


class _Renewal:
    """A held lease: renews it in a background thread until stopped, lost or out of time.

    `until_s`, the end of our time, only moves when a renewal is known to have landed.
    """

    def __init__(self, lease: LeaseObject, record: LeaseRecord, e_tag: str, until_s: float) -> None:
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
        period_s = self.record.ttl_s / LEASE_RENEWALS
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


def _taken_by(seen: Seen | None) -> str:
    if seen is None:
        return "its lease was removed"
    if seen.record is None or seen.record.holder is None:
        return "its lease was replaced"
    return f"it was taken over by {seen.record.holder}"


class Lease:
    """A `Lock` on one lease object. Use one object from one thread; two objects exclude each other."""

    def __init__(
        self,
        name: str,
        lease: LeaseObject,
        watch: LeaseWatch,
        *,
        claim: Claim,
        timeout_s: float,
        ttl_s: float,
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
        pauses = {"pause_first_s": _POLL_FIRST_S, "pause_max_s": pause_max_s, "pause_share": _POLL_SHARE}
        with waiting_for(lambda: described(self._name, self._rival)):
            is_taken = wait_until(attempt, limit_s, **pauses)
        if is_taken:
            return self
        if unreachable is not None:
            raise unreachable
        raise LockTimeout(self._name, limit_s, self._rival)

    def acquire_within(self, most_s: float) -> bool:
        with suppress(LockTimeout):
            self.acquire(min(most_s, self._timeout_s))
        return self._held is not None

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

    def _may_take(self, seen: Seen | None) -> bool:
        """Free, ours (an earlier attempt landed unnoticed), watched until it ran out, or long dead."""
        if seen is None or seen.is_free or seen.belongs_to(self._owner):
            return True
        return self._watch.has_run_out(self._lease.path, seen) or self._watch.is_long_dead(seen)

    def _next_token(self, seen: Seen | None) -> int:
        if seen is None:
            return 1
        return seen.record.token + 1 if seen.record else now_us()
