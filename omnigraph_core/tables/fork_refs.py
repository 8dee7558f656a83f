"""The ref files of a dataset's forks, read without Lance: which forks there are, and which are whole.

A ref that cannot be read is not absent: what it stood for may hold acknowledged rows.
It counts as a create that never finished only where nothing can be lost by that:

- its bytes are such as a power cut leaves of a new file (nothing, or a beginning), or
  it is whole but its tree is missing or begins with a torn version, **and**
- nothing was ever written on it: its tree has no version above the one it was forked
  at, nor has the tree of the same name of a *witness*, a dataset that every write on
  the fork moves too.

Everything else that cannot be read is damage (`RefDamaged`), which `ref_repair` undoes.
On object storage an object is whole or absent, so there nothing is ever torn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any
from urllib.parse import quote, unquote

from omnigraph_core import layout
from omnigraph_core.errors import OmnigraphError, StorageError
from omnigraph_core.jsontext import parse_json
from omnigraph_core.patterns import pattern
from omnigraph_core.records import dataclass
from omnigraph_core.storage.beside import side_by_side
from omnigraph_core.storage.control import InvalidObjectPath, checked_path
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.torn import manifest_is_whole, versions_on_disk

_IDENTITY = pattern(r"[0-9a-f]{32}")
_SUFFIX = ".json"
_MISSING = "missing"
_NO_FILE = ""
"""Stands for the e-tag of a file that is not there."""


@dataclass(frozen=True, slots=True)
class Fork:
    """A live Lance branch. `identity` tells two branches apart that used the same name."""

    name: str
    parent: str | None
    parent_version: int
    identity: str
    ancestors: tuple[str, ...] = ()
    """Identities of the forks it descends from, the oldest first."""
    forked_at: tuple[int, ...] = ()
    """The versions at which main, then each of these, was forked on the way to this one."""


class RefState(StrEnum):
    WHOLE = "whole"
    UNFINISHED = "unfinished"
    """A create that never finished; nothing is in it."""
    DAMAGED = "damaged"


def _healer(table_key: str, what: str) -> str:
    """Refs of graph branches are looked at by everyone who writes; those of tables' forks would cost
    a request for each table."""
    if what == _MISSING:
        return "`omnigraph recovery run`"
    is_of_graph = table_key in (layout.MANIFEST, layout.COMMITS)
    return "the next writing command" if is_of_graph else "`omnigraph maintain`"


class RefDamaged(StorageError):
    """A ref that cannot be read, of a fork that may hold something."""

    def __init__(self, table_key: str, branch: str, path: str, what: str = "damaged") -> None:
        super().__init__(
            f"{path} is {what}: it is what makes branch '{branch}' of table '{table_key}' exist",
            hint=f"{_healer(table_key, what)} rebuilds it from the files of the branch",
        )
        self.table_key, self.branch, self.path = table_key, branch, path

    def details(self) -> Mapping[str, object]:
        return {"table_key": self.table_key, "branch": self.branch, "path": self.path}


@dataclass(frozen=True, slots=True)
class ForkRef:
    """A ref file as it was read: the identity by which a fork is deleted, whatever is in it."""

    table_key: str
    name: str
    path: str
    data: bytes
    e_tag: str
    state: RefState
    fork: Fork | None
    """What it says, if that can be read."""

    @property
    def is_missing(self) -> bool:
        """Is there no such file, although there should be one?"""
        return self.e_tag == _NO_FILE

    def damage(self) -> RefDamaged:
        return RefDamaged(self.table_key, self.name, self.path, _MISSING if self.is_missing else "damaged")

    def fork_or_none(self) -> Fork | None:
        """The fork, None if it never came to be; damage is an error."""
        if self.state is RefState.DAMAGED:
            raise self.damage()
        return self.fork if self.state is RefState.WHOLE else None


def is_identity(text: str) -> bool:
    """Can it be the identity of a fork?"""
    return _IDENTITY.fullmatch(text) is not None


def ref_path(ref: TableRef, name: str) -> str:
    return f"{_directory(ref)}/{quote(name, safe='')}{_SUFFIX}"


def fork_names(tables: Tables, ref: TableRef) -> list[str]:
    """The names that have a ref file, in any state. A file whose name would lead out of the table is none."""
    found = tables.storage.control.list(_directory(ref))
    names = [file.removesuffix(_SUFFIX) for file in found if file.endswith(_SUFFIX)]
    plain = [name for name in names if "%" not in name and not name.startswith(".")]
    others = (unquote(name) for name in names if "%" in name or name.startswith("."))
    return sorted([*plain, *(name for name in others if _is_inside(name))])


def _is_inside(name: str) -> bool:
    """The name becomes a path."""
    with suppress(InvalidObjectPath):
        return checked_path(name) == name
    return False


def trees_on_disk(tables: Tables, ref: TableRef) -> list[str]:
    """The names of all lines of versions but the main one that are on disk, with a ref or without."""
    folder, versions = f"{ref.on(None).directory}/tree", "/_versions/"
    found = (path.removeprefix(f"{folder}/") for path in tables.storage.control.list_prefix(folder))
    return sorted({path.partition(versions)[0] for path in found if versions in path})


def fork_names_near(tables: Tables, ref: TableRef, name: str) -> list[str]:
    """Those of them that share a directory with `name`. The other files are passed over unread: a graph
    may have a thousand branches."""
    above = {f"{quote(each, safe='')}{_SUFFIX}" for each in names_above(name)}
    start = quote(name, safe="")
    found = tables.storage.control.list(_directory(ref))
    files = (file for file in found if file.startswith(start) or file in above)
    names = (unquote(file.removesuffix(_SUFFIX)) for file in files if file.endswith(_SUFFIX))
    return sorted(each for each in names if share_a_directory(each, name) and _is_inside(each))


def names_above(name: str) -> list[str]:
    """The names in whose directories this one is."""
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def share_a_directory(one: str, other: str) -> bool:
    """Lance keeps `a/b` inside `a`."""
    return one == other or one.startswith(other + "/") or other.startswith(one + "/")


def find_ref(tables: Tables, ref: TableRef, name: str, witness: TableRef | None = None) -> ForkRef | None:
    """The ref file of `name` in whatever state it is, or None if there is none.

    A fork that is being deleted loses its ref before its tree, so one that is not whole is
    damaged only if its ref is still the same.
    """
    path = ref_path(ref, name)
    found = tables.storage.control.get(path)
    while found is not None:
        fork = decode_ref(name, found.data)
        state = _state(tables, ref.on(name), found.data, fork, witness)
        now = found if state is RefState.WHOLE else tables.storage.control.get(path)
        if now is not None and now.e_tag == found.e_tag:
            return ForkRef(ref.key, name, path, found.data, found.e_tag, state, fork)
        found = now
    return None


def missing_ref(ref: TableRef, name: str) -> ForkRef:
    """Stands for a ref that is not there, of a fork that others know of."""
    return ForkRef(ref.key, name, ref_path(ref, name), b"", _NO_FILE, RefState.DAMAGED, None)


def list_refs(tables: Tables, ref: TableRef, witness: TableRef | None = None) -> list[ForkRef]:
    """The ref files of all names, in whatever state they are; one that goes meanwhile is gone."""
    return _refs_of(tables, ref, fork_names(tables, ref), witness)


def list_refs_near(
    tables: Tables, ref: TableRef, name: str, witness: TableRef | None = None
) -> list[ForkRef]:
    """The same, of the names alone that share a directory with this one; no other file is read."""
    return _refs_of(tables, ref, fork_names_near(tables, ref, name), witness)


def _refs_of(tables: Tables, ref: TableRef, names: Iterable[str], witness: TableRef | None) -> list[ForkRef]:
    def find(name: str) -> ForkRef | None:
        return find_ref(tables, ref, name, witness)

    is_local = tables.storage.location.is_local
    found = map(find, names) if is_local else side_by_side(find, names)
    return [each for each in found if each is not None]


def read_fork(tables: Tables, ref: TableRef, name: str, witness: TableRef | None = None) -> Fork | None:
    """The fork `name`, None if there is none (or never came to be); `RefDamaged` if nobody can tell."""
    found = find_ref(tables, ref, name, witness)
    return None if found is None else found.fork_or_none()


def list_forks(tables: Tables, ref: TableRef, witness: TableRef | None = None) -> dict[str, Fork]:
    """All live forks of the dataset by name; `RefDamaged` if one of them may be missing."""
    forks = (found.fork_or_none() for found in list_refs(tables, ref, witness))
    return {fork.name: fork for fork in forks if fork is not None}


def decode_ref(name: str, data: bytes) -> Fork | None:
    """What a ref file says; None unless it says everything that Lance wants, and consistently."""
    try:
        body: dict[str, Any] = parse_json(data)
        parent, version = body["parentBranch"], body["parentVersion"]
        line = [(int(each), str(identity)) for each, identity in body["identifier"]["version_mapping"]]
        is_sound = (
            isinstance(version, int)
            and isinstance(body["createAt"], int)
            and isinstance(body["manifestSize"], int)
            and isinstance(parent, str | None)
            and (parent is None) == (len(line) == 1)
            and line[-1][0] == version
            and all(_IDENTITY.fullmatch(identity) for _, identity in line)
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
    if not is_sound:
        return None
    *ancestors, identity = (identity for _, identity in line)
    return Fork(name, parent, version, identity, tuple(ancestors), tuple(version for version, _ in line))


def _state(
    tables: Tables, tree: TableRef, data: bytes, fork: Fork | None, witness: TableRef | None
) -> RefState:
    """`tree` is the fork itself; see the head of this module for what decides."""
    is_local = tables.storage.location.is_local
    if fork is not None and (not is_local or _begins_whole(tables, tree, fork)):
        return RefState.WHOLE
    versions = versions_on_disk(tables, tree)
    if fork is not None and any(version > fork.parent_version for version in versions):
        return RefState.WHOLE
    if witness is not None and _was_written(tables, witness.on(tree.branch)):
        return RefState.DAMAGED
    if fork is None and versions:
        is_explained = is_local and is_cut_short(data) and not _has_more_than_a_start(tables, tree, versions)
        return RefState.UNFINISHED if is_explained else RefState.DAMAGED
    return RefState.UNFINISHED


def _begins_whole(tables: Tables, tree: TableRef, fork: Fork) -> bool:
    """Is the version that the fork was made with there? Asked once in the life of a process."""
    if (tree, fork.identity) in tables.proven_forks:
        return True
    if not manifest_is_whole(tables, tree, fork.parent_version):
        return False
    tables.proven_forks.add((tree, fork.identity))
    return True


def _was_written(tables: Tables, tree: TableRef) -> bool:
    versions = versions_on_disk(tables, tree)
    found = tables.storage.control.get(ref_path(tree, tree.branch or ""))
    fork = None if found is None else decode_ref(tree.branch or "", found.data)
    if fork is not None:
        return any(version > fork.parent_version for version in versions)
    return bool(versions) and _has_more_than_a_start(tables, tree, versions)


def _has_more_than_a_start(tables: Tables, tree: TableRef, versions: list[int]) -> bool:
    """Without its ref, the version that a fork was made with is known by its transaction."""
    if len(versions) > 1:
        return True
    if not manifest_is_whole(tables, tree, versions[0]):
        return False
    try:
        return clone_of(tables, tree, versions[0]) is None
    except OmnigraphError:
        return True


def clone_of(tables: Tables, tree: TableRef, version: int) -> tuple[str | None, int] | None:
    """The parent and its version, if this is the version that a fork was made with."""
    operation = tables.open(tree, version).transaction(version).operation
    if type(operation).__name__ != "Clone":
        return None
    return operation.ref_name, int(operation.ref_version)


def is_cut_short(data: bytes) -> bool:
    """Can these be all the bytes that a power cut left of a ref: a beginning, and zeros for the rest?"""
    try:
        text = data.rstrip(b"\0").decode()
        json.loads(text)
    except json.JSONDecodeError as error:
        rest = error.doc[error.pos :].strip()
        return error.msg.startswith("Unterminated string") or rest in ("", ",") or "null".startswith(rest)
    except (ValueError, RecursionError):
        return False
    return False


def _directory(ref: TableRef) -> str:
    return f"{ref.path}/_refs/branches"
