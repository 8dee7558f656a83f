"""The names of branches: which may be given, which are taken, and where a name is written down."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_core import layout
from omnigraph_core.errors import BusyError, ConflictError, RefusedError
from omnigraph_core.history.deleted import read_deleted
from omnigraph_core.history.names import BranchNames, NameEntry, read_names, write_names
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.patterns import pattern
from omnigraph_core.storage import HeldLocks, ObjectChanged, ObjectExists
from omnigraph_core.tables.fork_refs import ForkRef, share_a_directory
from omnigraph_core.write.door import Door
from omnigraph_core.write.limits import BRANCH_NAME_CHARACTERS_MAX

_SEGMENT = pattern(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


class BranchExists(ConflictError):
    """A live branch has the name."""

    def __init__(self, branch: str) -> None:
        super().__init__(f"branch '{branch}' already exists")
        self.branch = branch

    def details(self) -> Mapping[str, object]:
        return {"branch": self.branch}


class NameMoved(ConflictError):
    """A branch that was to be made is there by now, but not at the place that was meant for it."""

    retryable = True

    def __init__(self, branch: str) -> None:
        super().__init__(
            f"another process made or renamed branch '{branch}' in the meantime", hint="try again"
        )
        self.branch = branch

    def details(self) -> Mapping[str, object]:
        return {"branch": self.branch}


def check_name(name: str, what: str = "branch") -> str:
    """The trimmed name, if a branch may have it; or a tag, which is `what` else it may be for."""
    name = name.strip()
    if name in (layout.MAIN_BRANCH, layout.SCHEMA_LOCK_BRANCH):
        raise RefusedError(f"the {what} name '{name}' is reserved")
    segments = name.split("/")
    if len(name) > BRANCH_NAME_CHARACTERS_MAX or not all(
        _SEGMENT.fullmatch(part) and ".." not in part and not part.endswith((".lock", "."))
        for part in segments
    ):
        raise RefusedError(
            f"'{name}' cannot be a {what} name",
            hint="use letters, digits, '-', '_', '.' and '/', such as review/2026-11; not '..' or '.lock'",
        )
    return name


def refuse_taken_line(door: Door, lineage: str) -> list[ForkRef]:
    """Raise if a live branch has its versions at this place, or a part of it.

    Returns the refs that are there otherwise, of creates that never finished.
    """
    near = door.manifest.branch_refs_near(lineage)
    for found in near:
        if found.fork_or_none() is not None:
            _refuse(lineage, found.name)
    return near


def refuse_taken_name(door: Door, lineage: str, name: str) -> None:
    """Raise if a live branch is called so, or by a path prefix of it, although this place is free.

    While every branch is called as its line, the line has said it.
    """
    names = read_names(door.storage.control)
    if names.entries or name != lineage:
        refuse_taken(door, name, names)


def refuse_taken(door: Door, name: str, names: BranchNames, renamed: Branch | None = None) -> None:
    """Raise if a live branch is called so, or by a path prefix of it.

    One that is to be renamed is in nobody's way, unless it has the very name.
    """
    manifest = door.manifest
    for found in manifest.branch_refs() if names.entries else manifest.branch_refs_near(name):
        fork = found.fork_or_none()
        if fork is None:
            continue
        branch = Branch(fork.name, fork.identity)
        other = names.of(branch)
        if other == name or (branch != renamed and share_a_directory(other, name)):
            _refuse(name, other)


def prove_called(door: Door, lineage: str, name: str) -> None:
    """Raise unless there is a branch on this line, and it is called so."""
    found = door.manifest.branch_ref(lineage)
    fork = None if found is None else found.fork_or_none()
    if fork is None:
        raise NameMoved(name)
    prove_still_called(Branch(lineage, fork.identity), name, read_names(door.storage.control))


def prove_still_called(branch: Branch, name: str, names: BranchNames) -> None:
    """Raise if the branch that was found by this name, without a lock, is called otherwise by now."""
    if names.of(branch) != name:
        raise NameMoved(name)


def _refuse(name: str, other: str) -> None:
    if other == name:
        raise BranchExists(name)
    raise RefusedError(
        f"branch '{name}' overlaps with the live branch '{other}'",
        hint="branch names must not be path prefixes of each other",
    )


def name_line(door: Door, lineage: str, name: str, held: HeldLocks) -> None:
    """Say what the branch of a new line will be called, before there is one."""
    names = read_names(door.storage.control)
    enter_name(door, names, NameEntry(lineage, None, name, lineage), held)


def enter_name(door: Door, names: BranchNames, entry: NameEntry, held: HeldLocks) -> None:
    """With the entries of branches that are there, or can be brought back. By the e-tag that was read:
    who has slept past the lock does not overwrite what others wrote."""
    branches = [Branch(each.name, each.identity) for each in door.manifest.branches().values()]
    branches += [each.on for each in read_deleted(door.storage.control)]
    others = [
        each
        for each in names.entries
        if each.lineage != entry.lineage and any(each.is_of(branch) for branch in branches)
    ]
    held.check()
    try:
        write_names(door.storage.control, [*others, entry], names)
    except (ObjectChanged, ObjectExists) as error:
        raise BusyError("another process named a branch at the same time", hint="try again") from error
