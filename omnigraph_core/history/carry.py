"""Commits of another branch in the history of this one.

A merged commit is an ancestor, so the table of the branch must have its row, and those of its own
ancestors: the branch it was made on may be deleted the next day.
"""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph_core import faults
from omnigraph_core.history.bases import ancestors, parents_of
from omnigraph_core.history.commits import commits_ref, commits_schema
from omnigraph_core.history.log import CommitLog, GraphCommit
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.durability import Barrier
from omnigraph_core.tables.log_append import append_absent


def unknown_to(log: CommitLog, tip: GraphCommit, ours_id: str) -> list[GraphCommit]:
    """Everything that the source descends from and the target does not."""
    parents = parents_of(log)
    unknown = ancestors(parents, [tip.commit_id]) - ancestors(parents, [ours_id])
    return [log.commits[id_] for id_ in sorted(unknown) if id_ in log.commits]


def carry_commits(
    tables: Tables, branch: str, commits: Sequence[GraphCommit], operation_id: str, guard: Guard
) -> None:
    """Append the rows of these commits as far as the branch does not have them; synced.

    Under the branch's lock. Should the merge come to nothing, they are rows that nothing
    descends from: no listing of the branch has them.
    """
    import pyarrow as pa

    if not commits:
        return
    rows = pa.Table.from_pylist([_row(each) for each in commits], schema=commits_schema())
    barrier = Barrier(tables.storage)
    append_absent(tables, commits_ref(branch), "graph_commit_id", rows, operation_id, barrier, guard)
    barrier.sync()
    faults.hit("history.carried")


def _row(commit: GraphCommit) -> dict[str, object]:
    """The row as the commit's own branch has it."""
    return {
        "graph_commit_id": commit.commit_id,
        "manifest_branch": commit.on.lineage,
        "manifest_version": commit.manifest_version,
        "parent_commit_id": commit.parent_commit_id,
        "merged_parent_commit_id": commit.merged_parent_commit_id,
        "created_at": commit.created_at,
        "operation": commit.operation,
        "message": commit.message,
        "schema_hash": commit.schema_hash,
        "details": commit.details,
        "branch_identity": commit.on.identity,
    }
