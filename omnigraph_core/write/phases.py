"""The phases of a write, under the branch's lock.

Phase A writes the sidecar, phase B commits the tables, phase C publishes and records
the commit, phase D removes the sidecar. Three barriers make it durable: staged files
and sidecar before B, table manifests before C, publish and history before D.

Killed before A, a write leaves orphan files. Killed between A and the end of D, it
leaves the sidecar, and the next holder of the branch's lock finishes or undoes it.
"""

from __future__ import annotations

from omnigraph_core import faults, layout
from omnigraph_core.errors import OmnigraphError, said_if_interrupted
from omnigraph_core.history.commits import commits_ref, record_commit
from omnigraph_core.history.recoveries import RecoveryKind
from omnigraph_core.manifest.publisher import Publisher
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Lock, LockLost
from omnigraph_core.storage.failures import SyncFailed
from omnigraph_core.tables.commit import commit_exact
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.durability import Barrier, sync_manifests
from omnigraph_core.tables.held_tables import HeldTables
from omnigraph_core.tables.log_append import compact_log
from omnigraph_core.tables.refs import control_table
from omnigraph_core.write.ahead import Ahead
from omnigraph_core.write.plan import WritePlan
from omnigraph_core.write.promotion import promote_schema
from omnigraph_core.write.recovery import Recoverer
from omnigraph_core.write.sidecar import SidecarTaken, StoredSidecar, create_sidecar, forget_sidecar
from omnigraph_core.write.sidecar_record import Sidecar


@dataclass(frozen=True, slots=True)
class Published:
    """A write that is durable. `warnings` are things that went wrong without consequence."""

    commit_id: str | None
    snapshot: Snapshot
    warnings: tuple[str, ...] = ()


class Phases:
    """The phases of writes to one graph."""

    def __init__(self, manifest: Manifest, publisher: Publisher, recoverer: Recoverer) -> None:
        self.manifest, self.publisher, self.recoverer = manifest, publisher, recoverer
        self.tables = manifest.tables
        self.storage = manifest.tables.storage

    def record(self, sidecar: Sidecar) -> StoredSidecar:
        """Phase A."""
        faults.hit("recovery.sidecar_write")
        stored = create_sidecar(self.storage.control, sidecar)
        faults.hit("write.after_a")
        return stored

    def carry_out(
        self, plan: WritePlan, stored: StoredSidecar, lock: Lock, held: HeldTables, ahead: Ahead
    ) -> Published:
        """Phases B to D; a failure in between is settled at once."""
        unfinished = (
            f"the write is recorded in {stored.sidecar.path} and not finished; "
            "the next write or `omnigraph recovery run` finishes or undoes it"
        )
        try:
            with said_if_interrupted(unfinished):
                snapshot = self._phases_b_and_c(plan, stored.sidecar, lock, held, ahead)
        except LockLost:
            raise
        except OmnigraphError as error:
            return self._settle(stored, lock, error)
        commit_id = stored.sidecar.head.commit_id
        with said_if_interrupted(f"commit {commit_id} is made; the next write removes what is left over"):
            return Published(commit_id, snapshot, self._phase_d(stored, lock))

    def _phases_b_and_c(
        self, plan: WritePlan, sidecar: Sidecar, lock: Lock, held: HeldTables, ahead: Ahead
    ) -> Snapshot:
        barrier = Barrier(self.storage)
        made = f"commit {sidecar.head.commit_id} is made; the next write completes its record in the history"
        self._phase_b(plan, lock, held)
        snapshot = self.publisher.publish(sidecar.to_publish(), lock.check, barrier, ahead.publish)
        with said_if_interrupted(made):
            faults.hit("write.published")
            try:
                self._complete(plan, sidecar, snapshot, lock, held, ahead, barrier)
            except LockLost:
                # We slept. On object storage the publish is durable, and the next holder completes it.
                if self.storage.location.is_local:
                    raise
        return snapshot

    def _complete(
        self,
        plan: WritePlan,
        sidecar: Sidecar,
        snapshot: Snapshot,
        lock: Lock,
        held: HeldTables,
        ahead: Ahead,
        barrier: Barrier,
    ) -> None:
        """What follows from the publish: its record in the history, and the schema files."""
        if plan.makes_commit:
            version = snapshot.manifest_version
            record_commit(held, sidecar.head, snapshot.on, version, barrier, lock.check, ahead.history)
        self._compact(plan, lock, held, barrier)
        barrier.sync()
        faults.hit("write.after_c")
        promote_schema(self.storage.control, sidecar, lock.check)

    def _phase_b(self, plan: WritePlan, lock: Lock, held: HeldTables) -> None:
        committed: list[Table] = []
        for table in plan.tables:
            for staged in table.staged:
                committed.append(commit_exact(held, staged, lock.check))
                faults.hit(f"write.table_committed.{len(committed)}")
        sync_manifests(self.tables, committed)
        faults.hit("write.after_b")

    def _phase_d(self, stored: StoredSidecar, lock: Lock) -> tuple[str, ...]:
        """Failing here must not fail the write: it is durable, and the next one cleans up."""
        try:
            faults.hit("recovery.sidecar_delete")
            forget_sidecar(self.storage, stored, lock.check)
        except (LockLost, SidecarTaken):
            return ()  # We slept: whoever took over completes the write, and removes the sidecar.
        except OmnigraphError as error:
            return (f"the write is done, but {stored.sidecar.path} could not be removed: {error}",)
        faults.hit("write.after_d")
        return ()

    def _settle(self, stored: StoredSidecar, lock: Lock, error: OmnigraphError) -> Published:
        """A phase failed while we live: recover at once, so that the caller learns the outcome."""
        sidecar = stored.sidecar
        try:
            recovered = self.recoverer.recover(stored, lock, sync_failed=isinstance(error, SyncFailed))
        except OmnigraphError as second:
            error.hint = (
                f"the outcome is unknown: {sidecar.path} is kept, and the next write or "
                f"`omnigraph recovery run` finishes or undoes it ({second})"
            )
            raise error from second
        if recovered is None:
            error.hint = "another process settled this write in the meantime; see `omnigraph commit list`"
            raise error
        if recovered.recovery_kind is RecoveryKind.ROLLED_BACK:
            error.hint = f"nothing was changed; the rollback is commit {recovered.commit_id}"
            raise error
        snapshot = self.manifest.snapshot(sidecar.branch)
        warning = f"the write was finished by recovery after: {error}"
        return Published(sidecar.head.commit_id, snapshot, (warning,))

    def _compact(self, plan: WritePlan, lock: Lock, held: HeldTables, barrier: Barrier) -> None:
        """Keep our own datasets small; failing to is not this write's problem."""
        try:
            self.publisher.compact(plan.branch, plan.operation_id, lock.check, barrier)
            compact_log(held, commits_ref(plan.branch), plan.operation_id, barrier)
            compact_log(held, control_table(layout.COMMIT_ACTORS), plan.operation_id, barrier)
        except OmnigraphError:
            return
