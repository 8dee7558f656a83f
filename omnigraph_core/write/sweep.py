"""Finding sidecars of dead writers, and having them recovered.

A sidecar whose branch lock can be taken belongs to a dead process: its writer holds
that lock from before the file exists until after it is gone. So a sweep tries each
lock without waiting and leaves live writers alone; it never waits for anybody and
holds nothing else while it tries.
"""

from __future__ import annotations

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Lock, LockTimeout, Storage
from omnigraph_core.write.pending import pending_operations
from omnigraph_core.write.recovery import Recovered, Recoverer
from omnigraph_core.write.sidecar import Sidecar, read_sidecar


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What was recovered, and which operations somebody else is still at work on."""

    recovered: tuple[Recovered, ...]
    live: tuple[str, ...]


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
        for operation_id in self.pending():
            sidecar = read_sidecar(self._storage.control, operation_id)
            if sidecar is None:
                continue
            lock = self._storage.locks.lock(
                self._lock_name(sidecar), doing="recovery", operation_id=operation_id
            )
            if not _taken(lock, patient=patient):
                live.append(operation_id)
                continue
            with lock:
                recovered += self._recover(operation_id, lock)
        return SweepReport(tuple(recovered), tuple(live))

    def heal(self, branch: str, lock: Lock) -> list[Recovered]:
        """Recover the sidecars of one branch, whose lock the caller holds."""
        recovered: list[Recovered] = []
        for operation_id in self.pending():
            sidecar = read_sidecar(self._storage.control, operation_id)
            if sidecar is not None and self._lock_name(sidecar) == layout.branch_lock(branch):
                recovered += self._recover(operation_id, lock)
        return recovered

    def _recover(self, operation_id: str, lock: Lock) -> list[Recovered]:
        """Read again under the lock: the writer may have finished while we waited for it."""
        sidecar = read_sidecar(self._storage.control, operation_id)
        if sidecar is None:
            return []
        if self._branch_is_gone(sidecar):
            if lock.name != layout.branch_lock(layout.MAIN_BRANCH):
                return []
            return [self._recoverer.discard(sidecar, lock)]
        return [self._recoverer.recover(sidecar, lock)]

    def _lock_name(self, sidecar: Sidecar) -> str:
        """The branch's lock; main's for a branch that is gone, because main records it."""
        gone = self._branch_is_gone(sidecar)
        return layout.branch_lock(layout.MAIN_BRANCH if gone else sidecar.branch)

    def _branch_is_gone(self, sidecar: Sidecar) -> bool:
        """Also when another branch has taken its name: identities differ."""
        try:
            return self._manifest.branch_identity(sidecar.branch) != sidecar.branch_identity
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
