"""Rebuilding damaged refs of graph branches, before anybody takes such a branch for one that is gone.

The refs of tables' forks are rebuilt when they are needed: a fork of the fork, the removal of the
branch, cleanup; and by `recovery run`. Nothing else reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from omnigraph_core import layout
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.lost import identities_on_record, living
from omnigraph_core.history.moves import Move, newest_moves
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.reader import Manifest, manifest_ref
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.fork_refs import (
    ForkRef,
    RefDamaged,
    RefState,
    fork_names,
    list_refs,
    missing_ref,
    trees_on_disk,
)
from omnigraph_core.tables.keys import quote_text
from omnigraph_core.tables.ref_repair import rebuild_ref
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.torn import versions_on_disk
from omnigraph_core.write.pending import pending_operations
from omnigraph_core.write.sidecar import read_sidecar
from omnigraph_core.write.sidecar_record import Sidecar
from omnigraph_core.write.testimony import adopted_branches, move_records

_Damaged = list[tuple[TableRef, ForkRef]]


def damaged_refs(manifest: Manifest, *, thorough: bool = False) -> _Damaged:
    """Refs of branches and of their twins that cannot be read or are missing, and may stand for something.

    On object storage reading the twins' would cost a request a branch, with every command;
    there a twin is looked at when a branch is made from it. Who is `thorough` also finds branches whose
    twin has lost its ref as well, and forks of tables without one.
    """
    main = manifest_ref(layout.MAIN_BRANCH)
    refs = manifest.branch_refs()
    found = [(main, each) for each in refs]
    if thorough:
        found += [(main, each) for each in [*lost_refs(manifest), *strange_refs(manifest, refs)]]
        found += missing_forks(manifest.tables, _heads(manifest, refs))
    if manifest.tables.storage.location.is_local:
        twins = commits_ref(layout.MAIN_BRANCH)
        found += [(twins, each) for each in list_refs(manifest.tables, twins)]
    damaged = ((ref.path, each.name, ref, each) for ref, each in found if each.state is RefState.DAMAGED)
    return list({(path, name): (ref, each) for path, name, ref, each in damaged}.values())


def lost_refs(manifest: Manifest) -> list[ForkRef]:
    """Refs that are missing of branches that nobody deleted, whatever else of them is there."""
    main = manifest_ref(layout.MAIN_BRANCH)
    without = set(trees_on_disk(manifest.tables, main)).difference(fork_names(manifest.tables, main))
    return [missing_ref(main, name) for name in manifest.testimony.lost(sorted(without))]


def strange_refs(manifest: Manifest, refs: Iterable[ForkRef]) -> list[ForkRef]:
    """Refs that can be read, and say another identity than is on record: commits and names know that one.

    Of a branch that a load made its commits alone are on record.
    """
    known = identities_on_record(move_records(manifest.tables.storage.control))
    whole = ((each, each.fork) for each in refs if each.state is RefState.WHOLE)
    return [
        replace(each, state=RefState.DAMAGED)
        for each, fork in whole
        if fork is not None
        and fork.identity not in known.get(each.name, (fork.identity,))
        and not _has_commit(manifest, Branch(each.name, fork.identity))
    ]


def _has_commit(manifest: Manifest, branch: Branch) -> bool:
    """Was a commit made on exactly this branch?"""
    made_there = f"manifest_branch = {quote_text(branch.name)} AND branch_identity = '{branch.identity}'"
    with suppress(OmnigraphError):
        return manifest.tables.open(commits_ref(branch.name)).count_rows(made_there) > 0
    return False


def missing_forks(tables: Tables, heads: Iterable[Snapshot]) -> _Damaged:
    """Twins of branches, and forks that they publish, whose files are there and whose refs are not."""
    lines = {commits_ref(head.branch) for head in heads}
    lines |= {entry.ref for head in heads for entry in head.tables.values()}
    return missing_refs(tables, lines)


def missing_refs(tables: Tables, lines: Iterable[TableRef]) -> _Damaged:
    """Of these lines of versions, those whose files are there and whose refs are not."""
    wanted: dict[TableRef, set[str]] = {}
    for line in lines:
        if line.branch is not None:
            wanted.setdefault(line.on(None), set()).add(line.branch)
    return [
        (ref, missing_ref(ref, name))
        for ref, names in wanted.items()
        for name in sorted(names.difference(fork_names(tables, ref)))
        if versions_on_disk(tables, ref.on(name))
    ]


def _heads(manifest: Manifest, refs: Iterable[ForkRef]) -> list[Snapshot]:
    """Of the branches that can be read."""
    found = []
    for each in refs:
        with suppress(OmnigraphError):
            if each.state is RefState.WHOLE:
                found.append(manifest.snapshot(each.name))
    return found


def repair_refs(manifest: Manifest, guard: Guard, *, thorough: bool = False) -> None:
    """Rebuild what can be; under the refs lock. The rest stays an error for those who ask for it.

    What is rebuilt may be what another needs: a branch to read what it publishes, a parent its child.
    """
    before: set[tuple[str, str]] = set()
    while left := damaged_refs(manifest, thorough=thorough):
        now = {(ref.path, damaged.name) for ref, damaged in left}
        if now == before:
            return
        before = now
        for ref, damaged in left:
            known = _known_identity(manifest, ref, damaged.name)
            with suppress(RefDamaged):
                rebuild_ref(manifest.tables, ref, damaged, guard, known)


def _known_identity(manifest: Manifest, ref: TableRef, branch: str) -> str | None:
    if ref.path == layout.COMMITS:
        return _twin_of_moves(manifest, branch)
    return _identity_of_branch(manifest, branch) if ref.path == layout.MANIFEST else None


def _identity_of_branch(manifest: Manifest, branch: str) -> str | None:
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
    """What was done on this line knows it, unless it was deleted."""
    there = living(_moves_of(manifest, branch), _adopted(manifest, branch)).get(branch, {})
    return max(there, key=lambda identity: max(map(_age, there[identity]), default=(0, "")), default=None)


def _adopted(manifest: Manifest, branch: str) -> Mapping[str, str]:
    with suppress(OmnigraphError):
        adopted = adopted_branches(manifest.tables.storage.control)
        return {branch: adopted[branch]} if branch in adopted else {}
    return {}


def _twin_of_moves(manifest: Manifest, branch: str) -> str | None:
    """Of the branch that is there, else of the one that was deleted last and can be brought back."""
    moves = _moves_of(manifest, branch)
    there = [move for known in living(moves, {}).get(branch, {}).values() for move in known]
    of_twins = [move for move in there or moves if move.twin is not None]
    return max(of_twins, key=_age).twin if of_twins else None


def _moves_of(manifest: Manifest, branch: str) -> list[Move]:
    try:
        return [each for each in newest_moves(manifest) if not each.kind.is_of_tag and each.line == branch]
    except OmnigraphError:
        return []


def _age(move: Move) -> tuple[int, str]:
    return move.created_at, move.operation_id


def _is_at(sidecar: Sidecar, head: str | None) -> bool:
    """Does the write follow the head, or is it the head, published by itself or by its recovery?"""
    return head in (sidecar.base_head, sidecar.head.commit_id, sidecar.recovery_commit_id)
