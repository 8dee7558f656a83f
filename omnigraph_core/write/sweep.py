"""Finding sidecars of dead writers, and having them recovered.

A sidecar whose branch lock can be taken belongs to a dead process: its writer holds
that lock from before the file exists until after it is gone. So a sweep tries each
lock without waiting and leaves live writers alone; it never waits for anybody and
holds nothing else while it tries.
"""

from __future__ import annotations

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError, StorageError
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Lock, LockTimeout, Storage
from omnigraph_core.write.pending import pending_operations
from omnigraph_core.write.recovery import Recovered, Recoverer
from omnigraph_core.write.sidecar import SidecarTaken, StoredSidecar, read_stored
from omnigraph_core.write.sidecar_record import Sidecar, SidecarUnreadable


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What was recovered, and which operations other processes are still at work on."""

    recovered: tuple[Recovered, ...]
    live: tuple[str, ...]
    unreadable: tuple[SidecarUnreadable, ...] = ()
    """Those that cannot be read, and are of one branch only: the others can be written to."""


class Sweeper:
    """Sweeps the sidecars of one graph."""

    def __init__(self, storage: Storage, manifest: Manifest, recoverer: Recoverer) -> None:
        self._storage = storage
        self._manifest = manifest
        self._recoverer = recoverer

    def pending(self) -> list[str]:
        """Operation ids of all sidecars."""
        return pending_operations(self._storage.control)

    def sweep(self, *, patient: bool = False) -> SweepReport:
        """Recover everything that is recoverable now. Holds no lock on entry.

        A patient sweep waits as a writer would: a dead writer's lease on object storage
        can only be taken after it has been watched run out.
        """
        recovered: list[Recovered] = []
        live: list[str] = []
        unreadable: list[SidecarUnreadable] = []
        for operation_id in self.pending():
            try:
                stored = self._unsettled(operation_id)
            except SidecarUnreadable as error:
                if self._branch_of(error) is None:
                    raise
                unreadable.append(error)
                continue
            if stored is None:
                continue
            lock = self._storage.locks.lock(
                self._lock_name(stored.sidecar), doing="recovery", operation_id=operation_id
            )
            if not _taken(lock, patient=patient):
                live.append(operation_id)
                continue
            with lock:
                recovered += self._recover(operation_id, lock)
        return SweepReport(tuple(recovered), tuple(live), tuple(unreadable))

    def heal(self, branch: str, lock: Lock) -> list[Recovered]:
        """Recover the sidecars of one branch, whose lock the caller holds."""
        recovered: list[Recovered] = []
        for operation_id in self.pending():
            try:
                stored = self._unsettled(operation_id)
            except SidecarUnreadable as error:
                if self._branch_of(error) in (None, branch):
                    raise
                continue
            if stored is not None and self._lock_name(stored.sidecar) == layout.branch_lock(branch):
                recovered += self._recover(operation_id, lock)
        return recovered

    def _recover(self, operation_id: str, lock: Lock) -> list[Recovered]:
        """Read again under the lock: the writer may have finished while we waited for it.

        On object storage it may even do so now, if it only had to remove the sidecar. Then
        there is nothing to recover; in any other case the sidecar is another writer's.
        """
        stored = self._unsettled(operation_id)
        if stored is None:
            return []
        is_gone = self._branch_is_gone(stored.sidecar)
        if is_gone and lock.name != layout.branch_lock(layout.MAIN_BRANCH):
            return []
        act = self._recoverer.discard if is_gone else self._recoverer.recover
        try:
            done = act(stored, lock)
        except SidecarTaken:
            lock.check()
            if self._unsettled(operation_id) is not None:
                raise
            return []
        return [] if done is None else [done]

    def _unsettled(self, operation_id: str) -> StoredSidecar | None:
        """The sidecar, if there is something to do about it; one that is settled is deleted."""
        stored = read_stored(self._storage.control, operation_id)
        if stored is not None and stored.sidecar.settled:
            self._storage.control.delete(stored.sidecar.path)
            return None
        return stored

    def _branch_of(self, error: SidecarUnreadable) -> str | None:
        """The one branch that a sidecar concerns although it cannot be read; None if nobody can tell.

        It has to name a live branch by its identity, which damage does not make up.
        """
        try:
            is_live = error.claims is not None and self._manifest.branch(error.claims.name) == error.claims
        except (NotFoundError, StorageError):
            return None
        return error.claims.name if is_live and error.claims is not None else None

    def _lock_name(self, sidecar: Sidecar) -> str:
        """The branch's lock; main's for a branch that is gone, because main records it."""
        gone = self._branch_is_gone(sidecar)
        return layout.branch_lock(layout.MAIN_BRANCH if gone else sidecar.branch)

    def _branch_is_gone(self, sidecar: Sidecar) -> bool:
        """Also when another branch has taken its name: identities differ."""
        try:
            return self._manifest.branch(sidecar.branch) != sidecar.on
        except NotFoundError:
            return True


def _taken(lock: Lock, *, patient: bool) -> bool:
    if not patient:
        return lock.try_acquire()
    try:
        lock.acquire()
    except LockTimeout:
        return False
    return True
