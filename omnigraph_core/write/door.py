"""The door: the one way a graph changes.

A write is planned, without the lock if nobody else is writing. Under the branch's lock everything
that the plan assumed is looked at again; then come the phases (`write/phases.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from omnigraph_core import faults, layout
from omnigraph_core.catalog.schemas import Schemas
from omnigraph_core.errors import BusyError, NotFoundError, OmnigraphError, StorageError
from omnigraph_core.history.settle import settle_history
from omnigraph_core.ids import new_ulid, now_us
from omnigraph_core.manifest.commit import Commit
from omnigraph_core.manifest.publisher import Publisher
from omnigraph_core.manifest.reader import Manifest, check_branch, manifest_ref
from omnigraph_core.manifest.rows import GraphHead, Outcome
from omnigraph_core.manifest.seal import sealed
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.original.recognition import refuse_later_writes
from omnigraph_core.storage import Lock
from omnigraph_core.storage.beside import Beside
from omnigraph_core.storage.failures import SyncFailed
from omnigraph_core.tables.commit import is_all_ours
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import sync_fork, sync_staged
from omnigraph_core.tables.failures import TableNotFound
from omnigraph_core.tables.fork_refs import read_fork
from omnigraph_core.tables.held_tables import HeldTables
from omnigraph_core.tables.pinned import PinnedTables
from omnigraph_core.tables.staged import StagedFileMissing, discard_files
from omnigraph_core.write.actors import check_actor
from omnigraph_core.write.ahead import Ahead
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.forks import fork_table, may_have_lost_a_fork, needs_fork
from omnigraph_core.write.freshness import (
    Drift,
    SchemaChanged,
    StalePlan,
    check_assumptions,
    check_head,
    check_tables,
)
from omnigraph_core.write.left_open import LeftOpen
from omnigraph_core.write.limits import OPTIMISTIC_ATTEMPTS, PLANNING_WAIT_S, REPLANS_MAX
from omnigraph_core.write.phases import Phases, Published
from omnigraph_core.write.plan import TableWrite, WritePlan
from omnigraph_core.write.recovery import Recoverer
from omnigraph_core.write.sidecar import StoredSidecar, describe, describe_late_write, forget_sidecar
from omnigraph_core.write.sidecar_record import Sidecar
from omnigraph_core.write.sweep import Sweeper
from omnigraph_core.write.turns import Turns
from omnigraph_core.write.writable import WritableTable


class ReplansUsedUp(BusyError):
    """Every time the write was prepared, another writer was faster."""


class Door:
    """Writes to one graph."""

    def __init__(self, manifest: Manifest, schemas: Schemas) -> None:
        self.manifest = manifest
        self.schemas = schemas
        self.tables = tables = manifest.tables
        self.storage = tables.storage
        self.publisher = Publisher(self.manifest)
        self.recoverer = Recoverer(tables, self.manifest, self.publisher)
        self.phases = Phases(self.manifest, self.publisher, self.recoverer)
        self.sweeper = Sweeper(self.storage, self.manifest, self.recoverer)
        self._turns = Turns()
        self._left_open = LeftOpen()

    def write(
        self, branch: str, build: Callable[[Attempt], WritePlan | None], *, plans_long: bool = False
    ) -> Published:
        """Plan and publish; planned again, from a fresh snapshot, when another writer was faster.

        `build` returns None when there is nothing to do. A write that `plans_long` is never
        planned under the lock, where everybody would wait for it; it gets ahead because its
        plan can be rebased (`WritePlan.rebase`): what others do in the meantime makes it stale
        only if it concerns it.
        """
        lost: OmnigraphError | None = None
        for number in range(1 + REPLANS_MAX):
            with self._attempted(branch, number, plans_long=plans_long) as attempt:
                plan = None
                try:
                    plan = build(attempt)
                    if plan is None:
                        return Published(None, attempt.snapshot)
                    published = self.publish(plan)
                    self._turns.committed(branch, published.commit_id)
                    return published
                except (StalePlan, SchemaChanged):
                    lost = None
                    self._turns.lost(branch)
                    if plan is not None:
                        discard_files(self.storage, plan.staged, plan.spared)
                except (StorageError, NotFoundError) as error:
                    check_branch(self.manifest, attempt.snapshot)
                    if plan is not None or not may_have_lost_a_fork(attempt.snapshot, error):
                        raise
                    lost = error
        if lost is not None:  # Nobody takes a fork away while the lock is held: it is damage.
            raise lost
        raise ReplansUsedUp(
            f"branch '{branch}': another writer committed first {1 + REPLANS_MAX} times in a row",
            hint="try again",
        )

    def attempt(self, branch: str, lock: Lock | None = None) -> Attempt:
        """Where planning starts: pending recoveries done, then one snapshot."""
        if lock is None:
            self.sweeper.sweep()
        else:
            self.sweeper.heal(branch, lock)
        snapshot = self.manifest.snapshot(branch)
        self._turns.found(snapshot)
        pinned = PinnedTables(self.tables, self._left_open.tables(snapshot))
        return Attempt(snapshot, self.schemas, lock, pinned)

    def tables_of(self, attempt: Attempt) -> Tables:
        """What the planner of an attempt reads: each version of a table is opened once."""
        return attempt.pinned or self.tables

    @contextmanager
    def _attempted(self, branch: str, number: int, *, plans_long: bool) -> Iterator[Attempt]:
        """An attempt, perhaps with the branch's lock held while the write is planned as well.

        A writer that plans without it loses to another that publishes meanwhile. So it does only
        at first, and only while nobody else is writing or was of late: else it would plan for
        nothing, and among many small writers some would lose again and again.
        """
        lock = self.storage.locks.lock(layout.branch_lock(branch), doing="plan")
        if not plans_long:
            if number >= OPTIMISTIC_ATTEMPTS:
                lock.acquire()
            elif self._turns.are_taken(branch) or self._is_busy(branch):
                lock.acquire_within(PLANNING_WAIT_S)
        try:
            yield self.attempt(branch, None if lock.holder is None else lock)
        finally:
            lock.release()

    def _is_busy(self, branch: str) -> bool:
        """Does another process hold the branch's lock? Not asked where that takes a request."""
        return self.storage.location.is_local and (
            self.storage.locks.read_holder(layout.branch_lock(branch)) is not None
        )

    def open_for_write(self, attempt: Attempt, table_key: str) -> WritableTable:
        """A table to stage on; forked first if the branch has no lineage of its own yet."""
        base = attempt.snapshot
        entry = base.entry(table_key)
        if not needs_fork(entry, base.branch):
            table = self.tables_of(attempt).open(entry.ref, entry.table_version)
            return WritableTable(table, entry.table_version, entry.row_count)
        with self.locked(base.branch, "fork", held=attempt.lock) as lock:
            self.sweeper.heal(base.branch, lock)
            current = self.manifest.snapshot(base.branch)
            return fork_table(HeldTables(self.tables), entry, base, current, lock.check)

    def publish(self, plan: WritePlan) -> Published:
        """Make the plan true, all of it, or raise and leave everything as it was.

        The files of a plan that came too late are left to the next attempt. They are synced
        while we wait for the lock and look at what has happened meanwhile.
        """
        recorded = False
        synced = Beside(partial(sync_staged, self.storage, plan.staged))
        try:
            name, operation_id = plan.kind.value, plan.operation_id
            with self.locked(plan.branch, name, operation_id, held=plan.attempt.lock) as lock:
                held = HeldTables(self.tables)
                plan, sidecar = self._prepared(plan, lock, held, synced)
                recorded = True
                stored = self.phases.record(sidecar)
                self._hand_over(plan, stored, lock)
                with Ahead(self.publisher, plan, sidecar, held) as ahead:
                    published = self.phases.carry_out(plan, stored, lock, held, ahead)
                if not published.warnings:
                    self._left_open.leave(published.snapshot, held)
                return published
        except (StalePlan, SchemaChanged):
            if isinstance(failure := synced.error(), SyncFailed):
                raise failure from None  # Planned again, the same files would be synced again.
            raise
        except BaseException:
            synced.error()
            if not recorded:
                discard_files(self.storage, plan.staged, plan.spared)
            raise

    def _prepared(
        self, plan: WritePlan, lock: Lock, held: HeldTables, synced: Beside[None]
    ) -> tuple[WritePlan, Sidecar]:
        """Under the lock: is the plan still true, and are its staged files safe?"""
        self.sweeper.heal(plan.branch, lock)
        current = self.manifest.snapshot(plan.branch)
        refuse_later_writes(current)
        held.consider(self._left_open.tables(current))
        settle_history(held, self.manifest, current, lock.check)
        check_head(plan.if_commit, current)
        given, plan = plan, self._caught_up(plan, current)
        held.consider(_planned_on(plan))
        try:
            plan.guard()
            self._check_tables(plan, current, lock, held)
            plan = replace(plan, attempt=plan.attempt.at(current))
            sidecar = describe(plan, _head(plan, lock.token), new_ulid())
            if plan.registrations or plan.tombstones:
                self.publisher.check(sidecar.to_publish(), lock.check)
            synced.result()
            if plan.tables is not given.tables:
                sync_staged(self.storage, plan.staged)
            self._sync_new_branch(current)
            plan.before_a(held, lock.check)
            faults.hit("write.before_a")
            plan.guard()
            lock.check()
        except BaseException:
            if plan.tables is not given.tables:
                discard_files(self.storage, plan.staged, plan.spared)
            raise
        return plan, sidecar

    def _caught_up(self, plan: WritePlan, current: Snapshot) -> WritePlan:
        """The plan, on the present state if that is another which does not concern it."""
        try:
            check_assumptions(plan, current)
        except StalePlan:
            rebased = None if plan.rebase is None else plan.rebase(plan, current)
            if rebased is None:
                raise
            check_assumptions(rebased, current)
            used = plan.spared | {file.path for write in rebased.staged for file in write.files}
            discard_files(self.storage, plan.staged, used)
            return rebased
        return plan

    def _hand_over(self, plan: WritePlan, stored: StoredSidecar, lock: Lock) -> None:
        """From here on the staged files are the sidecar's; if they are not to be had, nothing has moved."""
        try:
            plan.on_recorded()
        except BaseException:
            with suppress(OmnigraphError):
                forget_sidecar(self.storage, stored, lock.check)
            raise

    def _sync_new_branch(self, current: Snapshot) -> None:
        """Before the first commit on a branch: its maker may have died before syncing it."""
        fork = read_fork(self.tables, manifest_ref(layout.MAIN_BRANCH), current.branch)
        if fork is not None and fork.parent_version == current.manifest_version:
            sync_fork(self.storage, manifest_ref(layout.MAIN_BRANCH), current.branch)

    def _check_tables(self, plan: WritePlan, current: Snapshot, lock: Lock, held: HeldTables) -> None:
        """Versions of ours that no sidecar explains are a late writer's: undone, never published."""
        try:
            check_tables(held, plan, lock.check)
        except (TableNotFound, StagedFileMissing) as error:
            forks = [table for table in plan.tables if table.fork is not None]
            if not forks:
                raise
            raise StalePlan(forks[0].ref.key, forks[0].base_version, 0) from error
        except Drift as drift:
            head = self.tables.open(drift.table.ref)
            if not is_all_ours(head, since=drift.published):
                raise
            self.undo_late_write(current, drift.table, head, lock)
            raise StalePlan(drift.table_key, drift.published, head.version + 1) from drift

    def undo_late_write(self, current: Snapshot, table: TableWrite, head: Table, lock: Lock) -> None:
        """Roll back versions of ours, up to `head`, that no sidecar explains."""
        sidecar = describe_late_write(current, table, head, lock.token)
        self.recoverer.recover(self.phases.record(sidecar), lock)

    @contextmanager
    def locked(
        self, branch: str, doing: str, operation_id: str | None = None, *, held: Lock | None = None
    ) -> Iterator[Lock]:
        """The branch's lock: taken and released, or the one that the attempt holds anyway."""
        if held is not None:
            yield held
            return
        name = layout.branch_lock(branch)
        with self.storage.locks.lock(name, doing=doing, operation_id=operation_id).acquire() as lock:
            yield lock


def _planned_on(plan: WritePlan) -> Iterator[Table]:
    """The tables that were planned on, where they are published: the branch still has these versions.

    A fork that nobody has published may have been made anew.
    """
    for table in plan.tables:
        opened = plan.attempt.pinned and plan.attempt.pinned.kept(table.ref, table.base_version)
        if opened and table.fork is None:
            yield opened


def _head(plan: WritePlan, lock_token: int) -> GraphHead:
    """The head row of this write; for one that makes no commit, the present one with our marks."""
    if not plan.is_own_actor:
        check_actor(plan.actor)
    parent = plan.base.head
    if not plan.makes_commit and parent is not None:
        return replace(parent, operation_id=plan.operation_id, lock_token=lock_token)
    commit = Commit(
        commit_id=new_ulid(),
        parent_commit_id=parent.commit_id if parent else None,
        merged_parent_commit_id=plan.merged_parent_commit_id,
        actor_id=plan.actor,
        created_at=max(now_us(), parent.created_at + 1 if parent else 0),
        operation=plan.kind.operation,
        schema_hash=plan.schema.schema_hash if plan.schema else plan.attempt.schema_hash,
        message=plan.message,
        details=plan.details_with_files,
    )
    whole = sealed(commit, parent.commit if parent else None, plan.published_tables)
    return GraphHead(whole, plan.operation_id, Outcome.APPLIED, lock_token)
