"""The publisher: one merge-insert into `__manifest` makes a whole write visible.

Every publish also upserts the `graph_head` row, so two publishes on a branch always
touch a common key and one of them loses, even when their tables are disjoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from omnigraph_core import faults
from omnigraph_core.errors import ConflictError, InternalError, OmnigraphError, StorageError
from omnigraph_core.manifest import rows as manifest_rows
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.limits import PUBLISH_RETRIES
from omnigraph_core.manifest.reader import BranchReplaced, Manifest, manifest_ref
from omnigraph_core.manifest.rows import GraphHead, VersionMetadata
from omnigraph_core.manifest.snapshot import ManifestState, Snapshot
from omnigraph_core.manifest.stamp import migrate
from omnigraph_core.records import dataclass
from omnigraph_core.tables.commit import Guard, commit_exact
from omnigraph_core.tables.control_rewrite import stage_control_rewrite, tail_to_rewrite
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.durability import Barrier
from omnigraph_core.tables.failures import CommitLost, CommitUnknown, HeadMoved
from omnigraph_core.tables.fence import merge_fenced
from omnigraph_core.tables.staged import discard_files
from omnigraph_core.tables.torn import set_aside_torn, versions_on_disk

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Registration:
    """A table that comes into being; its first version is a separate update.

    A key that was registered before begins anew: what was published under it is of another
    table, and so are its tombstones. `replaces` is the version that is live until now, 0 if none is.
    """

    table_key: str
    table_path: str
    replaces: int = 0


@dataclass(frozen=True, slots=True)
class Update:
    """A table's new version. `branch` owns the data: None for main."""

    table_key: str
    version: int
    branch: str | None
    row_count: int
    metadata: VersionMetadata


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A table that goes; hides every version up to and including `version`."""

    table_key: str
    version: int


@dataclass(frozen=True, slots=True)
class Publish:
    """Everything one publish says, and everything it assumes."""

    on: Branch
    head: GraphHead
    registrations: Sequence[Registration] = ()
    updates: Sequence[Update] = ()
    tombstones: Sequence[Tombstone] = ()
    expected_versions: Mapping[str, int] = field(default_factory=dict)
    """Per table what the manifest must say now; 0 for one that must not exist."""
    expected_head: str | None = None
    """The head commit seen under the lock; None where there is no lock to have seen it under."""
    expected_token: int | None = None
    """The lock token of that head row. Recovery on object storage rewrites it to keep a paused
    writer out, without making a commit of it."""

    @property
    def branch(self) -> str:
        return self.on.name


class ExpectedVersionMismatch(ConflictError):
    """A table moved since the caller looked."""

    retryable = True

    def __init__(self, table_key: str, expected: int, actual: int) -> None:
        super().__init__(
            f"stale view of '{table_key}': expected manifest table version {expected} "
            f"but current is {actual}",
            hint="another writer committed in between; run the command again",
        )
        self.table_key = table_key
        self.expected = expected
        self.actual = actual

    def details(self) -> Mapping[str, object]:
        conflict = {"table_key": self.table_key, "expected": self.expected, "actual": self.actual}
        return {"manifest_conflict": conflict}


class HeadChanged(ConflictError):
    """Another publish came between the lock and ours: the lock was not what it seemed."""

    retryable = True

    def __init__(self, branch: str, expected: str | None, actual: str | None) -> None:
        super().__init__(
            f"the head of branch '{branch}' is {actual}, not {expected}: another writer published first"
        )
        self.branch, self.expected, self.actual = branch, expected, actual

    def details(self) -> Mapping[str, object]:
        return {"branch": self.branch, "expected_head": self.expected, "actual_head": self.actual}


class RowLevelCasContention(ConflictError):
    """Every try lost to another publish."""

    retryable = True


class Publisher:
    """Publishes to the manifest of one graph."""

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._tables = manifest.tables

    def publish(self, request: Publish, guard: Guard, barrier: Barrier | None = None) -> Snapshot:
        """Make the request true in one version of `__manifest` and return the result.

        `guard` raises when the branch lock is lost; asked before every attempt. The new
        version is synced, or left to the caller's `barrier`.
        """
        pending = barrier or Barrier(self._tables.storage)
        snapshot = self._publish(request, guard, pending)
        if barrier is None:
            pending.sync()
        return snapshot

    def _publish(self, request: Publish, guard: Guard, barrier: Barrier) -> Snapshot:
        for _ in range(1 + PUBLISH_RETRIES):
            table, state = self._current(request, guard)
            if _is_ours(state, request):
                return self._found(request, table, state, barrier)
            rows = _checked_rows(request, state)
            guard()
            faults.hit("manifest.before_publish")
            try:
                published = merge_fenced(self._tables, table, manifest_rows.OBJECT_ID, rows)
            except CommitLost:
                continue
            except StorageError as error:
                return self._settle(request, guard, error, barrier)
            faults.hit("manifest.after_publish")
            return self._finish(request, table, published, rows, barrier)
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
        _checked_rows(request, state)

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

    def _finish(
        self, request: Publish, base: Table, published: Table, rows: pa.Table, barrier: Barrier
    ) -> Snapshot:
        barrier.add_version(published, base)
        state = self._manifest.advance(base, published, request.on, rows)
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


def _checked_rows(request: Publish, state: ManifestState) -> pa.Table:
    """The rows to merge, after comparing every assumption with the current state."""
    _check_expectations(request, state)
    _refuse_repeated(request)
    registered = dict(state.locations)
    anew = {each.table_key: state.generation(each.table_key) + 1 for each in request.registrations}
    rows = [manifest_rows.head_row(request.head)]
    for registration in request.registrations:
        key, path = registration.table_key, registration.table_path
        registered[key] = path
        rows.append(manifest_rows.table_row(key, path, anew[key], _earlier(key, state)))
    for update in request.updates:
        key = update.table_key
        _check_update(update, registered, state, anew)
        generation = anew.get(key, state.generation(key))
        metadata = replace(update.metadata, commit_id=request.head.commit_id, generation=generation)
        rows.append(manifest_rows.version_row(key, update.version, update.branch, update.row_count, metadata))
    for tombstone in request.tombstones:
        _check_tombstone(tombstone, registered, state, anew)
        generation = state.generation(tombstone.table_key)
        rows.append(manifest_rows.tombstone_row(tombstone.table_key, tombstone.version, generation))
    return manifest_rows.rows_table(rows)


def _earlier(table_key: str, state: ManifestState) -> list[str]:
    """Where tables of this key have been so far: old commits read them there."""
    known = state.repeated[table_key].earlier if table_key in state.repeated else ()
    now = state.locations.get(table_key)
    return [*known, *([now] if now is not None and now not in known else [])]


def _check_expectations(request: Publish, state: ManifestState) -> None:
    replaced = {each.table_key: each.replaces for each in request.registrations}
    for table_key, expected in {**request.expected_versions, **replaced}.items():
        actual = state.current_version(table_key)
        if actual != expected:
            raise ExpectedVersionMismatch(table_key, expected, actual)
    actual_head = state.head.commit_id if state.head else None
    if request.expected_head is not None and request.expected_head != actual_head:
        raise HeadChanged(request.branch, request.expected_head, actual_head)
    actual_token = state.head.lock_token if state.head else None
    if request.expected_token is not None and request.expected_token != actual_token:
        raise HeadChanged(request.branch, f"token {request.expected_token}", f"token {actual_token}")


def _refuse_repeated(request: Publish) -> None:
    """A merge-insert adds two new rows of one key without a word, and then the key fences nothing."""
    for entries in (request.registrations, request.updates, request.tombstones):
        keys = [entry.table_key for entry in entries]
        if len(set(keys)) != len(keys):
            raise InternalError(f"a publish names a table twice: {', '.join(sorted(keys))}")


def _check_update(
    update: Update, registered: Mapping[str, str], state: ManifestState, anew: Mapping[str, int]
) -> None:
    """A version row is new, except that a fork may take over the very same content."""
    if update.table_key not in registered:
        raise InternalError(f"new version of table '{update.table_key}', which was never registered")
    if update.table_key in anew:
        return
    if update.version <= state.tombstones.get(update.table_key, 0):
        raise InternalError(
            f"table '{update.table_key}': version {update.version} would stay hidden behind a tombstone"
        )
    known = state.versions.get(update.table_key)
    if known is None or update.version > known.version:
        return
    if update.version == known.version and (
        update.branch != known.branch and update.row_count == known.row_count
    ):
        return
    raise InternalError(
        f"table '{update.table_key}': version {update.version} would replace published {known.version}"
    )


def _check_tombstone(
    tombstone: Tombstone, registered: Mapping[str, str], state: ManifestState, anew: Mapping[str, int]
) -> None:
    """A tombstone is new and hides what is published; a lower one would look like a drop and be none."""
    if tombstone.table_key not in registered:
        raise InternalError(f"tombstone of table '{tombstone.table_key}', which was never registered")
    if tombstone.table_key in anew:
        raise InternalError(f"table '{tombstone.table_key}' would come and go in one publish")
    if tombstone.version <= state.tombstones.get(tombstone.table_key, 0):
        raise InternalError(f"table '{tombstone.table_key}' already has a newer tombstone")
    known = state.versions.get(tombstone.table_key)
    if known is not None and tombstone.version < known.version:
        raise InternalError(
            f"tombstone {tombstone.version} of table '{tombstone.table_key}' would not hide {known.version}"
        )
