"""What a publish says and assumes, and the rows that come of it once every assumption is compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from omnigraph_core.errors import ConflictError, InternalError
from omnigraph_core.manifest import rows as manifest_rows
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.rows import GraphHead, VersionMetadata
from omnigraph_core.manifest.snapshot import ManifestState
from omnigraph_core.records import dataclass

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


def checked_rows(request: Publish, state: ManifestState) -> pa.Table:
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
    if state.head is None:
        return  # A state of the original: its head is in no row. Whoever comes second loses the new one.
    actual_head = state.head.commit_id
    if request.expected_head is not None and request.expected_head != actual_head:
        raise HeadChanged(request.branch, request.expected_head, actual_head)
    actual_token = state.head.lock_token
    if request.expected_token is not None and request.expected_token != actual_token:
        raise HeadChanged(request.branch, f"token {request.expected_token}", f"token {actual_token}")


def _refuse_repeated(request: Publish) -> None:
    """Lance adds two rows of one key without a word, and then the key means nothing."""
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
