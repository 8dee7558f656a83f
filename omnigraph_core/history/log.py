"""Reading history: commits of all branches with their actors, and the graph they form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError, StorageError
from omnigraph_core.history.commits import actors_schema, commits_ref, commits_schema
from omnigraph_core.history.damage import check_actors, check_commits, check_newest_commits
from omnigraph_core.history.deleted import DeletedBranch, has_its_files
from omnigraph_core.history.recoveries import RECOVERY_ACTOR, Recovery, read_recoveries
from omnigraph_core.manifest.branch import Branch, name_of
from omnigraph_core.manifest.commit import Commit, OfCommit, Operation
from omnigraph_core.manifest.reader import Manifest, is_same_branch
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.failures import GraphMoved, TableNotFound
from omnigraph_core.tables.log_read import ALL, Newest, read_log_rows
from omnigraph_core.tables.refs import TableRef, control_table
from omnigraph_core.values.shown import one_line

if TYPE_CHECKING:
    import pyarrow as pa

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class GraphCommit(OfCommit):
    """One commit and its place: the branch it was made on, and a manifest version there."""

    commit: Commit
    on: Branch
    manifest_version: int
    branch_is_gone: bool = False
    """Known from its audit row alone: its branch was deleted, and another may have the name by now."""
    named: str | None = None
    """What its branch is called, if it was renamed."""

    def __repr__(self) -> str:
        message = "" if self.message is None else f": {one_line(self.message)}"
        made = f"on {self.shown_branch} by {self.actor_id}, {self.when:%F %T}Z"
        return f"<commit {self.commit_id} {made}{message}>"

    @property
    def branch(self) -> str:
        return self.on.name

    @property
    def shown_branch(self) -> str:
        """What people call the branch it was made on."""
        return self.named or self.branch

    @property
    def schema_hash(self) -> str | None:
        return self.commit.schema_hash

    @property
    def facts(self) -> tuple[object, ...]:
        """What head row and commit row both say."""
        return (self.parent_commit_id, self.created_at, self.operation, self.message, self.schema_hash)

    @property
    def had_actor(self) -> bool:
        """Every commit of ours has one, or says that it has none; the original's know no operation."""
        return self.operation is not None and "actor" not in json.loads(self.details or "{}")


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
        """The commit and its first parents, newest first; each once, also in a forged history."""
        current, passed = self.commits.get(commit_id), set[str]()
        while current is not None and current.commit_id not in passed:
            passed.add(current.commit_id)
            yield current
            current = self.commits.get(current.parent_commit_id or "")


def newest_first(commits: Iterable[GraphCommit]) -> list[GraphCommit]:
    """By time, then by id: the order of every listing."""
    return sorted(commits, key=lambda commit: (commit.created_at, commit.commit_id), reverse=True)


def read_log(tables: Tables, manifest: Manifest) -> CommitLog:
    """Read the commit tables of all branches, and the repairs of branches that are gone.

    A branch that is deleted while we read is gone as well. Those of a graph of the original that was
    moved cannot be read before it is adopted, and main still can.
    """
    logs = []
    for branch in (layout.MAIN_BRANCH, *sorted(manifest.branches())):
        try:
            logs.append(read_branch_log(tables, manifest, branch))
        except NotFoundError:
            continue
        except GraphMoved:
            if not manifest.is_original():
                raise
    commits = {id_: commit for log in reversed(logs) for id_, commit in log.commits.items()}
    for recovery in read_recoveries(tables, manifest.testimony):
        commits.setdefault(recovery.graph_commit_id, _from_recovery(recovery))
    return CommitLog(commits, {branch: head for log in logs for branch, head in log.heads.items()})


def read_branch_log(
    tables: Tables, manifest: Manifest, branch: str, *, with_actors: bool = True
) -> CommitLog:
    """The commits that one branch descends from (and perhaps more), without looking at others.

    Without the actors, whose table grows with every branch, for a caller that asks for ancestors only.

    A writer that died between its publish and its commit row leaves a head that the
    tables do not know yet; it is taken from the manifest, so history has no hole. Any other
    hole is damage, unless the branch was deleted meanwhile: then it no longer has a history, or has
    that of another branch of its name.
    """
    return _of_one_branch(
        manifest, branch, lambda snapshot: _log_of(tables, manifest, snapshot, with_actors=with_actors)
    )


def read_newest_log(tables: Tables, manifest: Manifest, branch: str, count: int) -> dict[str, GraphCommit]:
    """The newest commits that one branch descends from (and perhaps more), and at least so many.

    What it costs follows `count`, and not the length of the history. Holes are noticed down to the
    first commit that is not asked for.
    """
    return _of_one_branch(manifest, branch, lambda snapshot: _newest_of(tables, manifest, snapshot, count))


def _of_one_branch(manifest: Manifest, branch: str, read: Callable[[Snapshot], _Read]) -> _Read:
    """What is read of a branch, once it is known that it was the same branch all the time."""
    while True:
        snapshot = manifest.snapshot(branch)
        try:
            found = read(snapshot)
        except StorageError:
            if is_same_branch(manifest, snapshot):
                raise
        else:
            if is_same_branch(manifest, snapshot):
                return found


def read_deleted_log(
    tables: Tables, deleted: DeletedBranch, count: int | None = None
) -> dict[str, GraphCommit]:
    """The commits that a deleted branch was made with and made, or the newest of them; none if its files
    are another's by now."""
    found: dict[str, GraphCommit] = {}
    with suppress(NotFoundError):
        rows = _rows(tables, commits_ref(deleted.name), commits_schema(), Newest(count))
        actors = _actors(tables, rows if count is not None else None)
        found = {row["graph_commit_id"]: _from_row(row, actors) for row in rows}
    return found if has_its_files(tables, deleted) else {}


def _log_of(tables: Tables, manifest: Manifest, snapshot: Snapshot, *, with_actors: bool) -> CommitLog:
    branch = snapshot.branch
    rows = _rows(tables, commits_ref(branch), commits_schema())
    # After the commits: the row of an actor comes before that of its commit.
    actors = _actors(tables) if with_actors else {}
    head = snapshot.head
    if head is None:
        return CommitLog({row["graph_commit_id"]: _from_row(row, actors) for row in rows}, {})
    if head.actor_id:
        actors.setdefault(head.commit_id, head.actor_id)
    commits = {row["graph_commit_id"]: _from_row(row, actors) for row in rows}
    tip = GraphCommit(head.commit, snapshot.on, snapshot.manifest_version)
    check_commits(tables, tip, commits)
    commits.setdefault(tip.commit_id, tip)
    if with_actors:
        check_actors(tables, commits.values(), manifest.testimony)
    return CommitLog(commits, {branch: head.commit_id})


def _newest_of(tables: Tables, manifest: Manifest, snapshot: Snapshot, count: int) -> dict[str, GraphCommit]:
    rows = _rows(tables, commits_ref(snapshot.branch), commits_schema(), Newest(count))
    actors = _actors(tables, rows)
    head = snapshot.head
    if head is not None and head.actor_id:
        actors.setdefault(head.commit_id, head.actor_id)
    commits = {row["graph_commit_id"]: _from_row(row, actors) for row in rows}
    if head is not None:
        tip = GraphCommit(head.commit, snapshot.on, snapshot.manifest_version)
        check_newest_commits(tables, tip, commits)
        commits.setdefault(tip.commit_id, tip)
    check_actors(tables, commits.values(), manifest.testimony)
    return commits


def _actors(tables: Tables, of: Sequence[Mapping[str, Any]] | None = None) -> dict[str, str]:
    """Who made the commits: all of them, or those of some rows."""
    since = None if of is None else min((row["created_at"] for row in of), default=0)
    found = _rows(tables, control_table(layout.COMMIT_ACTORS), actors_schema(), Newest(since=since))
    return {row["graph_commit_id"]: row["actor_id"] for row in found}


def actor_of(tables: Tables, commit_id: str) -> str | None:
    """Who made a commit, if its row says so."""
    return _actors(tables).get(commit_id)


def read_commit_rows(tables: Tables, ref: TableRef) -> list[dict[str, Any]]:
    """The rows of a commit table as they are; the original's have fewer columns."""
    return _rows(tables, ref, commits_schema())


def _rows(tables: Tables, ref: TableRef, schema: pa.Schema, newest: Newest = ALL) -> list[dict[str, Any]]:
    """Rows of a commit table; none when the table is only created on demand."""
    try:
        rows: pa.Table = read_log_rows(tables, ref, schema, newest)
    except TableNotFound:
        return []
    columns = {name: rows.column(name) for name in rows.column_names}
    if "created_at" in columns:
        columns["created_at"] = columns["created_at"].cast("int64")
    decoded = {name: column.to_pylist() for name, column in columns.items()}
    return [dict(zip(decoded, values, strict=True)) for values in zip(*decoded.values(), strict=True)]


def _from_row(row: Mapping[str, Any], actors: Mapping[str, str]) -> GraphCommit:
    commit = Commit(
        commit_id=row["graph_commit_id"],
        parent_commit_id=row["parent_commit_id"],
        merged_parent_commit_id=row["merged_parent_commit_id"],
        actor_id=actors.get(row["graph_commit_id"]),
        created_at=row["created_at"],
        operation=row.get("operation"),
        schema_hash=row.get("schema_hash"),
        message=row.get("message"),
        details=row.get("details"),
    )
    made_on = Branch(name_of(row["manifest_branch"]), row.get("branch_identity"))
    return GraphCommit(commit, made_on, row["manifest_version"])


def _from_recovery(recovery: Recovery) -> GraphCommit:
    commit = Commit(
        commit_id=recovery.graph_commit_id,
        parent_commit_id=recovery.parent_commit_id,
        merged_parent_commit_id=None,
        actor_id=RECOVERY_ACTOR,
        created_at=recovery.created_at,
        operation=Operation.RECOVERY,
        schema_hash=None,
    )
    return GraphCommit(commit, Branch(recovery.branch), recovery.manifest_version, branch_is_gone=True)
