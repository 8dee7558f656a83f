"""`_graph_commits.lance` and `_graph_commit_actors.lance`: a projection of published head rows.

A row is written after the publish that made its commit true. When the writer died in
between, recovery writes it; so a row is missing only while its writer or the recovery
of it is at work, and never wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from omnigraph_core import faults, layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.manifest.branch import MAIN, Branch, lineage_of
from omnigraph_core.manifest.rows import GraphHead
from omnigraph_core.storage.beside import Beside
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.durability import Barrier
from omnigraph_core.tables.log_append import (
    Marks,
    WrittenRows,
    append_if_absent,
    append_rows,
    append_written,
    write_ahead,
)
from omnigraph_core.tables.refs import TableRef, control_table
from omnigraph_core.tables.staged import PUBLISHED_PROPERTY

if TYPE_CHECKING:
    import pyarrow as pa

_ACTORS = control_table(layout.COMMIT_ACTORS)
_ACTOR_KEYS = ("graph_commit_id", "actor_id")
_COMMIT_KEYS = ("graph_commit_id", "details")
"""The details hold the seal, which is of everything that a commit says."""


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
            pa.field("branch_identity", pa.string()),
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


def commit_rows(head: GraphHead, branch: Branch, manifest_version: int) -> pa.Table:
    """The commit row of a head. `manifest_branch` and `branch_identity` are null on main."""
    import pyarrow as pa

    row = {
        "graph_commit_id": head.commit_id,
        "manifest_branch": branch.lineage,
        "manifest_version": manifest_version,
        "parent_commit_id": head.parent_commit_id,
        "merged_parent_commit_id": head.merged_parent_commit_id,
        "created_at": head.created_at,
        "operation": head.operation,
        "message": head.message,
        "schema_hash": head.schema_hash,
        "details": _details(head),
        "branch_identity": branch.identity,
    }
    return pa.Table.from_pylist([row], schema=commits_schema())


def _details(head: GraphHead) -> str | None:
    """The head's, and that it has no actor: else a missing actor row is a lost one."""
    if head.actor_id:
        return head.details
    content = json.loads(head.details) if head.details else {}
    return json.dumps({**content, "actor": None}, ensure_ascii=False, separators=(",", ":"))


def actor_rows(head: GraphHead) -> pa.Table:
    """The actor row of a head; none when nobody is named."""
    import pyarrow as pa

    row = {"graph_commit_id": head.commit_id, "actor_id": head.actor_id, "created_at": head.created_at}
    return pa.Table.from_pylist([row] if head.actor_id else [], schema=actors_schema())


def commits_ref(branch: str) -> TableRef:
    """The commit table of a graph branch: its twin has the branch's name."""
    return control_table(layout.COMMITS, lineage_of(branch))


def published_mark(head: GraphHead, manifest_version: int) -> Marks:
    """What the transaction says that appends a commit row; `history/recorded.py` reads it."""
    return {PUBLISHED_PROPERTY: f"{manifest_version} {head.commit_id}"}


class CommitAhead:
    """The rows of a commit, written and synced beside its publish. Nobody sees them before `record_commit`.

    That would be too late for a publish which lands as another version than foreseen: the
    commit row names it, and is written again.
    """

    def __init__(self, tables: Tables, head: GraphHead, branch: Branch, manifest_version: int) -> None:
        self._control = tables.storage.control
        self._commits = commits_ref(branch.name)
        self._manifest_version = manifest_version
        self._is_ours = True
        commits, actors = tables.open(self._commits), tables.open(_ACTORS) if head.actor_id else None

        def write() -> list[WrittenRows]:
            todo = [(commits, commit_rows(head, branch, manifest_version))]
            if actors is not None:
                todo.append((actors, actor_rows(head)))
            # A log that lacks columns gets them first, when its rows are appended.
            ready = [(base, rows) for base, rows in todo if base.schema.names == rows.schema.names]
            return [write_ahead(tables, base, rows) for base, rows in ready]

        self._work = Beside(write)

    def written(self, manifest_version: int) -> Mapping[TableRef, WrittenRows]:
        """What is ready to be appended, now that the publish is known; the caller's from now on."""
        self._is_ours = False
        written = {each.base.ref: each for each in self._work.result()}
        if manifest_version != self._manifest_version and self._commits in written:
            self._discard([written.pop(self._commits)])
        return written

    def discard(self) -> None:
        """Remove the files, unless they were asked for."""
        if self._work.error() is None and self._is_ours:
            self._discard(self._work.result())

    def _discard(self, written: Sequence[WrittenRows]) -> None:
        for each in written:
            with suppress(OmnigraphError):
                self._control.delete_many(each.files)


def record_commit(
    tables: Tables,
    head: GraphHead,
    branch: Branch,
    manifest_version: int,
    barrier: Barrier,
    guard: Guard,
    ahead: CommitAhead | None = None,
) -> None:
    """Append the actor row, then the commit row, of a head that was just published."""
    if not tables.storage.location.is_local:
        # A holder of a lease may have slept past it: recovery may have written the rows.
        complete_commit(tables, head, branch, manifest_version, guard)
        return
    written = {} if ahead is None else ahead.written(manifest_version)
    operation_id, commits = head.operation_id, commits_ref(branch.name)
    if _ACTORS in written:
        append_written(tables, written[_ACTORS], operation_id, barrier)
    elif head.actor_id:
        append_rows(tables, _ACTORS, actor_rows(head), operation_id, barrier)
    faults.hit("history.actor_recorded")
    mark = published_mark(head, manifest_version)
    if commits in written:
        append_written(tables, written[commits], operation_id, barrier, mark)
    else:
        rows = commit_rows(head, branch, manifest_version)
        append_rows(tables, commits, rows, operation_id, barrier, mark)
    faults.hit("history.commit_recorded")


def complete_commit(
    tables: Tables, head: GraphHead, branch: Branch, manifest_version: int, guard: Guard
) -> None:
    """The same, synced, for a head whose writer may have got any distance; under the branch lock.

    The tables go by the name of the branch. So `guard` is asked before each row: without the lock,
    another branch may have the name by now.

    A row that says something else is from a publish that a power cut took, and that recovery has made
    again as another actor. It stays, and the newer row counts.
    """
    barrier, operation_id = Barrier(tables.storage), head.operation_id
    if head.actor_id:
        append_if_absent(tables, _ACTORS, _ACTOR_KEYS, actor_rows(head), operation_id, barrier, guard)
    faults.hit("history.actor_recorded")
    rows = commit_rows(head, branch, manifest_version)
    mark = published_mark(head, manifest_version)
    append_if_absent(tables, commits_ref(branch.name), _COMMIT_KEYS, rows, operation_id, barrier, guard, mark)
    barrier.sync()
    faults.hit("history.commit_recorded")


def create_commit_tables(tables: Tables, genesis: GraphHead, manifest_version: int) -> None:
    """Both tables of a new graph, with the genesis commit in them."""
    operation = genesis.operation_id
    commits = commit_rows(genesis, MAIN, manifest_version)
    create_table(tables, control_table(layout.COMMITS), commits_schema(), operation, commits)
    create_table(tables, _ACTORS, actors_schema(), operation, actor_rows(genesis))
