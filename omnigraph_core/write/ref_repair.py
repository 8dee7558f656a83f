"""Rebuilding damaged refs of graph branches, before anybody takes such a branch for one that is gone.

The refs of tables' forks are rebuilt when they are needed: a fork of the fork, the removal of the
branch, cleanup. Nothing else reads them.
"""

from __future__ import annotations

from contextlib import suppress

from omnigraph_core import layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.moves import MoveKind, newest_moves
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.reader import Manifest, manifest_ref
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.fork_refs import ForkRef, RefDamaged, RefState, list_refs
from omnigraph_core.tables.ref_repair import rebuild_ref
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.write.pending import pending_operations
from omnigraph_core.write.sidecar import read_sidecar
from omnigraph_core.write.sidecar_record import Sidecar

_Damaged = list[tuple[TableRef, ForkRef]]


def damaged_refs(manifest: Manifest) -> _Damaged:
    """Refs of branches and of their twins that cannot be read, and may stand for something.

    On object storage reading the twins' would cost a request a branch, with every command;
    there a twin is looked at when a branch is made from it.
    """
    main = manifest_ref(layout.MAIN_BRANCH)
    found = [(main, each) for each in manifest.branch_refs()]
    if manifest.tables.storage.location.is_local:
        twins = commits_ref(layout.MAIN_BRANCH)
        found += [(twins, each) for each in list_refs(manifest.tables, twins)]
    return [(ref, each) for ref, each in found if each.state is RefState.DAMAGED]


def repair_refs(manifest: Manifest, guard: Guard) -> None:
    """Rebuild what can be; under the refs lock. The rest stays an error for those who ask for it."""
    for ref, damaged in damaged_refs(manifest):
        known = _known_identity(manifest, damaged.name) if ref.path == layout.MANIFEST else None
        with suppress(RefDamaged):
            rebuild_ref(manifest.tables, ref, damaged, guard, known)


def _known_identity(manifest: Manifest, branch: str) -> str | None:
    """What the branch is known by: to a write that has not ended, for which it would look gone by another
    identity; to the commit at its head; or to the operation that made, brought back or renamed it.
    """
    control = manifest.tables.storage.control
    sidecars = [read_sidecar(control, each) for each in pending_operations(control)]
    mine = [each for each in sidecars if each is not None and each.branch == branch]
    try:
        state = manifest.state_of(manifest.open_for_read(branch), Branch(branch))
    except OmnigraphError:
        return None
    head = state.head.commit_id if state.head else None
    found = {each.on.identity for each in mine if _is_at(each, head)}
    if len(found) == 1:
        return found.pop()
    return _of_commit(manifest, branch, head) or _of_moves(manifest, branch)


def _of_commit(manifest: Manifest, branch: str, head: str | None) -> str | None:
    """The branch that the commit at the head was made on, if that is this one."""
    try:
        log = manifest.tables.open(commits_ref(branch))
        rows = log.read(["manifest_branch", "branch_identity"], f"graph_commit_id = '{head}'").to_pylist()
    except OmnigraphError:
        return None
    found = {row["branch_identity"] for row in rows if row["manifest_branch"] == branch}
    return found.pop() if len(found) == 1 else None


def _of_moves(manifest: Manifest, branch: str) -> str | None:
    """The newest operation on this line knows it, unless that one deleted it."""
    try:
        moves = [each for each in newest_moves(manifest) if not each.kind.is_of_tag and each.line == branch]
    except OmnigraphError:
        return None
    newest = max(moves, key=lambda move: move.operation_id, default=None)
    return None if newest is None or newest.kind is MoveKind.BRANCH_DELETE else newest.identity


def _is_at(sidecar: Sidecar, head: str | None) -> bool:
    """Does the write follow the head, or is it the head, published by itself or by its recovery?"""
    return head in (sidecar.base_head, sidecar.head.commit_id, sidecar.recovery_commit_id)
