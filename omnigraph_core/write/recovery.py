"""Recovery: finish or undo one write whose process is gone, and say so in the history.

Runs under the lock of the write's branch. Decides by identity:

- its audit row is there, or its commit with others on top: it has had its day, and only
  the sidecar is back (see `sidecar`). Remove it.
- the manifest carries its commit: *published*. Complete what the writer owed to the
  history, then add a recovery commit.
- every table has moved by exactly its transactions, and all files are whole: roll
  *forward*, by publishing what the sidecar says.
- anything else: roll *back*. Moved tables are restored to what is published, forks to
  where they began, tables that only this write knew of are removed, and one publish
  makes manifest = HEAD again.

Fault model: recovery itself may die anywhere, and is then repeated by the next. The
decision is in the sidecar before anything is done, and what it rests on is safe before
that; restores name what they undo; the commit ids are the sidecar's; rows are added if
absent. So the repetition does the same and records it once. On object storage it may also
sleep past its lease anywhere: what it does next is on condition (see `case`), and fails.

What another process wrote may have been synced, or not, or in vain: only the process that
called fsync knows. So what recovery builds on is written anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from omnigraph_core import faults, layout
from omnigraph_core.errors import InternalError, StorageError
from omnigraph_core.history.commits import complete_commit
from omnigraph_core.history.recoveries import (
    Recovery,
    RecoveryKind,
    TableOutcome,
    record_recovery,
    renew_recoveries,
)
from omnigraph_core.history.settle import settle_torn
from omnigraph_core.history.travel import snapshot_at
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.branch import MAIN, Branch
from omnigraph_core.manifest.publisher import Publisher
from omnigraph_core.manifest.reader import Manifest, manifest_ref
from omnigraph_core.manifest.request import HeadChanged, Update
from omnigraph_core.manifest.rows import Outcome, VersionMetadata
from omnigraph_core.manifest.snapshot import ManifestState, Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Lock
from omnigraph_core.tables.commit import commit_exact, stage_restore, transaction_properties
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import manifest_path, sync_files, version_files, write_anew
from omnigraph_core.tables.staged import OPERATION_PROPERTY
from omnigraph_core.tables.torn import set_aside_torn, versions_on_disk
from omnigraph_core.write.case import RecoveryCase
from omnigraph_core.write.classify import Finding, TableClass, is_undone
from omnigraph_core.write.decide import decide, examined, is_audited, is_published, past_commits
from omnigraph_core.write.limits import FENCE_ATTEMPTS_MAX
from omnigraph_core.write.promotion import promote_schema
from omnigraph_core.write.sidecar import StoredSidecar, forget_sidecar, write_decision
from omnigraph_core.write.sidecar_record import DecisionKind, Sidecar

# What one write adds to the manifest: its publish, perhaps a rewrite, the publish of its recovery.
_MANIFEST_VERSIONS_MAX = 3


@dataclass(frozen=True, slots=True)
class Recovered:
    """What one recovery did."""

    operation_id: str
    branch: str
    recovery_kind: RecoveryKind
    commit_id: str
    outcomes: tuple[TableOutcome, ...]


class Recoverer:
    """Recovers sidecars of one graph; the caller holds the lock it passes."""

    def __init__(self, tables: Tables, manifest: Manifest, publisher: Publisher) -> None:
        self._tables = tables
        self._storage = tables.storage
        self._manifest = manifest
        self._publisher = publisher

    def recover(self, stored: StoredSidecar, lock: Lock, *, sync_failed: bool = False) -> Recovered | None:
        """Settle a write of a branch that still exists; None if it turns out to be settled already.

        `sync_failed` when that is how it ended: what it wrote may be lost although every
        read shows it, and a second sync would prove nothing. So it is rolled back, or, once
        published, written anew.
        """
        sidecar = stored.sidecar
        case = self._opened(stored, lock, sidecar.on)
        if case is None:
            return None
        case = self._decided(self._fenced(case), sync_failed=sync_failed)
        faults.hit("recovery.decided")
        decision = case.decision
        if sidecar.decision is not None:
            self._renew_publish(case)
        acts: dict[DecisionKind, Callable[[RecoveryCase], Snapshot]] = {
            DecisionKind.PUBLISHED: self._complete,
            DecisionKind.ROLL_FORWARD: self._roll_forward,
            DecisionKind.ROLL_BACK: self._roll_back,
        }
        snapshot = acts[decision.kind](case)
        if decision.kind is not DecisionKind.ROLL_BACK:
            promote_schema(self._storage.control, sidecar, lock.check)
        done = self._record(case, snapshot, _recovery_kind(decision.kind), decision.outcomes)
        self._forget(case.stored, lock)
        return done

    def discard(self, stored: StoredSidecar, lock: Lock) -> Recovered | None:
        """Drop the sidecar of a branch that is gone; recorded on main, whose lock the caller holds."""
        case = self._opened(stored, lock, MAIN)
        if case is None:
            return None
        done = self._record(case, self._publish_commit(case), RecoveryKind.BRANCH_DISCARDED, ())
        self._forget(stored, lock)
        return done

    def _opened(self, stored: StoredSidecar, lock: Lock, branch: Branch) -> RecoveryCase | None:
        """The case, or None when it had been settled before: acting on it once more would publish
        its commit id for the second time."""
        sidecar = stored.sidecar
        base = sidecar.base_manifest_version if branch == sidecar.on else None
        state = self._state(branch, lock, base)
        settle_torn(self._tables, self._manifest, branch.name, lock.check)
        if is_audited(self._tables, sidecar):
            # Whoever wrote the row may have died before he synced it.
            renew_recoveries(self._tables)
            self._forget(stored, lock)
            return None
        case = RecoveryCase(sidecar, stored.e_tag, state, lock, branch)
        past = past_commits(self._manifest, case)
        recovery = past.get(sidecar.recorded_as)
        if recovery is not None and sidecar.decision is not None:
            at = snapshot_at(self._manifest, recovery)
            self._record(case, at, _recovery_kind(sidecar.decision.kind), sidecar.decision.outcomes)
        done = sidecar.makes_commit and sidecar.decision is None and sidecar.head.commit_id in past
        if recovery is None and not done:
            return case
        self._forget(stored, lock)
        return None

    def _state(self, branch: Branch, lock: Lock, base: int | None = None) -> ManifestState:
        """The manifest now; what a power cut tore of it is set aside first.

        A write may add two versions to the manifest before it syncs both. When the newer one
        survives and the older does not, HEAD can be read, and still is not to be built on.
        """
        if base is not None:
            self._publisher.set_aside_torn_above(branch.name, base, _MANIFEST_VERSIONS_MAX, lock.check)
        try:
            return self._manifest.state_of(self._manifest.open(branch.name), branch)
        except StorageError:
            if not self._publisher.set_aside_torn(branch.name, lock.check):
                raise
            return self._manifest.state_of(self._manifest.open(branch.name), branch)

    def _fenced(self, case: RecoveryCase) -> RecoveryCase:
        """On object storage the dead writer may only be slow: change the head row under its feet.

        Its publish expects the token it saw; from here on it cannot land. Until here it can,
        and then the head row it wrote is the one to change.
        """
        if self._storage.location.is_local:
            return case
        for attempt in range(1, FENCE_ATTEMPTS_MAX + 1):
            head = case.state.head
            if head is None or head.lock_token == case.lock.token:
                break
            faults.hit("recovery.before_fence")
            try:
                fence = case.publish(replace(head, lock_token=case.lock.token))
                self._publisher.publish(fence, case.lock.check)
            except HeadChanged:
                if attempt == FENCE_ATTEMPTS_MAX:
                    raise
            case = replace(case, state=self._state(case.on, case.lock))
        return case

    def _decided(self, case: RecoveryCase, *, sync_failed: bool) -> RecoveryCase:
        """The case with a decision in its sidecar: made now, or by an earlier recovery.

        The decision is final, so what it rests on has to survive a power cut before it does.
        """
        if case.sidecar.decision is not None:
            return case
        decision = decide(self._manifest, case, sync_failed=sync_failed)
        if decision.kind is DecisionKind.PUBLISHED:
            self._renew_publish(case)
        elif decision.kind is DecisionKind.ROLL_FORWARD:
            self._sync_for_dead_writer(case.sidecar)
        faults.hit("recovery.deciding")
        return case.with_stored(write_decision(self._storage.control, case.stored, decision, case.lock.check))

    def _complete(self, case: RecoveryCase) -> Snapshot:
        """The publish had landed: finish the original commit under its actor, then add ours."""
        sidecar = case.sidecar
        if sidecar.makes_commit and case.head_commit_id == sidecar.head.commit_id:
            complete_commit(
                self._tables, sidecar.head, sidecar.on, case.state.manifest_version, case.lock.check
            )
        faults.hit("recovery.original_completed")
        return self._publish_commit(case)

    def _roll_forward(self, case: RecoveryCase) -> Snapshot:
        sidecar, lock = case.sidecar, case.lock
        if case.is_recorded or is_published(self._manifest, case):
            return case.snapshot
        self._set_aside_torn(case, examined(self._tables, case))
        faults.hit("recovery.before_publish")
        head = case.recovered_head() if sidecar.makes_commit else case.recovery_head(Outcome.APPLIED)
        request = replace(sidecar.to_publish(head), expected_token=case.head_token)
        snapshot = self._publisher.publish(request, lock.check)
        faults.hit("recovery.after_publish")
        return snapshot

    def _roll_back(self, case: RecoveryCase) -> Snapshot:
        if case.is_recorded:
            return case.snapshot
        findings = examined(self._tables, case)
        self._set_aside_torn(case, findings)
        undone = [(finding, self._undo(case, finding)) for finding in findings]
        restored = [(finding, table) for finding, table in undone if table is not None]
        # The versions below a restore stay; one that a power cut tears would stay torn for good.
        versions = [
            manifest_path(table.ref, version)
            for finding, table in restored
            for version in range(finding.published_version + 1, table.version + 1)
        ]
        write_anew(self._storage, versions)
        faults.hit("recovery.restored")
        snapshot = self._publish_restored(case, restored)
        faults.hit("recovery.after_publish")
        return snapshot

    def _set_aside_torn(self, case: RecoveryCase, findings: list[Finding]) -> None:
        for finding in findings:
            if finding.head is not None:
                set_aside_torn(self._tables, finding.head.ref, finding.published_version, case.lock.check)

    def _undo(self, case: RecoveryCase, finding: Finding) -> Table | None:
        """Bring one table back to what is published of it; the restored table, if it was restored.

        A fork that this write was the first to use counts like any other: restored, it is
        published, and what another writer may have staged on it stays where it is.
        """
        if finding.head is None:
            return None
        if (
            not finding.in_manifest
            and finding.table.fork is None
            and self._remove_unregistered(case, finding.head)
        ):
            return None
        operation_id, is_local = case.sidecar.operation_id, self._storage.location.is_local
        if finding.classification is TableClass.NO_MOVEMENT:
            if is_local:
                return None
        elif is_undone(finding, operation_id):
            return finding.head
        staged = stage_restore(finding.head, finding.published_version, new_ulid(), undoes=operation_id)
        restored = commit_exact(self._tables, staged, case.lock.check)
        faults.hit("recovery.table_restored")
        return restored

    def _remove_unregistered(self, case: RecoveryCase, head: Table) -> bool:
        """Remove a table that this very write created, and that no branch has registered.

        By its path and its creator: its key may be another table's by now, and the write may
        have built on what it found at the path. False when it is to be restored like any other.
        """
        for branch in (layout.MAIN_BRANCH, *self._manifest.branches()):
            table = self._manifest.open_for_read(branch)
            state = self._manifest.state_of(table, self._manifest.branch(branch))
            if head.ref.path in state.paths:
                return False
        if transaction_properties(head, 1).get(OPERATION_PROPERTY) != case.sidecar.operation_id:
            return False
        self._storage.control.delete_prefix(head.ref.directory, case.lock.check)
        return True

    def _publish_restored(self, case: RecoveryCase, restored: list[tuple[Finding, Table]]) -> Snapshot:
        """Under the keys they have without this write; a table that came with it has none."""
        updates = [
            Update(
                finding.known_as,
                table.version,
                table.ref.branch,
                table.count_rows(),
                VersionMetadata(manifest_path(table.ref, table.version), naming_scheme="V2"),
            )
            for finding, table in restored
            if finding.known_as is not None
        ]
        request = case.publish(case.recovery_head(Outcome.ROLLED_BACK), updates)
        return self._publisher.publish(request, case.lock.check)

    def _publish_commit(self, case: RecoveryCase) -> Snapshot:
        """Publish a recovery commit that changes no table, unless an earlier recovery did."""
        if case.is_recorded:
            return case.snapshot
        request = case.publish(case.recovery_head(Outcome.APPLIED))
        snapshot = self._publisher.publish(request, case.lock.check)
        faults.hit("recovery.after_publish")
        return snapshot

    def _record(
        self, case: RecoveryCase, snapshot: Snapshot, kind: RecoveryKind, outcomes: tuple[TableOutcome, ...]
    ) -> Recovered:
        """Commit row, actor row and audit row of the recovery, which is the head of the snapshot."""
        head, sidecar = snapshot.head, case.sidecar
        if head is None:
            raise InternalError("a recovery was published without a head row")
        complete_commit(self._tables, head, snapshot.on, snapshot.manifest_version, case.lock.check)
        faults.hit("recovery.commit_recorded")
        record_recovery(
            self._tables,
            Recovery(
                graph_commit_id=head.commit_id,
                recovery_kind=kind,
                recovery_for_actor=sidecar.actor_id,
                operation_id=sidecar.operation_id,
                sidecar_writer_kind=sidecar.writer_kind,
                outcomes=outcomes,
                created_at=head.created_at,
                branch=snapshot.branch,
                manifest_version=snapshot.manifest_version,
                parent_commit_id=head.parent_commit_id,
            ),
            case.lock.check,
        )
        faults.hit("recovery.audited")
        return Recovered(sidecar.operation_id, snapshot.branch, kind, head.commit_id, outcomes)

    def _sync_for_dead_writer(self, sidecar: Sidecar) -> None:
        """It may have died before its syncs; what is published must be safe.

        Staged files were synced before there was a sidecar, if their writer syncs at all.
        """
        sync_files(self._storage, [file.path for table in sidecar.tables for file in table.files])
        write_anew(
            self._storage,
            [
                manifest_path(table.ref, version)
                for table in sidecar.tables
                for version in range(table.expected_version + 1, table.post_commit_pin + 1)
            ],
        )

    def _renew_publish(self, case: RecoveryCase) -> None:
        """A writer, or a recovery before us, may have died between its publish and the sync of it,
        or may have failed to sync it."""
        if not self._storage.location.is_local:
            return
        on_disk = versions_on_disk(self._tables, manifest_ref(case.branch))
        base, newest = case.sidecar.base_manifest_version, case.state.manifest_version
        known = self._manifest.open(case.branch, base) if base in on_disk else None
        first = max(newest - _MANIFEST_VERSIONS_MAX, base or 0) + 1
        paths = [
            path
            for version in range(first, newest + 1)
            if version in on_disk
            for path in version_files(self._storage, self._manifest.open(case.branch, version), known)
        ]
        write_anew(self._storage, paths)

    def _forget(self, stored: StoredSidecar, lock: Lock) -> None:
        faults.hit("recovery.before_forget")
        forget_sidecar(self._storage, stored, lock.check)


def _recovery_kind(decision: DecisionKind) -> RecoveryKind:
    return RecoveryKind.ROLLED_BACK if decision is DecisionKind.ROLL_BACK else RecoveryKind.ROLLED_FORWARD
