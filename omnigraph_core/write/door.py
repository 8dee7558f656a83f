"""The door: the one way a graph changes.

Phase A writes the sidecar, phase B commits the tables, phase C publishes and records
the commit, phase D removes the sidecar. Three barriers make it durable: staged files
and sidecar before B, table manifests before C, publish and history before D.

Killed before A, a write leaves orphan files. Killed between A and the end of D, it
leaves the sidecar, and whoever takes the branch's lock next finishes or undoes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from omnigraph_core import faults, layout
from omnigraph_core.errors import BusyError, NotFoundError, OmnigraphError, StorageError
from omnigraph_core.history.commits import commits_ref, record_commit
from omnigraph_core.history.recoveries import ROLLED_BACK
from omnigraph_core.ids import new_ulid, now_us
from omnigraph_core.manifest.publisher import Publisher
from omnigraph_core.manifest.reader import Manifest, check_branch, manifest_ref
from omnigraph_core.manifest.rows import OUTCOME_APPLIED, GraphHead
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Lock, LockLost
from omnigraph_core.storage.failures import SyncFailed
from omnigraph_core.tables.branches import read_fork
from omnigraph_core.tables.commit import commit_exact, is_all_ours
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.durability import Barrier, sync_fork, sync_manifests, sync_staged
from omnigraph_core.tables.failures import TableNotFound, is_missing
from omnigraph_core.tables.log_append import compact_log
from omnigraph_core.tables.refs import control_table
from omnigraph_core.tables.staged import StagedFileMissing, discard_files
from omnigraph_core.write.forks import fork_table, needs_fork
from omnigraph_core.write.freshness import (
    Drift,
    SchemaChanged,
    StalePlan,
    check_assumptions,
    check_head,
    check_tables,
)
from omnigraph_core.write.plan import WritePlan
from omnigraph_core.write.recovery import Recoverer
from omnigraph_core.write.sidecar import Sidecar, describe, describe_late_write, encode
from omnigraph_core.write.sweep import Sweeper
from omnigraph_core.write.writable import WritableTable

REPLANS_MAX = 5
OPTIMISTIC_ATTEMPTS = 2


@dataclass(frozen=True, slots=True)
class Published:
    """A write that is durable. `warnings` are things that went wrong without consequence."""

    commit_id: str | None
    snapshot: Snapshot
    warnings: tuple[str, ...] = ()


class ReplansUsedUp(BusyError):
    """Every time the write was prepared, somebody else was faster."""


class Door:
    """Writes to one graph."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.tables = tables = manifest.tables
        self.storage = tables.storage
        self.publisher = Publisher(self.manifest)
        self.recoverer = Recoverer(tables, self.manifest, self.publisher)
        self.sweeper = Sweeper(self.storage, self.manifest, self.recoverer)
        self._kept: Lock | None = None

    def write(self, branch: str, build: Callable[[Snapshot], WritePlan | None]) -> Published:
        """Plan and publish; planned again, from a fresh snapshot, when somebody else was faster.

        `build` returns None when there is nothing to do.
        """
        for attempt in range(1 + REPLANS_MAX):
            with self._keeping_lock(branch, wanted=attempt >= OPTIMISTIC_ATTEMPTS):
                base = self.base(branch)
                plan = None
                try:
                    plan = build(base)
                    return Published(None, base) if plan is None else self.publish(plan)
                except (StalePlan, SchemaChanged):
                    if plan is not None:
                        discard_files(self.storage, plan.staged, plan.spared)
                except (StorageError, NotFoundError) as error:
                    check_branch(self.manifest, base)
                    if plan is not None or not _may_have_lost_a_fork(base, error):
                        raise
        raise ReplansUsedUp(
            f"branch '{branch}': {1 + REPLANS_MAX} times in a row somebody else wrote first",
            hint="try again",
        )

    def base(self, branch: str) -> Snapshot:
        """Where planning starts: pending recoveries done, then one snapshot."""
        if self._kept is None:
            self.sweeper.sweep()
        else:
            self.sweeper.heal(branch, self._kept)
        return self.manifest.snapshot(branch)

    @contextmanager
    def _keeping_lock(self, branch: str, *, wanted: bool) -> Iterator[None]:
        """Hold the branch's lock while a write is planned as well.

        A writer that plans without it loses to whoever publishes meanwhile, and among many
        small writers some would lose again and again. From its third attempt on, it does not.
        """
        if not wanted:
            yield
            return
        with self._locked(branch, "plan") as lock:
            self._kept = lock
            try:
                yield
            finally:
                self._kept = None

    def open_for_write(self, base: Snapshot, table_key: str) -> WritableTable:
        """A table to stage on; forked first if the branch has no lineage of its own yet."""
        entry = base.entry(table_key)
        if not needs_fork(entry, base.branch):
            table = self.tables.open(entry.ref, entry.table_version)
            return WritableTable(table, entry.table_version, entry.row_count)
        with self._locked(base.branch, "fork") as lock:
            self.sweeper.heal(base.branch, lock)
            return fork_table(self.tables, entry, base, self.manifest.snapshot(base.branch))

    def publish(self, plan: WritePlan) -> Published:
        """Make the plan true, all of it, or raise and leave everything as it was.

        The files of a plan that came too late are left to whoever plans again.
        """
        recorded = False
        try:
            with self._locked(plan.branch, plan.kind.value, plan.operation_id) as lock:
                plan, sidecar = self._prepared(plan, lock)
                recorded = True
                self._phase_a(sidecar)
                plan.on_recorded()
                return self._carried_out(plan, sidecar, lock)
        except (StalePlan, SchemaChanged):
            raise
        except BaseException:
            if not recorded:
                discard_files(self.storage, plan.staged, plan.spared)
            raise

    def _prepared(self, plan: WritePlan, lock: Lock) -> tuple[WritePlan, Sidecar]:
        """Under the lock: is the plan still true? Then its staged files are made safe."""
        self.sweeper.heal(plan.branch, lock)
        current = self.manifest.snapshot(plan.branch)
        check_head(plan.if_commit, current)
        check_assumptions(plan, current)
        self._check_tables(plan, current, lock)
        plan = replace(plan, base=current)
        sidecar = describe(plan, _head(plan, lock.token), new_ulid())
        sync_staged(self.storage, plan.staged)
        self._sync_new_branch(current)
        faults.hit("write.before_a")
        return plan, sidecar

    def _carried_out(self, plan: WritePlan, sidecar: Sidecar, lock: Lock) -> Published:
        """Phases B to D; a failure in between is settled at once."""
        try:
            snapshot = self._phases_b_and_c(plan, sidecar, lock)
        except LockLost:
            raise
        except OmnigraphError as error:
            return self._settle(sidecar, lock, error)
        return Published(sidecar.head.commit_id, snapshot, self._phase_d(sidecar))

    def _sync_new_branch(self, current: Snapshot) -> None:
        """Before the first commit on a branch: whoever made it may have died before syncing it."""
        fork = read_fork(self.tables, manifest_ref(layout.MAIN_BRANCH), current.branch)
        if fork is not None and fork.parent_version == current.manifest_version:
            sync_fork(self.storage, manifest_ref(layout.MAIN_BRANCH), current.branch)

    def _check_tables(self, plan: WritePlan, current: Snapshot, lock: Lock) -> None:
        """Versions of ours that no sidecar explains are a late writer's: undone, never published."""
        try:
            check_tables(self.tables, plan, lock.check)
        except (TableNotFound, StagedFileMissing) as error:
            forks = [table for table in plan.tables if table.fork is not None]
            if not forks:
                raise
            raise StalePlan(forks[0].ref.key, forks[0].base_version, 0) from error
        except Drift as drift:
            head = self.tables.open(current.entry(drift.table_key).ref)
            if not is_all_ours(head, since=drift.published):
                raise
            sidecar = describe_late_write(current, head, drift.published, lock.token)
            self._phase_a(sidecar)
            self.recoverer.recover(sidecar, lock)
            raise StalePlan(drift.table_key, drift.published, head.version + 1) from drift

    def _phase_a(self, sidecar: Sidecar) -> None:
        faults.hit("recovery.sidecar_write")
        self.storage.control.create(sidecar.path, encode(sidecar))
        faults.hit("write.after_a")

    def _phases_b_and_c(self, plan: WritePlan, sidecar: Sidecar, lock: Lock) -> Snapshot:
        committed: list[Table] = []
        for table in plan.tables:
            for staged in table.staged:
                committed.append(commit_exact(self.tables, staged, lock.check))
                faults.hit(f"write.table_committed.{len(committed)}")
        sync_manifests(self.tables, committed)
        faults.hit("write.after_b")
        barrier = Barrier(self.storage)
        snapshot = self.publisher.publish(sidecar.to_publish(), lock.check, barrier)
        faults.hit("write.published")
        if plan.makes_commit:
            record_commit(self.tables, sidecar.head, plan.branch, snapshot.manifest_version, barrier)
        self._compact(plan, lock, barrier)
        barrier.sync()
        faults.hit("write.after_c")
        return snapshot

    def _phase_d(self, sidecar: Sidecar) -> tuple[str, ...]:
        """Failing here must not fail the write: it is durable, and the next one cleans up."""
        try:
            faults.hit("recovery.sidecar_delete")
            self.storage.control.delete(sidecar.path)
        except OmnigraphError as error:
            return (f"the write is done, but {sidecar.path} could not be removed: {error}",)
        faults.hit("write.after_d")
        return ()

    def _settle(self, sidecar: Sidecar, lock: Lock, error: OmnigraphError) -> Published:
        """A phase failed while we live: recover at once, so that the caller learns the outcome."""
        try:
            recovered = self.recoverer.recover(sidecar, lock, sync_failed=isinstance(error, SyncFailed))
        except OmnigraphError as second:
            error.hint = (
                f"the outcome is open: {sidecar.path} is kept, and the next write or "
                f"`omnigraph recovery run` finishes or undoes it ({second})"
            )
            raise error from second
        if recovered.recovery_kind == ROLLED_BACK:
            error.hint = f"nothing was changed; the rollback is commit {recovered.commit_id}"
            raise error
        snapshot = self.manifest.snapshot(sidecar.branch)
        warning = f"the write was finished by recovery after: {error}"
        return Published(sidecar.head.commit_id, snapshot, (warning,))

    def _compact(self, plan: WritePlan, lock: Lock, barrier: Barrier) -> None:
        """Keep our own datasets small; failing to is not this write's problem."""
        try:
            self.publisher.compact(plan.branch, plan.operation_id, lock.check, barrier)
            compact_log(self.tables, commits_ref(plan.branch), plan.operation_id, barrier)
            compact_log(self.tables, control_table(layout.COMMIT_ACTORS), plan.operation_id, barrier)
        except OmnigraphError:
            return

    @contextmanager
    def _locked(self, branch: str, doing: str, operation_id: str | None = None) -> Iterator[Lock]:
        """The branch's lock: taken and released, or the one that is being kept anyway."""
        if self._kept is not None:
            yield self._kept
            return
        name = layout.branch_lock(branch)
        with self.storage.locks.lock(name, doing=doing, operation_id=operation_id).acquire() as lock:
            yield lock


def _may_have_lost_a_fork(base: Snapshot, error: OmnigraphError) -> bool:
    """Until its first publish a fork is nobody's: whoever recovers another writer that used it
    removes it, with what we have staged on it."""
    unforked = any(needs_fork(entry, base.branch) for entry in base.tables.values())
    return unforked and is_missing(error)


def _head(plan: WritePlan, lock_token: int) -> GraphHead:
    """The head row of this write; for one that makes no commit, the present one with our marks."""
    parent = plan.base.head
    if not plan.makes_commit and parent is not None:
        return replace(parent, operation_id=plan.operation_id, lock_token=lock_token)
    return GraphHead(
        commit_id=new_ulid(),
        parent_commit_id=parent.commit_id if parent else None,
        merged_parent_commit_id=plan.merged_parent_commit_id,
        actor_id=plan.actor,
        created_at=max(now_us(), parent.created_at + 1 if parent else 0),
        operation_id=plan.operation_id,
        operation=plan.kind.value.lower(),
        outcome=OUTCOME_APPLIED,
        schema_hash=plan.schema_hash,
        lock_token=lock_token,
        message=plan.message,
        details=plan.details,
    )
