"""Reading history: commits of all branches with their actors, and the graph they form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError
from omnigraph_core.history.recoveries import RECOVERY_ACTOR, Recovery, read_recoveries
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.manifest.rows import GraphHead
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.failures import TableNotFound
from omnigraph_core.tables.log_append import read_log_rows
from omnigraph_core.tables.refs import control_table

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class GraphCommit:
    """One commit. `branch` is where it was made; `manifest_version` counts on that branch."""

    commit_id: str
    branch: str
    manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_at: int
    operation: str | None
    message: str | None
    schema_hash: str | None
    details: str | None
    branch_is_gone: bool = False
    """Known from its audit row alone: its branch was deleted, and another may have the name by now."""


class CommitGone(NotFoundError):
    """The commit is on record, but what it held went with its branch."""

    def __init__(self, commit: GraphCommit) -> None:
        super().__init__(f"commit {commit.commit_id} was made on branch '{commit.branch}', which is deleted")
        self.commit_id, self.branch = commit.commit_id, commit.branch

    def details(self) -> Mapping[str, object]:
        return {"commit_id": self.commit_id, "branch": self.branch}


@dataclass(frozen=True, slots=True)
class CommitLog:
    """The commits of every live branch by id, and the head of each branch."""

    commits: Mapping[str, GraphCommit]
    heads: Mapping[str, str]

    def history(self, branch: str) -> list[GraphCommit]:
        """Everything the head of a branch descends from, newest first."""
        found: dict[str, GraphCommit] = {}
        waiting = [self.heads[branch]] if branch in self.heads else []
        while waiting:
            commit = self.commits.get(waiting.pop())
            if commit is None or commit.commit_id in found:
                continue
            found[commit.commit_id] = commit
            parents = (commit.parent_commit_id, commit.merged_parent_commit_id)
            waiting += [parent for parent in parents if parent is not None]
        return newest_first(found.values())

    def first_parents(self, commit_id: str) -> Iterable[GraphCommit]:
        """The commit and its first parents, newest first."""
        current = self.commits.get(commit_id)
        while current is not None:
            yield current
            current = self.commits.get(current.parent_commit_id or "")


def newest_first(commits: Iterable[GraphCommit]) -> list[GraphCommit]:
    """By time, then by id: the order of every listing."""
    return sorted(commits, key=lambda commit: (commit.created_at, commit.commit_id), reverse=True)


def read_log(tables: Tables, manifest: Manifest) -> CommitLog:
    """Read the commit tables of all branches, and the repairs of branches that are gone.

    A branch that is deleted while we read is gone as well.
    """
    logs = []
    for branch in (layout.MAIN_BRANCH, *sorted(manifest.branches())):
        with suppress(NotFoundError):
            logs.append(read_branch_log(tables, manifest, branch))
    commits = {id_: commit for log in reversed(logs) for id_, commit in log.commits.items()}
    for recovery in read_recoveries(tables):
        commits.setdefault(recovery.graph_commit_id, _from_recovery(recovery))
    return CommitLog(commits, {branch: head for log in logs for branch, head in log.heads.items()})


def read_branch_log(tables: Tables, manifest: Manifest, branch: str) -> CommitLog:
    """The commits that one branch descends from (and perhaps more), without looking at others.

    A writer that died between its publish and its commit row leaves a head that the
    tables do not know yet; it is taken from the manifest, so history has no hole.
    """
    snapshot = manifest.snapshot(branch)
    actors = _actors(tables)
    rows = _rows(tables, layout.COMMITS, branch)
    commits = {row["graph_commit_id"]: _from_row(row, actors) for row in rows}
    if snapshot.head is None:
        return CommitLog(commits, {})
    commits.setdefault(snapshot.head.commit_id, _from_head(snapshot.head, snapshot))
    return CommitLog(commits, {branch: snapshot.head.commit_id})


def _actors(tables: Tables) -> dict[str, str]:
    return {
        row["graph_commit_id"]: row["actor_id"]
        for row in _rows(tables, layout.COMMIT_ACTORS, layout.MAIN_BRANCH)
    }


def _rows(tables: Tables, path: str, branch: str) -> list[dict[str, Any]]:
    """All rows of a commit table; none when the table is only created on demand."""
    ref = control_table(path, None if branch == layout.MAIN_BRANCH else branch)
    try:
        rows: pa.Table = read_log_rows(tables, ref)
    except TableNotFound:
        return []
    columns = {name: rows.column(name) for name in rows.column_names}
    if "created_at" in columns:
        columns["created_at"] = columns["created_at"].cast("int64")
    decoded = {name: column.to_pylist() for name, column in columns.items()}
    return [dict(zip(decoded, values, strict=True)) for values in zip(*decoded.values(), strict=True)]


def _from_row(row: Mapping[str, Any], actors: Mapping[str, str]) -> GraphCommit:
    return GraphCommit(
        commit_id=row["graph_commit_id"],
        branch=row["manifest_branch"] or layout.MAIN_BRANCH,
        manifest_version=row["manifest_version"],
        parent_commit_id=row["parent_commit_id"],
        merged_parent_commit_id=row["merged_parent_commit_id"],
        actor_id=actors.get(row["graph_commit_id"]),
        created_at=row["created_at"],
        operation=row.get("operation"),
        message=row.get("message"),
        schema_hash=row.get("schema_hash"),
        details=row.get("details"),
    )


def _from_recovery(recovery: Recovery) -> GraphCommit:
    return GraphCommit(
        commit_id=recovery.graph_commit_id,
        branch=recovery.branch,
        manifest_version=recovery.manifest_version,
        parent_commit_id=recovery.parent_commit_id,
        merged_parent_commit_id=None,
        actor_id=RECOVERY_ACTOR,
        created_at=recovery.created_at,
        operation="recovery",
        message=None,
        schema_hash=None,
        details=None,
        branch_is_gone=True,
    )


def _from_head(head: GraphHead, snapshot: Snapshot) -> GraphCommit:
    return GraphCommit(
        commit_id=head.commit_id,
        branch=snapshot.branch,
        manifest_version=snapshot.manifest_version,
        parent_commit_id=head.parent_commit_id,
        merged_parent_commit_id=head.merged_parent_commit_id,
        actor_id=head.actor_id,
        created_at=head.created_at,
        operation=head.operation,
        message=head.message,
        schema_hash=head.schema_hash,
        details=head.details,
    )
