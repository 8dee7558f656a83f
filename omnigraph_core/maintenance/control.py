"""`__manifest` and the logs of commits: fewer fragments, and no rows that nobody asks for.

Each is one exact version on top of HEAD, under the branch's lock and with nothing pending. No
snapshot changes, so there is no commit, and nothing to finish for whoever comes after a crash.
"""

from __future__ import annotations

from typing import Any

from omnigraph_core import faults, layout
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.ids import new_ulid
from omnigraph_core.maintenance.drift import healed
from omnigraph_core.maintenance.limits import (
    CONTROL_FRAGMENTS_MAX,
    MANIFEST_DELETED_MAX,
    SUPERSEDED_ROWS_MAX,
)
from omnigraph_core.manifest.prune import IsKept, superseded_rows
from omnigraph_core.manifest.reader import BranchReplaced, manifest_ref
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Lock
from omnigraph_core.tables.commit import commit_exact
from omnigraph_core.tables.control_rewrite import tail_to_rewrite
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.durability import Barrier
from omnigraph_core.tables.failures import CommitLost, HeadMoved, TableNotFound
from omnigraph_core.tables.log_append import compact_log
from omnigraph_core.tables.refs import TableRef, control_table
from omnigraph_core.tables.stage import stage_delete_at
from omnigraph_core.tables.staged import discard_files
from omnigraph_core.write.door import Door


@dataclass(frozen=True, slots=True)
class Rewritable:
    """A control table of a branch, and the fragments of it that are worth one."""

    ref: TableRef
    fragments: int
    chosen: tuple[int, ...]
    bytes: int
    """Size of their files."""

    @property
    def fragments_after(self) -> int:
        return self.fragments - len(self.chosen) + bool(self.chosen)


def rewritable(door: Door, branch: str) -> list[Rewritable]:
    """What there is to do; writes nothing. The logs that all branches share are main's business."""
    refs = [manifest_ref(branch), *_logs(branch)]
    return [found for ref in refs if (found := _look(door, ref)) is not None]


def _logs(branch: str) -> list[TableRef]:
    shared = (layout.COMMIT_ACTORS, layout.RECOVERIES) if branch == layout.MAIN_BRANCH else ()
    return [commits_ref(branch), *map(control_table, shared)]


def _look(door: Door, ref: TableRef) -> Rewritable | None:
    """None for a log without a row yet."""
    try:
        table = door.tables.open(ref)
    except TableNotFound:
        return None
    chosen = _chosen(table)
    files = (
        file
        for fragment in table.lance.get_fragments()
        if fragment.fragment_id in chosen
        for file in fragment.metadata.files
    )
    size = sum(file.file_size_bytes or 0 for file in files)
    return Rewritable(ref, table.count_fragments(), tuple(chosen), size)


def _chosen(table: Table) -> list[int]:
    """The tail of small fragments; all of them where most rows are deleted ones."""
    fragments: list[Any] = [fragment.metadata for fragment in table.lance.get_fragments()]
    deleted = sum(fragment.num_deletions for fragment in fragments)
    if deleted > max(MANIFEST_DELETED_MAX, sum(fragment.num_rows for fragment in fragments)):
        return [fragment.id for fragment in fragments]
    return tail_to_rewrite(table.fragment_rows(), CONTROL_FRAGMENTS_MAX)


def compact_control(door: Door, branch: str) -> list[Rewritable]:
    """Rewrite what is worth it, and say what that was. A writer that comes first wins."""
    wanted = [each for each in rewritable(door, branch) if each.chosen]
    if not wanted:
        return []
    with door.locked(branch, "optimize") as lock:
        healed(door, branch, lock)
        barrier, operation_id = Barrier(door.storage), new_ulid()
        if any(each.ref.path == layout.MANIFEST for each in wanted):
            _rewrite_manifest(door, branch, operation_id, lock, barrier)
            barrier.sync()
            faults.hit("optimize.manifest_rewritten")
        for each in wanted:
            if each.ref.path != layout.MANIFEST:
                lock.check()
                compact_log(door.tables, each.ref, operation_id, barrier, CONTROL_FRAGMENTS_MAX)
        barrier.sync()
        faults.hit("optimize.logs_rewritten")
    return wanted


def _rewrite_manifest(door: Door, branch: str, operation_id: str, lock: Lock, barrier: Barrier) -> None:
    table = door.manifest.newest(door.manifest.branch(branch))
    if chosen := _chosen(table):
        door.publisher.rewrite(table, chosen, operation_id, lock.check, barrier)


def count_superseded(door: Door, head: Snapshot, is_kept: IsKept) -> int:
    """How many rows `prune_manifest` would delete."""
    table = door.manifest.newest(head.on)
    found = len(superseded_rows(table, door.manifest.state_of(table, head.on), is_kept))
    return found if found > SUPERSEDED_ROWS_MAX else 0


def prune_manifest(door: Door, head: Snapshot, is_kept: IsKept) -> int:
    """Delete superseded rows of a branch's manifest, unless they are few; returns how many.

    `BranchReplaced` if the branch is not the one that was decided about.
    """
    if not count_superseded(door, head, is_kept):
        return 0
    with door.locked(head.branch, "cleanup") as lock:
        current = healed(door, head.branch, lock)
        if current.on != head.on:
            raise BranchReplaced(f"branch '{head.branch}' was deleted and recreated in the meantime")
        table = door.manifest.newest(current.on)
        rows = superseded_rows(table, door.manifest.state_of(table, current.on), is_kept)
        operation_id, barrier = new_ulid(), Barrier(door.storage)
        staged = stage_delete_at(door.storage, table, rows, f"{len(rows)} superseded rows", operation_id)
        barrier.add_files(file.path for file in staged.files)
        try:
            pruned = commit_exact(door.tables, staged, lock.check)
        except (CommitLost, HeadMoved):
            discard_files(door.storage, [staged])
            return 0
        barrier.add_version(pruned, table)
        barrier.sync()
        faults.hit("cleanup.pruned")
        _rewrite_manifest(door, head.branch, operation_id, lock, barrier)
        barrier.sync()
    return len(rows)
