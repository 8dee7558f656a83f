"""The deep look at history: every commit says what it said, and its tables are those it published.

Rows of the history and of `__manifest` are in files that no commit has a digest of. What they say is
sealed instead (`manifest/seal.py`), so that compaction may write them anew.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core.history.log import GraphCommit
from omnigraph_core.history.travel import snapshot_at
from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding, attempt, error
from omnigraph_core.manifest.commit import Commit
from omnigraph_core.manifest.rows import GraphHead
from omnigraph_core.manifest.seal import seal_for, seal_of, state_digest, state_of
from omnigraph_core.manifest.snapshot import table_state

_RESTORE = "restore it from a backup"


def check_seals(seen: Examination) -> Iterator[Finding]:
    for commit in seen.commits.values():
        yield from attempt("commit-changed", commit.commit_id, _seal, seen, commit)
    for name, state in seen.heads.items():
        if state.head is not None:
            yield from attempt("commit-changed", state.head.commit_id, _head_row, seen, name, state.head)


def _head_row(seen: Examination, name: str, head: GraphHead) -> Iterator[Finding]:
    parent = seen.commits.get(head.parent_commit_id or "")
    if not _is_intact(head.commit, parent):
        text = f"the head row of '{name}' is not what was written"
        yield error("commit-changed", head.commit_id, text, _RESTORE)


def _seal(seen: Examination, commit: GraphCommit) -> Iterator[Finding]:
    parent = seen.commits.get(commit.parent_commit_id or "")
    if not _is_intact(commit.commit, parent):
        text = "what is on record of it, or of its parent, is not what was written"
        yield error("commit-changed", commit.commit_id, text, _RESTORE)
        return
    recorded = state_of(commit.commit)
    if recorded is None or not seen.is_readable(commit):
        return
    tables = snapshot_at(seen.manifest, commit).tables.values()
    if state_digest(table_state(entry) for entry in tables) != recorded:
        text = f"version {commit.manifest_version} of the manifest has other tables than it published"
        yield error("commit-changed", commit.commit_id, text, _RESTORE)


def _is_intact(commit: Commit, parent: GraphCommit | None) -> bool:
    """Has it the seal that it should have? True of a commit without one, or whose parent is not on record."""
    found = seal_of(commit)
    if found is None or (parent is None and commit.parent_commit_id is not None):
        return True
    return found == seal_for(commit, None if parent is None else seal_of(parent.commit))
