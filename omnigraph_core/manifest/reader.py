"""Reading `__manifest`: snapshots of any branch at any version, cheap when little has changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from omnigraph_core import layout
from omnigraph_core.errors import ConflictError, NotFoundError, OmnigraphError, StorageError
from omnigraph_core.manifest.branch import MAIN, Branch, lineage_of
from omnigraph_core.manifest.rows import COLUMNS, GraphHead, VersionMetadata, version_object_id
from omnigraph_core.manifest.snapshot import EMPTY_STATE, STATE_COLUMNS, ManifestState, Snapshot
from omnigraph_core.manifest.stamp import refuse_future_stamp
from omnigraph_core.records import dataclass
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import GraphMoved, TableNotFound
from omnigraph_core.tables.fence import RowPlace
from omnigraph_core.tables.fork_refs import (
    Fork,
    ForkRef,
    RefState,
    find_ref,
    fork_names,
    list_refs,
    list_refs_near,
    missing_ref,
)
from omnigraph_core.tables.keys import quote_text
from omnigraph_core.tables.limits import FRAGMENTS_MAX
from omnigraph_core.tables.refs import TableRef, control_table
from omnigraph_core.tables.torn import broken_file, open_newest_whole, versions_on_disk

if TYPE_CHECKING:
    import pyarrow as pa


class BranchNotFound(NotFoundError):
    def __init__(self, branch: str, reason: str | None = None) -> None:
        super().__init__(
            f"branch '{branch}' does not exist{'' if reason is None else f': {reason}'}",
            hint="`omnigraph branch list` shows what there is",
        )
        self.branch = branch

    def details(self) -> Mapping[str, object]:
        return {"branch": self.branch}


class BranchReplaced(ConflictError):
    """The branch was deleted and another one of the same name created."""


@dataclass(frozen=True, slots=True)
class RecordedCommit:
    """A commit that something else than `__manifest` knows to have been published."""

    commit_id: str
    manifest_version: int


class ManifestDamaged(StorageError):
    """A version of `__manifest` that was acknowledged is missing or torn."""

    def __init__(self, branch: str, path: str, recorded: RecordedCommit | None) -> None:
        known = (
            f"commit {recorded.commit_id} at manifest version {recorded.manifest_version} is recorded"
            if recorded
            else "its history cannot be read either"
        )
        super().__init__(
            f"the manifest of branch '{branch}' is damaged: {path} is missing or short, but {known}",
            hint=f"restore {path} from a backup; until then, writes are refused",
        )
        self.branch, self.path, self.recorded = branch, path, recorded

    def details(self) -> Mapping[str, object]:
        commit_id = self.recorded.commit_id if self.recorded else None
        return {"branch": self.branch, "path": self.path, "commit_id": commit_id}


class Testimony(Protocol):
    """What history and the writes under way know of published commits."""

    def pending_commits(self) -> frozenset[str]:
        """Commits that writes which have begun and not ended make, or their recovery."""

    def recorded_above(self, branch: str, version: int, *, thorough: bool = False) -> RecordedCommit | None:
        """A commit on record above a version that no pending write explains, if there is one.

        Cheap when there is none, unless it is to be `thorough`.
        """

    def is_silent(self, branch: str) -> bool:
        """Is history unreadable itself, and no write pending that explains it?"""

    def lost(self, names: Sequence[str]) -> list[str]:
        """Those of these branches whose ref is gone although nobody deleted them."""

    def was_made(self, name: str) -> bool:
        """Is it on record that the branch was made to its end, and not that it was deleted?"""


class NoTestimony:
    """Of a manifest that has no graph around it: nobody knows of any commit."""

    def pending_commits(self) -> frozenset[str]:
        return frozenset()

    def recorded_above(self, branch: str, version: int, *, thorough: bool = False) -> RecordedCommit | None:
        return None

    def is_silent(self, branch: str) -> bool:
        return False

    def lost(self, names: Sequence[str]) -> list[str]:
        return []

    def was_made(self, name: str) -> bool:
        return False


class Heads(Protocol):
    """Who knows the head of a state that has no head row: one of the Rust original's."""

    def head_of(self, snapshot: Snapshot) -> GraphHead | None:
        """The commit that this state is, as a head row of ours would say it; None if nobody can tell."""


def manifest_ref(branch: str) -> TableRef:
    """`__manifest` on a graph branch."""
    return control_table(layout.MANIFEST, lineage_of(branch))


# Every commit on a branch moves its twin on the commit table, too.
_WITNESS = control_table(layout.COMMITS)


class Manifest:
    """The manifest of one graph. Keeps the last state it saw of each branch."""

    def __init__(
        self, tables: Tables, testimony: Testimony | None = None, heads: Heads | None = None
    ) -> None:
        self.tables = tables
        self.testimony: Testimony = testimony or NoTestimony()
        self.heads = heads
        """Asked for states without a head row. What a publish stands on is never made up."""
        self._states: dict[Branch, ManifestState] = {}
        self._newest: dict[Branch, Table] = {}
        """The last HEAD of each branch; asked whether it still is before it is used."""

    def branches(self) -> dict[str, Fork]:
        """All graph branches but main, by name; `RefDamaged` if one of them may be missing."""
        forks = (found.fork_or_none() for found in self.branch_refs())
        return {fork.name: fork for fork in forks if fork is not None}

    def branch_refs(self) -> list[ForkRef]:
        """The ref files of all graph branches but main, in whatever state they are.

        Also those that are missing. On object storage nothing but a person deletes an object, and
        looking for them takes requests: there `lost_refs` has to be asked for them.
        """
        found = self._judged(list_refs(self.tables, manifest_ref(layout.MAIN_BRANCH), _WITNESS))
        if not self.tables.storage.location.is_local:
            return found
        return [*found, *self.lost_refs({each.name for each in found})]

    def lost_refs(self, known: Collection[str] | None = None) -> list[ForkRef]:
        """Refs that are missing of branches that nobody deleted; their twins tell where to look."""
        main = manifest_ref(layout.MAIN_BRANCH)
        refs = fork_names(self.tables, main) if known is None else known
        alone = sorted(set(fork_names(self.tables, _WITNESS)).difference(refs))
        return [missing_ref(main, name) for name in (self.testimony.lost(alone) if alone else ())]

    def branch_refs_near(self, name: str) -> list[ForkRef]:
        """The same, of the lines alone that share a directory with this name; no other file is read."""
        return self._judged(list_refs_near(self.tables, manifest_ref(layout.MAIN_BRANCH), name, _WITNESS))

    def branch_ref(self, branch: str) -> ForkRef | None:
        """The ref file of one branch in whatever state it is, also if it is missing; None if there is
        no such branch."""
        main = manifest_ref(layout.MAIN_BRANCH)
        found = find_ref(self.tables, main, branch, _WITNESS)
        if found is None and branch != layout.SCHEMA_LOCK_BRANCH and self.testimony.lost([branch]):
            return missing_ref(main, branch)
        return next(iter(self._judged([] if found is None else [found])), None)

    def _judged(self, found: Iterable[ForkRef]) -> list[ForkRef]:
        """With those as damage that look like a create that never finished, and were finished."""
        return [
            replace(each, state=RefState.DAMAGED)
            if each.state is RefState.UNFINISHED and self._was_made(each)
            else each
            for each in found
        ]

    def _was_made(self, found: ForkRef) -> bool:
        """It may have been made while we looked."""
        if not self.testimony.was_made(found.name):
            return False
        now = find_ref(self.tables, manifest_ref(layout.MAIN_BRANCH), found.name, _WITNESS)
        return now is not None and (now.state, now.e_tag) == (RefState.UNFINISHED, found.e_tag)

    def has_branch(self, branch: str) -> bool:
        """Is there such a branch? Looks at no other, so that damage to another does not matter."""
        if branch == layout.MAIN_BRANCH:
            return True
        found = self.branch_ref(branch)
        return found is not None and found.fork_or_none() is not None

    def has_other_branches(self) -> bool:
        """Is there any branch but main, damaged or not?"""
        return any(found.state is not RefState.UNFINISHED for found in self.branch_refs())

    def branch_names(self) -> list[str]:
        """All branches, main among them, sorted; internal ones hidden."""
        names = [name for name in self.branches() if name != layout.SCHEMA_LOCK_BRANCH]
        return sorted([layout.MAIN_BRANCH, *names])

    def branch(self, name: str) -> Branch:
        """The branch that has this name now."""
        if name == layout.MAIN_BRANCH:
            return MAIN
        found = self.branch_ref(name)
        fork = None if found is None else found.fork_or_none()
        if fork is None:
            raise BranchNotFound(name)
        return Branch(name, fork.identity)

    def open(self, branch: str, version: int | None = None) -> Table:
        """The manifest table; refused when a newer OmniGraph wrote it."""
        try:
            table = self.tables.open(manifest_ref(branch), version)
        except TableNotFound:
            if branch == layout.MAIN_BRANCH:
                raise
            raise BranchNotFound(branch) from None
        except GraphMoved as moved:
            if self.is_original():
                moved.hint = "`omnigraph adopt` converts the graph, and its branches then refer to this place"
            raise
        refuse_future_stamp(table)
        return table

    def newest(self, branch: Branch) -> Table:
        """HEAD, opened only if it is not the one that is known."""
        known = self._newest.get(branch)
        with suppress(StorageError):  # Opening it says better what is wrong.
            if known is not None and self.tables.is_head(known):
                return known
        known = self._newest[branch] = self.open(branch.name)
        return known

    def open_for_read(self, branch: str) -> Table:
        """HEAD, or the version before it when a power cut tore HEAD."""
        try:
            return self.newest(MAIN) if branch == layout.MAIN_BRANCH else self.open(branch)
        except StorageError:
            return self.open_before_torn(branch)

    def open_before_torn(self, branch: str) -> Table:
        """The newest whole version, for a caller that failed to read HEAD.

        Only what was not acknowledged may be passed over: a power cut tears publishes that
        nobody has been told of. Where history knows better, it is damage.
        """
        ref = manifest_ref(branch)
        if not self.tables.storage.location.is_local:
            return self.open(branch)
        table = open_newest_whole(self.tables, ref)
        refuse_future_stamp(table)
        self._refuse_lost(branch, table.version, thorough=True)
        if self.testimony.is_silent(branch):
            self._refuse_broken(branch, max(versions_on_disk(self.tables, ref)), None)
        return table

    def _refuse_lost(self, branch: str, version: int, *, thorough: bool = False) -> None:
        """Raise if a commit above `version` is on record whose manifest version is not whole.

        One that is whole by now was published after we looked.
        """
        recorded = self.testimony.recorded_above(branch, version, thorough=thorough)
        if recorded is not None:
            self._refuse_broken(branch, recorded.manifest_version, recorded)

    def _refuse_broken(self, branch: str, version: int, recorded: RecordedCommit | None) -> None:
        path = broken_file(self.tables, manifest_ref(branch), version)
        if path is not None:
            raise ManifestDamaged(branch, path, recorded)

    def snapshot(self, branch: str = layout.MAIN_BRANCH) -> Snapshot:
        """The branch as it is now.

        Its files go when it is deleted, and a new branch may have files of the same names. So
        what was read counts only if the branch is the same afterwards; else it is read again.
        """
        looked_at = self.branch(branch)
        try:
            found = self._headed(self._newest_state(looked_at).snapshot(looked_at))
        except OmnigraphError:
            if self.branch(branch) == looked_at:
                raise
            return self.snapshot(branch)
        return found if self.branch(branch) == looked_at else self.snapshot(branch)

    def _newest_state(self, branch: Branch) -> ManifestState:
        try:
            return self.state_of(self.newest(branch), branch)
        except StorageError:
            return self.state_of(self.open_before_torn(branch.name), branch)

    def paths(self, branch: str) -> dict[str, str]:
        """Every place where the branch ever had a table, with a key of it; dropped and renamed ones, too."""
        return self.paths_of(self.branch(branch))

    def paths_of(self, branch: Branch) -> dict[str, str]:
        """The same, also of a branch that is deleted and whose files are still there."""
        return self._newest_state(branch).paths

    def snapshot_at_version(self, version: int, branch: str = layout.MAIN_BRANCH) -> Snapshot:
        """The branch as it was at a manifest version. For a commit, see `history/travel.py`."""
        return self.snapshot_of(self.branch(branch), version)

    def snapshot_of(self, branch: Branch, version: int) -> Snapshot:
        """The same, also of a branch that is deleted and whose files are still there."""
        known = self._states.get(branch)
        if known is not None and known.manifest_version == version:
            return self._headed(known.snapshot(branch))
        return self._headed(_full_state(self.open(branch.name, version)).snapshot(branch))

    def is_original(self) -> bool:
        """Is this a graph of the Rust original? Its manifests have the same shape, and no head row.

        A graph that is just being made has no manifest yet; that is nobody's but its maker's.
        """
        try:
            return self._newest_state(MAIN).head is None
        except TableNotFound:
            return False

    def _headed(self, found: Snapshot) -> Snapshot:
        """The snapshot with a head, also if its state has no row of one."""
        if found.head is not None or self.heads is None:
            return found
        return replace(found, head=self.heads.head_of(found))

    def version_metadata(self, branch: str, table_key: str, version: int) -> VersionMetadata | None:
        """What the row of exactly this table version says, also when newer ones exist."""
        object_id = quote_text(version_object_id(table_key, version))
        rows = self.open(branch).read(["metadata"], f"object_id = {object_id}")
        return VersionMetadata.from_json(rows.column("metadata")[0].as_py()) if rows.num_rows else None

    def state_of(self, table: Table, branch: Branch) -> ManifestState:
        """The reduced rows of this manifest version, from the last known state if it is a prefix.

        A state stays a prefix while all of its fragments are still there; a compaction
        replaces fragments, and then everything is read again.
        """
        known = self._states.get(branch, EMPTY_STATE)
        if known.manifest_version == table.version:
            return known
        if not known.fragment_ids or known.manifest_version > table.version:
            self._refuse_missing(table, branch.name)
        fragment_ids = table.fragment_ids()
        if known.manifest_version > table.version or not known.fragment_ids <= fragment_ids:
            known = EMPTY_STATE
        table.check_columns(COLUMNS)
        fresh = sorted(fragment_ids - known.fragment_ids)
        rows = table.read(STATE_COLUMNS, fragment_ids=fresh, with_row_id=True, with_row_address=True)
        state = known.advanced(table.version, fragment_ids, rows)
        self._states[branch] = state
        return state

    def known_head(self, branch: Branch) -> tuple[Table, ManifestState] | None:
        """HEAD and its state as they were read last, without looking."""
        table, state = self._newest.get(branch), self._states.get(branch)
        if table is None or state is None or table.version != state.manifest_version:
            return None
        return table, state

    def advance(
        self, base: Table, published: Table, branch: Branch, rows: pa.Table, head_row_id: int | None
    ) -> ManifestState:
        """The state after a publish of these rows on top of `base`; they need not be read back.

        Only if they are one fragment with the head row in front, which has kept its row id, and
        if the publish is the very next version: Lance may have put it on top of another.
        """
        known = self._states.get(branch, EMPTY_STATE)
        fragment_ids = published.fragment_ids()
        added = fragment_ids - known.fragment_ids
        is_next = known.manifest_version == base.version == published.version - 1
        if head_row_id is None or not is_next or len(added) != 1:
            return self.state_of(published, branch)
        head_at = RowPlace(min(added) << 32, head_row_id)
        state = known.published(published.version, fragment_ids, rows.select(STATE_COLUMNS), head_at)
        self._states[branch] = state
        self._newest[branch] = published
        return state

    def may_be_compacted(self, branch: Branch) -> bool:
        """False if the last state that was seen has few fragments."""
        known = self._states.get(branch)
        return known is None or len(known.fragment_ids) > FRAGMENTS_MAX

    def _refuse_missing(self, table: Table, branch: str) -> None:
        """A HEAD whose manifest was deleted leaves nothing to fail on: ask, once a process and branch.

        On object storage nothing but a person deletes an object, and asking takes requests.
        """
        if self.tables.storage.location.is_local:
            self._refuse_lost(branch, table.version)


def is_same_branch(manifest: Manifest, base: Snapshot) -> bool:
    """Is the branch still the one the snapshot is of? `BranchNotFound` if there is none.

    Its files go when it is deleted, so that may be why reading them fails; and a new branch of
    its name may have files of the same names.
    """
    return manifest.branch(base.branch) == base.on


def check_branch(manifest: Manifest, base: Snapshot) -> None:
    """Raise unless it is."""
    if not is_same_branch(manifest, base):
        raise BranchReplaced(f"branch '{base.branch}' was deleted and recreated in the meantime")


def _full_state(table: Table) -> ManifestState:
    table.check_columns(COLUMNS)
    rows = table.read(STATE_COLUMNS)
    return EMPTY_STATE.advanced(table.version, table.fragment_ids(), rows)
