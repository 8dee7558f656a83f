"""Recovery: finish or undo one write whose process is gone, and say so in the history.

Runs under the lock of the write's branch. Decides by identity:

- the manifest carries its commit: *published*. Complete what the writer owed to the
  history, then add a recovery commit.
- every table has moved by exactly its transactions, and all files are whole: roll
  *forward*, by publishing what the sidecar says.
- anything else: roll *back*. Moved tables are restored to what is published, forks and
  tables the write made are removed, and one publish makes manifest = HEAD again.

Fault model: recovery itself may die anywhere, and is then repeated by the next. The
decision is in the sidecar before anything is done; restores name what they undo; the
commit ids are the sidecar's; rows are added if absent. So the repetition does the same
and records it once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from omnigraph_core import faults, layout
from omnigraph_core.errors import InternalError, StorageError
from omnigraph_core.history.commits import complete_commit
from omnigraph_core.history.recoveries import (
    BRANCH_DISCARDED,
    RECOVERY_ACTOR,
    ROLLED_BACK,
    ROLLED_FORWARD,
    Recovery,
    TableOutcome,
    record_recovery,
)
from omnigraph_core.ids import new_ulid, now_us
from omnigraph_core.manifest.publisher import Publish, Publisher, Update
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.manifest.rows import OUTCOME_APPLIED, OUTCOME_ROLLED_BACK, GraphHead, VersionMetadata
from omnigraph_core.manifest.snapshot import ManifestState, Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Lock
from omnigraph_core.tables.branches import delete_fork, read_fork
from omnigraph_core.tables.commit import commit_exact, stage_restore
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import Barrier, manifest_path, sync_files, sync_manifests
from omnigraph_core.tables.torn import versions_on_disk
from omnigraph_core.write.classify import Finding, TableClass, examine, files_are_whole, is_undone
from omnigraph_core.write.sidecar import Decision, Sidecar, SidecarTable, write_decision

DECIDED_PUBLISHED = "published"
DECIDED_FORWARD = "roll_forward"
DECIDED_BACK = "roll_back"


class PublishNotDurable(StorageError):
    """A publish landed and could not be synced."""


class HeadBehindManifest(StorageError):
    """A table is older than what was published of it: no rule of ours explains that."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What one recovery did."""

    operation_id: str
    branch: str
    recovery_kind: str
    commit_id: str
    outcomes: tuple[TableOutcome, ...]


class Recoverer:
    """Recovers sidecars of one graph; the caller holds the lock it passes."""

    def __init__(self, tables: Tables, manifest: Manifest, publisher: Publisher) -> None:
        self._tables = tables
        self._storage = tables.storage
        self._manifest = manifest
        self._publisher = publisher

    def recover(self, sidecar: Sidecar, lock: Lock, *, sync_failed: bool = False) -> Recovered:
        """Settle a write of a branch that still exists.

        `sync_failed` when that is how it ended: what it wrote may be lost although every
        read shows it, and a second sync would prove nothing. So it is rolled back; once
        published it cannot be, and must not be called done either.
        """
        self._fence(sidecar, lock)
        state = self._state(sidecar.branch, sidecar.branch_identity, lock)
        if sync_failed and self._is_published(sidecar, state):
            raise PublishNotDurable("the commit is visible, but a power cut may undo it")
        decision = sidecar.decision or self._decide(sidecar, state, lock, sync_failed)
        if sidecar.decision is not None or decision.kind == DECIDED_PUBLISHED:
            self._sync_publish(sidecar.branch)
        if sidecar.decision is None:
            sidecar = write_decision(self._storage.control, sidecar, decision)
        faults.hit("recovery.decided")
        acts: dict[str, Callable[[Sidecar, ManifestState, Lock], Snapshot]] = {
            DECIDED_PUBLISHED: self._complete,
            DECIDED_FORWARD: self._roll_forward,
            DECIDED_BACK: partial(self._roll_back, sync_failed=sync_failed),
        }
        snapshot = acts[decision.kind](sidecar, state, lock)
        kind = ROLLED_BACK if decision.kind == DECIDED_BACK else ROLLED_FORWARD
        done = self._record(sidecar, snapshot, kind, decision.outcomes)
        self._forget(sidecar)
        return done

    def discard(self, sidecar: Sidecar, lock: Lock) -> Recovered:
        """Drop the sidecar of a branch that is gone; recorded on main, whose lock the caller holds."""
        state = self._state(layout.MAIN_BRANCH, None, lock)
        head = self._recovery_head(sidecar, state, OUTCOME_APPLIED, lock)
        snapshot = self._publish_head(layout.MAIN_BRANCH, None, state, head, lock)
        done = self._record(sidecar, snapshot, BRANCH_DISCARDED, ())
        self._forget(sidecar)
        return done

    def _fence(self, sidecar: Sidecar, lock: Lock) -> None:
        """On object storage the dead writer may only be slow: change the head row under its feet.

        Its publish expects the token it saw; from here on it cannot land.
        """
        if self._storage.location.is_local:
            return
        state = self._state(sidecar.branch, sidecar.branch_identity, lock)
        if state.head is None or state.head.lock_token == lock.token:
            return
        fenced = replace(state.head, lock_token=lock.token)
        self._publisher.publish(
            Publish(sidecar.branch, fenced, branch_identity=sidecar.branch_identity), lock.check
        )

    def _decide(self, sidecar: Sidecar, state: ManifestState, lock: Lock, sync_failed: bool) -> Decision:
        if self._is_published(sidecar, state):
            outcomes = [
                TableOutcome(table.table_key, table.expected_version, table.post_commit_pin, "Published")
                for table in sidecar.tables
            ]
            return Decision(DECIDED_PUBLISHED, tuple(outcomes))
        findings = self._examine(sidecar, state, lock)
        moved = all(each.classification is TableClass.ROLLED_PAST_EXPECTED for each in findings)
        base_head = state.head.commit_id if state.head else None
        if (
            moved
            and not sync_failed
            and base_head == sidecar.base_head
            and files_are_whole(self._storage, sidecar)
        ):
            outcomes = [_forward_outcome(each) for each in findings]
            return Decision(DECIDED_FORWARD, tuple(outcomes))
        return Decision(DECIDED_BACK, tuple(_back_outcome(each) for each in findings))

    def _is_published(self, sidecar: Sidecar, state: ManifestState) -> bool:
        """Do the manifest's rows carry the write: its head row, or the rows of its versions?"""
        head = state.head
        # Recovery's own head rows name the operation too, but never the commit.
        if (
            head is not None
            and head.commit_id == sidecar.head.commit_id
            and head.operation_id == sidecar.operation_id
        ):
            return True
        return any(self._carries(sidecar, table) for table in sidecar.tables)

    def _carries(self, sidecar: Sidecar, table: SidecarTable) -> bool:
        metadata = self._manifest.version_metadata(sidecar.branch, table.table_key, table.post_commit_pin)
        return metadata is not None and metadata.commit_id == sidecar.head.commit_id

    def _complete(self, sidecar: Sidecar, state: ManifestState, lock: Lock) -> Snapshot:
        """The publish had landed: finish the original commit under its actor, then add ours."""
        landed = state.head is not None and state.head.commit_id == sidecar.head.commit_id
        if sidecar.makes_commit and landed:
            complete_commit(self._tables, sidecar.head, sidecar.branch, state.manifest_version)
        faults.hit("recovery.original_completed")
        head = self._recovery_head(sidecar, state, OUTCOME_APPLIED, lock)
        return self._publish_head(sidecar.branch, sidecar.branch_identity, state, head, lock)

    def _roll_forward(self, sidecar: Sidecar, state: ManifestState, lock: Lock) -> Snapshot:
        if self._is_recorded(sidecar, state) or self._is_published(sidecar, state):
            return state.snapshot(sidecar.branch, sidecar.branch_identity)
        self._sync_for_dead_writer(sidecar)
        faults.hit("recovery.before_publish")
        if sidecar.makes_commit:
            head = replace(sidecar.head, actor_id=RECOVERY_ACTOR, lock_token=lock.token)
        else:
            head = self._recovery_head(sidecar, state, OUTCOME_APPLIED, lock)
        token = state.head.lock_token if state.head else None
        request = replace(sidecar.to_publish(head), expected_token=token)
        snapshot = self._publisher.publish(request, lock.check)
        faults.hit("recovery.after_publish")
        return snapshot

    def _roll_back(
        self, sidecar: Sidecar, state: ManifestState, lock: Lock, *, sync_failed: bool = False
    ) -> Snapshot:
        if self._is_recorded(sidecar, state):
            return state.snapshot(sidecar.branch, sidecar.branch_identity)
        findings = self._examine(sidecar, state, lock)
        restored = [table for each in findings if (table := self._undo(each, sidecar, state, lock))]
        sync_manifests(self._tables, restored)
        if not sync_failed:
            self._sync_undone(findings)
        faults.hit("recovery.restored")
        snapshot = self._publish_restored(sidecar, state, restored, lock)
        faults.hit("recovery.after_publish")
        return snapshot

    def _undo(self, finding: Finding, sidecar: Sidecar, state: ManifestState, lock: Lock) -> Table | None:
        """Bring one table back to what is published of it; the restored table, if it was restored."""
        table = finding.table
        if not finding.in_manifest:
            self._remove_unpublished(finding, state, lock)
            return None
        if finding.head is None:
            raise HeadBehindManifest(f"table '{table.table_key}' is published but does not exist")
        if is_undone(finding, sidecar.operation_id):
            return finding.head
        if finding.classification is TableClass.NO_MOVEMENT and self._storage.location.is_local:
            return None
        staged = stage_restore(
            finding.head, finding.published_version, new_ulid(), undoes=sidecar.operation_id
        )
        restored = commit_exact(self._tables, staged, lock.check)
        faults.hit("recovery.table_restored")
        return restored

    def _remove_unpublished(self, finding: Finding, state: ManifestState, lock: Lock) -> None:
        """Remove a fork or a table that only this write knew of."""
        table = finding.table
        lock.check()
        if table.fork is not None and table.table_branch is not None:
            if read_fork(self._tables, table.ref, table.table_branch) is not None:
                delete_fork(self._tables, table.ref, table.table_branch)
        elif table.table_key not in state.locations:
            self._storage.control.delete_prefix(table.ref.directory)

    def _publish_restored(
        self, sidecar: Sidecar, state: ManifestState, restored: list[Table], lock: Lock
    ) -> Snapshot:
        updates = [
            Update(
                table.ref.key,
                table.version,
                table.ref.branch,
                table.count_rows(),
                VersionMetadata(manifest_path(table.ref, table.version), naming_scheme="V2"),
            )
            for table in restored
        ]
        head = self._recovery_head(sidecar, state, OUTCOME_ROLLED_BACK, lock)
        return self._publisher.publish(
            Publish(
                branch=sidecar.branch,
                head=head,
                updates=updates,
                expected_versions={each.table_key: state.current_version(each.table_key) for each in updates},
                expected_head=state.head.commit_id if state.head else None,
                expected_token=state.head.lock_token if state.head else None,
                branch_identity=sidecar.branch_identity,
            ),
            lock.check,
        )

    def _publish_head(
        self, branch: str, identity: str | None, state: ManifestState, head: GraphHead, lock: Lock
    ) -> Snapshot:
        """Publish a recovery commit that changes no table, unless an earlier recovery did."""
        if state.head is not None and state.head.commit_id == head.commit_id:
            self._sync_publish(branch)
            return state.snapshot(branch, identity)
        request = Publish(
            branch=branch,
            head=head,
            expected_head=state.head.commit_id if state.head else None,
            expected_token=state.head.lock_token if state.head else None,
            branch_identity=identity,
        )
        snapshot = self._publisher.publish(request, lock.check)
        faults.hit("recovery.after_publish")
        return snapshot

    def _record(
        self, sidecar: Sidecar, snapshot: Snapshot, kind: str, outcomes: tuple[TableOutcome, ...]
    ) -> Recovered:
        """Commit row, actor row and audit row of the recovery, whose head was just published."""
        head = snapshot.head
        if head is None:
            raise InternalError("a recovery was published without a head row")
        complete_commit(self._tables, head, snapshot.branch, snapshot.manifest_version)
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
        )
        faults.hit("recovery.audited")
        return Recovered(sidecar.operation_id, snapshot.branch, kind, head.commit_id, outcomes)

    def _recovery_head(self, sidecar: Sidecar, state: ManifestState, outcome: str, lock: Lock) -> GraphHead:
        """The head row of a commit by recovery, following the present head."""
        parent = state.head
        return GraphHead(
            commit_id=sidecar.recovery_commit_id,
            parent_commit_id=parent.commit_id if parent else None,
            merged_parent_commit_id=None,
            actor_id=RECOVERY_ACTOR,
            created_at=max(now_us(), parent.created_at + 1 if parent else 0),
            operation_id=sidecar.operation_id,
            operation="recovery",
            outcome=outcome,
            schema_hash=parent.schema_hash if parent else sidecar.head.schema_hash,
            lock_token=lock.token,
        )

    def _is_recorded(self, sidecar: Sidecar, state: ManifestState) -> bool:
        """Has an earlier recovery of this write already published its commit?"""
        return state.head is not None and state.head.commit_id == sidecar.recovery_commit_id

    def _sync_for_dead_writer(self, sidecar: Sidecar) -> None:
        """It may have died before its syncs; what is published must be safe."""
        paths = [file.path for table in sidecar.tables for file in table.files]
        for table in sidecar.tables:
            versions = range(table.expected_version + 1, table.post_commit_pin + 1)
            paths += [manifest_path(table.ref, version) for version in versions]
        sync_files(self._storage, paths)

    def _sync_publish(self, branch: str) -> None:
        """A writer, or a recovery before us, may have died between its publish and the sync of it.

        Whole, and the newest two versions: a publish, and perhaps a rewrite after it.
        """
        head = self._manifest.open(branch)
        barrier = Barrier(self._storage)
        barrier.add_version(head, None)
        if head.version - 1 in versions_on_disk(self._tables, head.ref):
            barrier.add_version(self._manifest.open(branch, head.version - 1), None)
        barrier.sync()

    def _sync_undone(self, findings: list[Finding]) -> None:
        """The versions below a restore stay; one that a power cut tears would stay torn for good."""
        sync_files(
            self._storage,
            [
                manifest_path(finding.head.ref, version)
                for finding in findings
                if finding.head is not None and finding.in_manifest
                for version in range(finding.published_version + 1, finding.head.version + 1)
            ],
        )

    def _examine(self, sidecar: Sidecar, state: ManifestState, lock: Lock) -> list[Finding]:
        findings = examine(self._tables, sidecar, state, lock.check)
        for finding in findings:
            if finding.classification is TableClass.INVARIANT_VIOLATION:
                raise HeadBehindManifest(
                    f"table '{finding.table.table_key}' is at version {finding.head_version}, but "
                    f"version {finding.published_version} is published; {sidecar.path} is kept",
                    hint="the dataset lost versions; restore it from a backup",
                )
        return findings

    def _state(self, branch: str, identity: str | None, lock: Lock) -> ManifestState:
        """The manifest now; a HEAD of it that a power cut tore is set aside first."""
        try:
            return self._manifest.state_of(self._manifest.open(branch), branch, identity)
        except StorageError:
            if not self._publisher.set_aside_torn(branch, lock.check):
                raise
            return self._manifest.state_of(self._manifest.open(branch), branch, identity)

    def _forget(self, sidecar: Sidecar) -> None:
        faults.hit("recovery.before_forget")
        self._storage.control.delete(sidecar.path)


def _forward_outcome(finding: Finding) -> TableOutcome:
    table = finding.table
    return TableOutcome(
        table.table_key, table.expected_version, table.post_commit_pin, finding.classification.value
    )


def _back_outcome(finding: Finding) -> TableOutcome:
    return TableOutcome(
        finding.table.table_key,
        finding.head_version,
        finding.published_version,
        finding.classification.value,
    )
