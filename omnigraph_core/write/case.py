"""A recovery case: one unfinished write, as the holder of its branch's lock finds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from omnigraph_core.errors import InternalError
from omnigraph_core.history.recoveries import RECOVERY_ACTOR
from omnigraph_core.ids import now_us
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.commit import Commit, Operation
from omnigraph_core.manifest.request import Publish, Update
from omnigraph_core.manifest.rows import GraphHead, Outcome
from omnigraph_core.manifest.seal import sealed
from omnigraph_core.manifest.snapshot import ManifestState, Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Lock
from omnigraph_core.write.sidecar import StoredSidecar
from omnigraph_core.write.sidecar_record import Decision, Sidecar


@dataclass(frozen=True, slots=True)
class RecoveryCase:
    """The sidecar with the e-tag it was read with, and the manifest as read under the lock.

    Everything done about the case is on condition that both are still so: the decision
    and the removal name the e-tag, every publish the head row.
    """

    sidecar: Sidecar
    e_tag: str
    state: ManifestState
    lock: Lock
    on: Branch
    """Where the recovery is recorded: the branch of the write, main when that is gone."""

    @property
    def branch(self) -> str:
        return self.on.name

    @property
    def stored(self) -> StoredSidecar:
        return StoredSidecar(self.sidecar, self.e_tag)

    def with_stored(self, stored: StoredSidecar) -> RecoveryCase:
        return replace(self, sidecar=stored.sidecar, e_tag=stored.e_tag)

    @property
    def decision(self) -> Decision:
        if self.sidecar.decision is None:
            raise InternalError(f"{self.sidecar.path}: recovery acts before it has decided")
        return self.sidecar.decision

    @property
    def head_commit_id(self) -> str | None:
        return self.state.head.commit_id if self.state.head else None

    @property
    def head_token(self) -> int | None:
        return self.state.head.lock_token if self.state.head else None

    @property
    def is_recorded(self) -> bool:
        """Has an earlier recovery of this write already published its commit, as the newest one?"""
        return self.head_commit_id == self.sidecar.recovery_commit_id

    @property
    def snapshot(self) -> Snapshot:
        return self.state.snapshot(self.on)

    def recovery_head(self, outcome: Outcome) -> GraphHead:
        """The head row of a commit by recovery, following the present head."""
        parent = self.state.head
        commit = Commit(
            commit_id=self.sidecar.recovery_commit_id,
            parent_commit_id=parent.commit_id if parent else None,
            merged_parent_commit_id=None,
            actor_id=RECOVERY_ACTOR,
            created_at=max(now_us(), parent.created_at + 1 if parent else 0),
            operation=Operation.RECOVERY,
            schema_hash=parent.schema_hash if parent else self.sidecar.head.schema_hash,
        )
        whole = sealed(commit, parent.commit if parent else None)
        return GraphHead(whole, self.sidecar.operation_id, outcome, self.lock.token)

    def recovered_head(self) -> GraphHead:
        """The head row of the write itself, which recovery publishes under its own name."""
        parent = self.state.head
        signed = replace(self.sidecar.head.commit, actor_id=RECOVERY_ACTOR)
        whole = sealed(signed, parent.commit if parent else None)
        return replace(self.sidecar.head, commit=whole, lock_token=self.lock.token)

    def publish(self, head: GraphHead, updates: Sequence[Update] = ()) -> Publish:
        """A publish that lands only on top of the state this case was looked at in."""
        versions = {each.table_key: self.state.current_version(each.table_key) for each in updates}
        return Publish(
            on=self.on,
            head=head,
            updates=updates,
            expected_versions=versions,
            expected_head=self.head_commit_id,
            expected_token=self.head_token,
        )
