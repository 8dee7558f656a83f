"""Rows that history must have and does not: what the manifest and its own tables know better.

A log may be read from an older version when its newest is torn, and a version that was
deleted leaves no trace at all. So what was read is compared with what must be there:

- every first parent of a head has a commit row, and none is its own ancestor. (The head itself
  may be without one while its writer is at work; the head row has all of it. Of a commit of the
  original, whose row knows neither operation nor schema, the head row says more.)
- every commit of ours has an actor, every commit by recovery an audit row; their writer
  may be under way or dead, and then a sidecar names them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from omnigraph_core import layout
from omnigraph_core.errors import OmnigraphError, StorageError
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.manifest.reader import Testimony, manifest_ref
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.keys import quote_text
from omnigraph_core.tables.refs import TableRef, control_table
from omnigraph_core.tables.torn import torn_file, versions_on_disk

if TYPE_CHECKING:
    from omnigraph_core.history.log import GraphCommit


class HistoryDamaged(StorageError):
    """A table of the history has lost rows that were acknowledged."""

    def __init__(self, commit_id: str, lacks: str, path: str) -> None:
        super().__init__(
            f"the history is damaged: commit {commit_id} lacks {lacks}, which {path} should have",
            hint=f"restore {path} from a backup; the rows of the graph are not affected",
        )
        self.commit_id, self.path = commit_id, path

    def details(self) -> Mapping[str, object]:
        return {"commit_id": self.commit_id, "path": self.path}


def check_commits(tables: Tables, head: GraphCommit, recorded: Mapping[str, GraphCommit]) -> None:
    """Do the rows of a branch, and the head as its manifest has it, make one history?"""
    lost = _check_known(tables, head, recorded)
    if lost is not None:
        raise HistoryDamaged(lost, "its row", damaged_file(tables, commits_ref(head.branch)))


def check_newest_commits(tables: Tables, head: GraphCommit, recorded: Mapping[str, GraphCommit]) -> None:
    """The same of the newest rows alone: the first one that is not among them must be older, and not lost."""
    below, ref = _check_known(tables, head, recorded), commits_ref(head.branch)
    if below is not None and not has_row(tables, ref, below):
        raise HistoryDamaged(below, "its row", damaged_file(tables, ref))


def _check_known(tables: Tables, head: GraphCommit, recorded: Mapping[str, GraphCommit]) -> str | None:
    """Do the rows that are there agree? The first parent that is not among them, if there is one."""
    ref = commits_ref(head.branch)
    for commit in recorded.values():
        if (commit.operation is None) != (commit.schema_hash is None):
            raise HistoryDamaged(commit.commit_id, "its operation or schema", damaged_file(tables, ref))
    row = recorded.get(head.commit_id)
    is_original = row is not None and row.operation is None and head.operation is None
    if row is not None and not is_original and row.facts != head.facts:
        raise HistoryDamaged(head.commit_id, "what its head row says", damaged_file(tables, ref))
    if row is None:
        _check_follows(head, recorded)
    current, passed = head.parent_commit_id, {head.commit_id}
    while current is not None and current in recorded:
        if current in passed:
            raise HistoryDamaged(current, "ancestors other than itself", damaged_file(tables, ref))
        passed.add(current)
        current = recorded[current].parent_commit_id
    return current


def _check_follows(head: GraphCommit, recorded: Mapping[str, GraphCommit]) -> None:
    """A head without a row is the child of the newest commit that has one; else it is no true head.

    Rows above it are of a publish that a power cut tore, and whose recovery is pending.
    """
    mine = [each for each in recorded.values() if each.on.may_be(head.on)]
    below = [each for each in mine if each.manifest_version <= head.manifest_version]
    newest = max(below, key=lambda each: each.manifest_version, default=None)
    if newest is not None and newest.commit_id != head.parent_commit_id:
        path = manifest_ref(head.branch).directory
        raise HistoryDamaged(newest.commit_id, f"a head that follows it ({head.commit_id} does not)", path)


def check_actors(tables: Tables, commits: Iterable[GraphCommit], testimony: Testimony) -> None:
    """No commit that must have an actor may be without, unless its writer is not done."""
    nameless = {each.commit_id for each in commits if each.actor_id is None and each.had_actor}
    unexplained = nameless - testimony.pending_commits() if nameless else ()
    for commit_id in sorted(unexplained):
        actors = control_table(layout.COMMIT_ACTORS)
        raise HistoryDamaged(commit_id, "its actor", damaged_file(tables, actors))


def check_audits(tables: Tables, unaudited: Collection[str], testimony: Testimony) -> None:
    """No commit of a recovery may be without its audit row, unless the recovery is not done.

    One that ended while we looked has its row by now.
    """
    unexplained = set(unaudited) - testimony.pending_commits() if unaudited else ()
    audits = control_table(layout.RECOVERIES)
    for commit_id in sorted(unexplained):
        if not has_row(tables, audits, commit_id):
            raise HistoryDamaged(commit_id, "its audit row", damaged_file(tables, audits))


def damaged_file(tables: Tables, ref: TableRef) -> str:
    """The file that is torn, or the dataset when it is whole and has lost a version."""
    try:
        newest = next(iter(versions_on_disk(tables, ref)), None)
        found = None if newest is None else torn_file(tables, ref, newest)
    except OmnigraphError:
        found = None
    return found or ref.directory


def has_row(tables: Tables, ref: TableRef, commit_id: str) -> bool:
    try:
        return tables.open(ref).count_rows(f"graph_commit_id = {quote_text(commit_id)}") > 0
    except OmnigraphError:
        return False
