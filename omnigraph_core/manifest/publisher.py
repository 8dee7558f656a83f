"""The publisher: one version of `__manifest` makes a whole write visible.

Every publish also replaces the `graph_head` row, so two publishes on a branch always
touch a common row and one of them loses, even when their tables are disjoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_core import faults
from omnigraph_core.errors import ConflictError, InternalError, OmnigraphError, StorageError
from omnigraph_core.manifest.fenced import ArrangedRows, PublishAhead, arranged, known_places, upsert_fenced
from omnigraph_core.manifest.limits import PUBLISH_RETRIES
from omnigraph_core.manifest.reader import BranchReplaced, Manifest, manifest_ref
from omnigraph_core.manifest.request import Publish, checked_rows
from omnigraph_core.manifest.snapshot import ManifestState, Snapshot
from omnigraph_core.manifest.stamp import migrate
from omnigraph_core.tables.commit import Guard, commit_exact
from omnigraph_core.tables.control_rewrite import stage_control_rewrite, tail_to_rewrite
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.durability import Barrier
from omnigraph_core.tables.failures import CommitLost, CommitUnknown, HeadMoved
from omnigraph_core.tables.staged import discard_files
from omnigraph_core.tables.torn import set_aside_torn, versions_on_disk

if TYPE_CHECKING:
    pass


class RowLevelCasContention(ConflictError):
    """Every try lost to another publish."""

    retryable = True


class Publisher:
    """Publishes to the manifest of one graph."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._tables = manifest.tables

    def publish(
        self,
        request: Publish,
        guard: Guard,
        barrier: Barrier | None = None,
        ahead: PublishAhead | None = None,
    ) -> Snapshot:
        """Make the request true in one version of `__manifest` and return the result.

        `guard` raises when the branch lock is lost; asked before every attempt. The new
        version is synced, or left to the caller's `barrier`.
        """
        pending = barrier or Barrier(self._tables.storage)
        snapshot = self._publish(request, guard, pending, ahead)
        if barrier is None:
            pending.sync()
        return snapshot

    def ahead(self, request: Publish) -> PublishAhead | None:
        """Have the files of this publish written beside the caller, who holds the lock and has read the
        manifest under it; None if that needs more reading, or the publish would be refused."""
        known = self._manifest.known_head(request.on)
        if known is None or not self._tables.storage.location.is_local:
            return None
        table, state = known
        try:
            rows = checked_rows(request, state)
        except OmnigraphError:
            return None
        places = known_places(state, rows)
        if places is None:
            return None
        return PublishAhead(self._tables, table, state, rows, places, request.head.operation_id)

    def _publish(
        self, request: Publish, guard: Guard, barrier: Barrier, ahead: PublishAhead | None
    ) -> Snapshot:
        for _ in range(1 + PUBLISH_RETRIES):
            table, state = self._current(request, guard)
            if _is_ours(state, request):
                return self._found(request, table, state, barrier)
            if ahead is not None and not ahead.is_for(state):
                ahead.discard()
                ahead = None
            rows = ahead.arranged if ahead else arranged(table, state, checked_rows(request, state))
            guard()
            faults.hit("manifest.before_publish")
            try:
                published = upsert_fenced(self._tables, table, rows, request.head.operation_id, ahead)
            except CommitLost:
                continue
            except StorageError as error:
                return self._settle(request, guard, error, barrier)
            faults.hit("manifest.after_publish")
            self._add(published, table, barrier, is_synced=ahead is not None)
            return self._finish(request, table, published, rows)
        raise RowLevelCasContention(
            f"branch '{request.branch}': lost {1 + PUBLISH_RETRIES} publishes in a row to other writers",
            hint="try again when fewer writers are active",
        )

    def check(self, request: Publish, guard: Guard) -> None:
        """Raise what `publish` would raise on the present state; asked before anything has moved.

        A write that moves its tables and is refused afterwards would be rolled forward, refused
        again, and keep everybody from writing.
        """
        _, state = self._current(request, guard)
        checked_rows(request, state)

    def compact(self, branch: str, operation_id: str, guard: Guard, barrier: Barrier | None = None) -> bool:
        """Rewrite the tail of small fragments if there are too many; True if it did.

        Losing to another publish is fine: theirs will find the same tail.
        """
        looked_at = self._manifest.branch(branch)
        if not self._manifest.may_be_compacted(looked_at):
            return False
        table = self._manifest.newest(looked_at)
        tail = tail_to_rewrite(table.fragment_rows())
        return bool(tail) and self.rewrite(table, tail, operation_id, guard, barrier)

    def rewrite(
        self,
        table: Table,
        fragment_ids: list[int],
        operation_id: str,
        guard: Guard,
        barrier: Barrier | None = None,
    ) -> bool:
        """Put one fragment in the place of these; False if another publish came first."""
        staged = stage_control_rewrite(self._tables.storage, table, fragment_ids, operation_id)
        if barrier is not None:
            # Of two versions that are synced side by side a power cut may keep the later one only,
            # and commits are read at the version they were published in.
            barrier.sync()
        try:
            rewritten = commit_exact(self._tables, staged, guard)
        except (CommitLost, HeadMoved):
            discard_files(self._tables.storage, [staged])
            return False
        pending = barrier or Barrier(self._tables.storage)
        pending.add_version(rewritten, table)
        if barrier is None:
            pending.sync()
        return True

    def _current(self, request: Publish, guard: Guard) -> tuple[Table, ManifestState]:
        if self._manifest.branch(request.branch) != request.on:
            raise BranchReplaced(f"branch '{request.branch}' was deleted and recreated in the meantime")
        try:
            return self._read_head(request, guard)
        except StorageError:
            if not self.set_aside_torn(request.branch, guard):
                raise
            return self._read_head(request, guard)

    def _read_head(self, request: Publish, guard: Guard) -> tuple[Table, ManifestState]:
        table = self._manifest.newest(request.on)
        table = migrate(self._tables, table, request.head.operation_id, guard)
        return table, self._manifest.state_of(table, request.on)

    def set_aside_torn(self, branch: str, guard: Guard) -> bool:
        """Was HEAD torn by a power cut? Then the version before it is HEAD again."""
        whole = self._manifest.open_before_torn(branch)
        return bool(set_aside_torn(self._tables, whole.ref, whole.version, guard))

    def set_aside_torn_above(self, branch: str, base: int, most: int, guard: Guard) -> None:
        """Set aside what a power cut left of a write that followed version `base`.

        It added `most` versions at the most. Where there are more, others have written since,
        and what cannot be read of theirs is damage.
        """
        ref = manifest_ref(branch)
        newest = versions_on_disk(self._tables, ref)[:1]
        if newest and newest[0] <= base + most:
            set_aside_torn(self._tables, ref, base, guard)

    def _add(self, published: Table, base: Table, barrier: Barrier, *, is_synced: bool) -> None:
        """Have the barrier make the new version safe, whose files may be."""
        if is_synced and published.version == base.version + 1:
            barrier.add_manifest(published)
        else:
            barrier.add_version(published, base)

    def _finish(self, request: Publish, base: Table, published: Table, arranged: ArrangedRows) -> Snapshot:
        state = self._manifest.advance(base, published, request.on, arranged.rows, arranged.head_row_id)
        if not _is_ours(state, request):
            raise InternalError("a publish succeeded, but the head row is not ours")
        return state.snapshot(request.on)

    def _settle(self, request: Publish, guard: Guard, error: StorageError, barrier: Barrier) -> Snapshot:
        """After a failure that is not a lost race: did it land all the same?"""
        try:
            table, state = self._current(request, guard)
        except OmnigraphError as second:
            raise CommitUnknown(
                f"cannot tell whether the publish to branch '{request.branch}' landed: {error}"
            ) from second
        if not _is_ours(state, request):
            raise error
        return self._found(request, table, state, barrier)

    def _found(self, request: Publish, table: Table, state: ManifestState, barrier: Barrier) -> Snapshot:
        """Our publish landed without our noticing; synced anew, as nobody may have come that far."""
        barrier.add_version(table, None)
        return state.snapshot(request.on)


def _is_ours(state: ManifestState, request: Publish) -> bool:
    """The whole row counts: publishes of indexes and fences repeat the commit id of the head."""
    return state.head == request.head
