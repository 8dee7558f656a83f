"""`_graph_commits.lance` and `_graph_commit_actors.lance`: a projection of published head rows.

A row is written after the publish that made its commit true. When the writer died in
between, recovery writes it; so a row is missing only while its writer or the recovery
of it is at work, and never wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_core import faults, layout
from omnigraph_core.manifest.rows import GraphHead
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.durability import Barrier
from omnigraph_core.tables.log_append import append_if_absent, append_rows
from omnigraph_core.tables.refs import TableRef, control_table

if TYPE_CHECKING:
    import pyarrow as pa


def commits_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("graph_commit_id", pa.string(), nullable=False),
            pa.field("manifest_branch", pa.string()),
            pa.field("manifest_version", pa.uint64(), nullable=False),
            pa.field("parent_commit_id", pa.string()),
            pa.field("merged_parent_commit_id", pa.string()),
            pa.field("created_at", pa.timestamp("us"), nullable=False),
            pa.field("operation", pa.string()),
            pa.field("message", pa.string()),
            pa.field("schema_hash", pa.string()),
            pa.field("details", pa.string()),
        ]
    )


def actors_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("graph_commit_id", pa.string(), nullable=False),
            pa.field("actor_id", pa.string(), nullable=False),
            pa.field("created_at", pa.timestamp("us"), nullable=False),
        ]
    )


def commit_rows(head: GraphHead, branch: str, manifest_version: int) -> pa.Table:
    """The commit row of a head. `manifest_branch` is null on main."""
    import pyarrow as pa

    row = {
        "graph_commit_id": head.commit_id,
        "manifest_branch": None if branch == layout.MAIN_BRANCH else branch,
        "manifest_version": manifest_version,
        "parent_commit_id": head.parent_commit_id,
        "merged_parent_commit_id": head.merged_parent_commit_id,
        "created_at": head.created_at,
        "operation": head.operation,
        "message": head.message,
        "schema_hash": head.schema_hash,
        "details": head.details,
    }
    return pa.Table.from_pylist([row], schema=commits_schema())


def actor_rows(head: GraphHead) -> pa.Table:
    """The actor row of a head; none when nobody is named."""
    import pyarrow as pa

    row = {"graph_commit_id": head.commit_id, "actor_id": head.actor_id, "created_at": head.created_at}
    return pa.Table.from_pylist([row] if head.actor_id else [], schema=actors_schema())


def commits_ref(branch: str) -> TableRef:
    """The commit table of a graph branch: its twin has the branch's name."""
    return control_table(layout.COMMITS, None if branch == layout.MAIN_BRANCH else branch)


def record_commit(
    tables: Tables, head: GraphHead, branch: str, manifest_version: int, barrier: Barrier
) -> None:
    """Write the actor row, then the commit row, of a head that was just published."""
    if not tables.storage.location.is_local:
        # A holder of a lease may have slept past it: recovery may have written the rows.
        complete_commit(tables, head, branch, manifest_version)
        return
    if head.actor_id:
        actors = control_table(layout.COMMIT_ACTORS)
        append_rows(tables, actors, actor_rows(head), head.operation_id, barrier)
    faults.hit("history.actor_recorded")
    rows = commit_rows(head, branch, manifest_version)
    append_rows(tables, commits_ref(branch), rows, head.operation_id, barrier)
    faults.hit("history.commit_recorded")


def complete_commit(tables: Tables, head: GraphHead, branch: str, manifest_version: int) -> None:
    """The same, synced, for a head whose writer may have got any distance; under the branch lock."""
    key = "graph_commit_id"
    barrier = Barrier(tables.storage)
    if head.actor_id:
        actors = control_table(layout.COMMIT_ACTORS)
        append_if_absent(tables, actors, key, actor_rows(head), head.operation_id, barrier)
    faults.hit("history.actor_recorded")
    rows = commit_rows(head, branch, manifest_version)
    append_if_absent(tables, commits_ref(branch), key, rows, head.operation_id, barrier)
    barrier.sync()
    faults.hit("history.commit_recorded")


def create_commit_tables(tables: Tables, genesis: GraphHead, manifest_version: int) -> None:
    """Both tables of a new graph, with the genesis commit in them."""
    operation = genesis.operation_id
    commits = commit_rows(genesis, layout.MAIN_BRANCH, manifest_version)
    create_table(tables, control_table(layout.COMMITS), commits_schema(), operation, commits)
    create_table(tables, control_table(layout.COMMIT_ACTORS), actors_schema(), operation, actor_rows(genesis))
