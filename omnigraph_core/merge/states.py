"""The states that a merge reads: commits of any branch, as long as something still holds what they held."""

from __future__ import annotations

from omnigraph_core.diff.graph import State
from omnigraph_core.errors import NotFoundError
from omnigraph_core.history.bases import Parents, ancestors, parents_of
from omnigraph_core.history.log import CommitLog, GraphCommit
from omnigraph_core.history.removed import CommitRemoved
from omnigraph_core.history.travel import CommitGone, branch_of, branch_of_any, snapshot_at, snapshot_at_any
from omnigraph_core.manifest.reader import BranchReplaced
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.door import Door
from omnigraph_core.write.freshness import StalePlan


class States:
    """The commits that one try reads, and whether they still are what they were taken for."""

    def __init__(self, door: Door, log: CommitLog, tables: Tables | None = None) -> None:
        self._door = door
        self._tables = tables or door.tables
        self._log = log
        self._snapshots: dict[GraphCommit, Snapshot] = {}
        self.parents: Parents = parents_of(log)
        self._holders: dict[str, GraphCommit | None] = {}
        self._read: dict[str, GraphCommit] = {}
        self._bases: dict[str, GraphCommit] = {}
        self.passed_over: set[str] = set()
        """Commits that would have been bases, or bases of bases, and cannot be read."""

    def of(self, commit: GraphCommit) -> State:
        """What the commit of a live branch holds."""
        self._read[commit.commit_id] = commit
        return self._state(snapshot_at(self._door.manifest, commit))

    def _state(self, snapshot: Snapshot) -> State:
        return State(snapshot, Attempt(snapshot, self._door.schemas).schema)

    def at(self, commit_id: str) -> State:
        """What a base held, from wherever it can be read."""
        holder = self._holder(commit_id)
        if holder is None:
            raise NotFoundError(f"commit {commit_id} can no longer be read")
        self._bases[holder.commit_id] = holder
        return self._state(self._snapshot(holder))

    def is_readable(self, commit_id: str) -> bool:
        is_lost = self._holder(commit_id) is None
        if is_lost:
            self.passed_over.add(commit_id)
        return not is_lost

    def prove(self) -> None:
        """Raise unless every branch that was read from is still there; a base may be put aside.

        Another one may have got its name, and versions of the same numbers; what was read is its
        own if it is there afterwards. That it moved on meanwhile is no matter. `StalePlan` if
        another base has to be found, or another head of the source.
        """
        manifest = self._door.manifest
        try:
            for commit in self._read.values():
                branch_of(manifest, commit)
        except CommitGone as error:
            raise BranchReplaced(f"branch '{error.branch}' was deleted while it was read") from error
        except CommitRemoved as error:
            raise StalePlan("graph_head", 0, 0) from error
        try:
            for commit in self._bases.values():
                branch_of_any(manifest, commit)
        except NotFoundError as error:
            raise StalePlan("graph_head", 0, 0) from error

    def _holder(self, commit_id: str) -> GraphCommit | None:
        """The commit itself; or, if it went with its branch, one that holds the same."""
        if commit_id not in self._holders:
            commit = self._log.commits.get(commit_id)
            same = [*([] if commit is None else [commit]), *self._fast_forwards_to(commit_id)]
            self._holders[commit_id] = next((each for each in same if self._has_tables(each)), None)
        return self._holders[commit_id]

    def _fast_forwards_to(self, commit_id: str) -> list[GraphCommit]:
        """Merges of the commit into something it descends from: they hold exactly what it held."""
        below = ancestors(self.parents, [commit_id])
        return [
            each
            for each in self._log.commits.values()
            if each.merged_parent_commit_id == commit_id and each.parent_commit_id in below
        ]

    def _has_tables(self, commit: GraphCommit) -> bool:
        try:
            for entry in self._snapshot(commit).tables.values():
                self._tables.open(entry.ref, entry.table_version)
        except NotFoundError:
            return False
        return True

    def _snapshot(self, commit: GraphCommit) -> Snapshot:
        """Read once: `prove` says afterwards whether it was the branch's that it was taken for."""
        if commit not in self._snapshots:
            self._snapshots[commit] = snapshot_at_any(self._door.manifest, commit)
        return self._snapshots[commit]
