"""History: one graph of commits, whole, that the heads and the manifest agree with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from omnigraph_core import layout
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.damage import has_row
from omnigraph_core.history.log import CommitLog, GraphCommit
from omnigraph_core.history.recoveries import read_recoveries
from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding, attempt, error, failed, note, warning

_OPEN = "omnigraph recovery run"


def check_history(seen: Examination) -> Iterator[Finding]:
    yield from attempt("cleanup-record-damaged", layout.CLEANUP_RECORD, _removals, seen)
    yield from attempt("recoveries-damaged", layout.RECOVERIES, _recoveries, seen)
    logs = seen.logs
    for name, problem in seen.log_failures.items():
        yield failed("history-damaged", name, problem)
    reached = {commit.commit_id for name, log in logs.items() for commit in log.history(name)}
    for name, log in logs.items():
        yield from _parents(name, log)
        yield from _orphans(seen, name, log, reached)
        yield from _head_row(seen, name)
    if seen.commits and not seen.log_failures:
        yield from attempt("commit-unreadable", layout.MANIFEST, _versions, seen)


def _removals(seen: Examination) -> Iterator[Finding]:
    _ = seen.removals
    yield from ()


def _recoveries(seen: Examination) -> Iterator[Finding]:
    read_recoveries(seen.tables, seen.manifest.testimony)
    yield from ()


def _parents(name: str, log: CommitLog) -> Iterator[Finding]:
    """All ancestors of a head are on record: a merge copies the rows its branch does not have. The
    original's does not, and the branch it merged may be gone."""
    for commit in log.history(name):
        merged = None if commit.operation is None else commit.merged_parent_commit_id
        for parent in (commit.parent_commit_id, merged):
            if parent is not None and parent not in log.commits:
                text = f"its parent {parent} is not on record"
                yield error("commit-parent-missing", f"{name} {commit.commit_id}", text)


def _orphans(seen: Examination, name: str, log: CommitLog, reached: Set[str]) -> Iterator[Finding]:
    """Rows of merges that were given up after copying. A live writer's are about to be reached."""
    orphans = sorted(log.commits.keys() - reached)
    if name in log.heads and orphans and seen.holder(layout.branch_lock(name)) is None:
        text = f"{len(orphans)} commit rows that no head descends from, {orphans[-1]} among them"
        yield note("commit-orphans", name, text)


def _head_row(seen: Examination, name: str) -> Iterator[Finding]:
    """The row is written before the sidecar goes. So if the head was read first, then the sidecars,
    and none of them is on this branch, the row is there by now."""
    head = seen.heads[name].head
    if head is None or seen.pending():
        return
    if not has_row(seen.tables, commits_ref(name), head.commit_id):
        text = f"the row of its head {head.commit_id} is missing; the next write there adds it"
        yield warning("head-row-missing", name, text, _OPEN)


def _versions(seen: Examination) -> Iterator[Finding]:
    """Commits that no cleanup has removed have their manifest version: it is listed before we ask
    what was removed, and cleanup says so before it removes."""
    lines = {place.path: place.times for place in seen.places}.get(layout.MANIFEST, {})
    there: Mapping[str | None, set[int]] = {branch: set(times.written) for branch, times in lines.items()}
    for commit in seen.commits.values():
        if commit.on.lineage in there and _is_lost(seen, commit, there[commit.on.lineage]):
            text = f"version {commit.manifest_version} of the manifest of '{commit.branch}' is gone"
            yield error("commit-unreadable", commit.commit_id, text)


def _is_lost(seen: Examination, commit: GraphCommit, there: set[int]) -> bool:
    """A version that is newer than the listing was published since."""
    newest = max(there, default=0)
    return commit.manifest_version <= newest and (
        commit.manifest_version not in there and seen.is_readable(commit)
    )
