"""Reading `__manifest`: snapshots of any branch at any version, cheap when little has changed."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_core import layout
from omnigraph_core.errors import ConflictError, NotFoundError, StorageError
from omnigraph_core.manifest.rows import VersionMetadata, version_object_id
from omnigraph_core.manifest.snapshot import EMPTY_STATE, STATE_COLUMNS, ManifestState, Snapshot
from omnigraph_core.manifest.stamp import refuse_future_stamp
from omnigraph_core.tables.branches import Fork, list_forks, read_fork
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import TableNotFound
from omnigraph_core.tables.keys import quote_text
from omnigraph_core.tables.refs import TableRef, control_table
from omnigraph_core.tables.torn import open_newest_whole


class BranchNotFound(NotFoundError):
    def __init__(self, branch: str) -> None:
        super().__init__(
            f"branch '{branch}' does not exist", hint="`omnigraph branch list` shows what there is"
        )
        self.branch = branch

    def details(self) -> Mapping[str, object]:
        return {"branch": self.branch}


class BranchReplaced(ConflictError):
    """The branch was deleted and another one of the same name created."""


def manifest_ref(branch: str) -> TableRef:
    """`__manifest` on a graph branch; the graph's main is Lance's main."""
    return control_table(layout.MANIFEST, None if branch == layout.MAIN_BRANCH else branch)


class Manifest:
    """The manifest of one graph. Keeps the last state it saw of each branch."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._states: dict[tuple[str, str | None], ManifestState] = {}

    def branches(self) -> dict[str, Fork]:
        """All graph branches but main, by name."""
        return list_forks(self.tables, manifest_ref(layout.MAIN_BRANCH))

    def branch_names(self) -> list[str]:
        """All branches, main among them, sorted; internal ones hidden."""
        names = [name for name in self.branches() if name != layout.SCHEMA_LOCK_BRANCH]
        return sorted([layout.MAIN_BRANCH, *names])

    def branch_identity(self, branch: str) -> str | None:
        """What tells this branch from another that used its name before; None for main."""
        if branch == layout.MAIN_BRANCH:
            return None
        fork = read_fork(self.tables, manifest_ref(layout.MAIN_BRANCH), branch)
        if fork is None:
            raise BranchNotFound(branch)
        return fork.identity

    def open(self, branch: str, version: int | None = None) -> Table:
        """The manifest table; refused when a newer OmniGraph wrote it."""
        try:
            table = self.tables.open(manifest_ref(branch), version)
        except TableNotFound:
            if branch == layout.MAIN_BRANCH:
                raise
            raise BranchNotFound(branch) from None
        refuse_future_stamp(table)
        return table

    def open_for_read(self, branch: str) -> Table:
        """HEAD, or the version before it when a power cut tore HEAD."""
        try:
            return self.open(branch)
        except StorageError:
            return self.open_before_torn(branch)

    def open_before_torn(self, branch: str) -> Table:
        """The newest whole version, for whoever failed to read HEAD."""
        ref = manifest_ref(branch)
        if not self.tables.storage.location.is_local:
            return self.open(branch)
        table = open_newest_whole(self.tables, ref)
        refuse_future_stamp(table)
        return table

    def snapshot(self, branch: str = layout.MAIN_BRANCH) -> Snapshot:
        """The branch as it is now."""
        identity = self.branch_identity(branch)
        try:
            state = self.state_of(self.open(branch), branch, identity)
        except StorageError:
            state = self.state_of(self.open_before_torn(branch), branch, identity)
        return state.snapshot(branch, identity)

    def snapshot_at_version(self, version: int, branch: str = layout.MAIN_BRANCH) -> Snapshot:
        """The branch as it was at a manifest version."""
        identity = self.branch_identity(branch)
        return _full_state(self.open(branch, version)).snapshot(branch, identity)

    def version_metadata(self, branch: str, table_key: str, version: int) -> VersionMetadata | None:
        """What the row of exactly this table version says, also when newer ones exist."""
        object_id = quote_text(version_object_id(table_key, version))
        rows = self.open(branch).read(["metadata"], f"object_id = {object_id}")
        return VersionMetadata.from_json(rows.column("metadata")[0].as_py()) if rows.num_rows else None

    def state_of(self, table: Table, branch: str, identity: str | None) -> ManifestState:
        """The reduced rows of this manifest version, from the last known state if it is a prefix.

        A state stays a prefix while all of its fragments are still there; a compaction
        replaces fragments, and then everything is read again.
        """
        known = self._states.get((branch, identity), EMPTY_STATE)
        if known.manifest_version == table.version:
            return known
        fragment_ids = frozenset(table.fragment_rows())
        if known.manifest_version > table.version or not known.fragment_ids <= fragment_ids:
            known = EMPTY_STATE
        fresh = sorted(fragment_ids - known.fragment_ids)
        rows = table.read(STATE_COLUMNS, fragment_ids=fresh)
        state = known.advanced(table.version, fragment_ids, rows)
        self._states[(branch, identity)] = state
        return state


def check_branch(manifest: Manifest, base: Snapshot) -> None:
    """The branch must still be the one the snapshot is of. Its files go when it is deleted, so this
    is why reading them fails; and a new branch of its name may have files of the same names."""
    if manifest.branch_identity(base.branch) != base.branch_identity:
        raise BranchReplaced(f"branch '{base.branch}' was deleted and created again meanwhile")


def _full_state(table: Table) -> ManifestState:
    rows = table.read(STATE_COLUMNS)
    return EMPTY_STATE.advanced(table.version, frozenset(table.fragment_rows()), rows)
