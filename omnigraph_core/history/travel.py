"""Time travel: the graph as it was at a commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from omnigraph_core.errors import NotFoundError, OmnigraphError
from omnigraph_core.history.deleted import find_aside
from omnigraph_core.history.log import GraphCommit
from omnigraph_core.history.removed import read_removals
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.reader import BranchNotFound, Manifest
from omnigraph_core.manifest.rows import GraphHead
from omnigraph_core.manifest.snapshot import Snapshot


class CommitGone(NotFoundError):
    """The commit is on record, but what it held went with its branch."""

    def __init__(self, commit: GraphCommit) -> None:
        super().__init__(f"commit {commit.commit_id} was made on branch '{commit.branch}', which is deleted")
        self.commit_id, self.branch = commit.commit_id, commit.branch

    def details(self) -> Mapping[str, object]:
        return {"commit_id": self.commit_id, "branch": self.branch}


def branch_of(manifest: Manifest, commit: GraphCommit) -> Branch:
    """The branch a commit was made on, if it is still there as far as the commit's row tells.

    Also refused: a commit that cleanup has removed from it.
    """
    if commit.branch_is_gone:
        raise CommitGone(commit)
    try:
        named = manifest.branch(commit.branch)
    except BranchNotFound as error:
        raise CommitGone(commit) from error
    if not named.may_be(commit.on):
        raise CommitGone(commit)
    read_removals(manifest.tables.storage.control).refuse(commit)
    return named


def branch_of_any(manifest: Manifest, commit: GraphCommit) -> Branch:
    """The same, also of a branch that is put aside: until it is given up, its files are there."""
    try:
        return branch_of(manifest, commit)
    except CommitGone:
        if commit.branch_is_gone or find_aside(manifest.tables, commit.on) is None:
            raise
    read_removals(manifest.tables.storage.control).refuse(commit)
    return commit.on


def snapshot_at_any(manifest: Manifest, commit: GraphCommit) -> Snapshot:
    """The graph as it was at a commit of any branch, one that is put aside included.

    What was read counts only if `branch_of_any` says the same afterwards.
    """
    try:
        return snapshot_at(manifest, commit)
    except CommitGone:
        on = branch_of_any(manifest, commit)
    found = manifest.snapshot_of(on, commit.manifest_version)
    if found.head is None or found.head.commit_id != commit.commit_id:
        raise CommitGone(commit)
    return found


def snapshot_at(manifest: Manifest, commit: GraphCommit) -> Snapshot:
    """The graph as it was at a commit; `CommitGone` if its branch is gone, even if another has its name now.

    Another branch of the name has manifest versions of the same numbers. The row says whose
    commit it is, unless an older OmniGraph wrote it; the head row of that version says it too.
    """
    named = branch_of(manifest, commit)
    try:
        found = manifest.snapshot_at_version(commit.manifest_version, commit.branch)
    except OmnigraphError:
        # A cleanup that was recorded since may have removed it under our eyes.
        read_removals(manifest.tables.storage.control).refuse(commit)
        raise
    if found.on != named:
        raise CommitGone(commit)
    if found.head is not None and found.head.is_original and commit.operation is None:
        return _as_commit(found, found.head, commit)
    if found.head is not None and found.head.commit_id != commit.commit_id:
        raise CommitGone(commit)
    return found


def _as_commit(found: Snapshot, head: GraphHead, commit: GraphCommit) -> Snapshot:
    """The state as this commit of the original has it. Several of them may be at one manifest version."""
    as_read = replace(commit.commit, schema_hash=head.schema_hash)
    return replace(found, head=replace(head, commit=as_read))
