"""Power cuts, by record and replay: what a disk may show after the power fails at any moment.

A program runs under strace; its file operations below one directory are recorded
(`tests.support.filetrace`). From them every directory state is rebuilt that a disk may show when
the power fails after the n-th operation.

What the model promises, which is what `omnigraph_core/storage/sync.py` builds on:

- A file's fsync makes its bytes durable, and nothing else. A directory's fsync makes the
  names durable that it has at that time, and nothing else: not the bytes of its files,
  not the names in its subdirectories, not its own name in its parent.
- Of everything else *any subset* survives, each thing for itself. A file whose bytes were
  not synced is whole, empty, or short anywhere (where old bytes were synced, it may have
  those). An operation on a name (create, link, rename, unlink, mkdir) was done or not,
  whatever came before or after it. A rename is one operation: both names or neither.

Real file systems are kinder. ext4 and XFS journal names in order, so that those of a
moment survive together, and a sync of any file commits the names before it, its own
among them; in the default modes bytes reach the disk before the size that covers them.
btrfs logs inodes one by one and comes nearer to the model. POSIX promises none of that,
so we use none of it: what passes here passes on all of them.

Out of the model: bytes that rot, syncs that lie, and a file of full length with bytes
missing inside (a short file stands for it).

Three uniform survivals, and the subsets:

- DROPPED: nothing survives that was not synced. A file has the content of its last
  fsync, a directory the names of its last fsync.
- TORN: every name survives, but a file has only the content that was synced: new files
  are empty. (A journal that orders names before data.)
- KEPT: everything survives; as after `kill -9`.
- `draw(seed)`: a random subset.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tests.support.filetrace import ACKNOWLEDGED, Operation, record

__all__ = ["Disk", "Fate", "Operation", "Survival", "Unsynced", "cuts", "draw", "record", "turning_points"]


class Survival(Enum):
    """How much of what was not synced the disk shows after the cut, if all fare alike."""

    DROPPED = "dropped"
    TORN = "torn"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Unsynced:
    """One thing that a cut may lose: the bytes of a file, or an operation on a name.

    `number` says by which operation of the program it came about; names are used again.
    """

    what: str
    path: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.what} {self.path}"

    @property
    def is_bytes(self) -> bool:
        return self.what == "bytes"


@dataclass(frozen=True, slots=True)
class Fate:
    """Kept or lost; of bytes, the `part` between what was synced (0) and what was written (1)."""

    part: float

    def __str__(self) -> str:
        return "kept" if self.part == 1 else "lost" if self.part == 0 else f"{self.part:.0%} kept"


KEPT = Fate(1.0)
LOST = Fate(0.0)

Choice = Callable[[Unsynced], Fate]

_UNIFORM: dict[Survival, Choice] = {
    Survival.DROPPED: lambda each: LOST,
    Survival.TORN: lambda each: LOST if each.is_bytes else KEPT,
    Survival.KEPT: lambda each: KEPT,
}


def draw(seed: str, unsynced: Sequence[Unsynced]) -> dict[Unsynced, Fate]:
    """What becomes of each unsynced thing; the same for the same seed.

    Half of the draws are extreme, since most mistakes show when a single thing is lost, or
    when a single thing is left.
    """
    chance = random.Random(seed)
    style = chance.choice(["any", "any", "most kept", "most lost", "one lost", "one kept"])
    if style.startswith("one") and unsynced:
        odd = chance.choice(unsynced)
        usual, other = (KEPT, LOST) if style == "one lost" else (LOST, KEPT)
        return {each: other if each == odd else usual for each in unsynced}
    kept = {"most kept": 0.9, "most lost": 0.1}.get(style, 0.5)
    return {each: _drawn(chance, each, kept) for each in unsynced}


def _drawn(chance: random.Random, each: Unsynced, kept: float) -> Fate:
    if chance.random() < kept:
        return KEPT
    return Fate(chance.random()) if each.is_bytes and chance.random() < 0.5 else LOST


@dataclass(eq=False)
class _Named:
    """An operation on a name that its directory was not synced after."""

    unsynced: Unsynced
    removes: str | None = None
    adds: tuple[str, _Inode] | None = None

    def apply(self, names: dict[str, _Inode]) -> None:
        if self.removes is not None:
            names.pop(self.removes, None)
        if self.adds is not None:
            names[self.adds[0]] = self.adds[1]


@dataclass(eq=False)
class _Inode:
    """A file with its present and its synced content; a directory with its names."""

    content: bytes = b""
    synced: bytes = b""
    names: dict[str, _Inode] = field(default_factory=dict)
    synced_names: dict[str, _Inode] = field(default_factory=dict)
    since: list[_Named] = field(default_factory=list)
    is_directory: bool = False
    made: Unsynced = Unsynced("bytes", ".")
    """Its bytes, known by the first name it had."""

    @property
    def is_unsynced(self) -> bool:
        return not self.is_directory and self.content != self.synced

    def surviving(self, fate: Fate) -> bytes:
        """Synced bytes are safe as long as nobody wrote over them."""
        if fate == LOST:
            return self.synced
        safe = len(self.synced) if self.content.startswith(self.synced) else 0
        return self.content[: safe + round((len(self.content) - safe) * fate.part)]


class Disk:
    """The replay: starts as a copy of a directory, everything in it synced."""

    def __init__(self, before: Path) -> None:
        self._root = self._load(before, ".")
        self._number = 0

    def apply(self, operation: Operation) -> None:
        self._number += 1
        if operation.call != ACKNOWLEDGED:
            getattr(self, f"_{operation.call}")(operation)

    def unsynced(self) -> list[Unsynced]:
        """Everything that a cut at this moment may lose, in an order that depends on nothing else.

        What was synced below a directory that may be lost goes with it, without being named.
        """
        found: dict[Unsynced, None] = {}
        waiting = [self._root]
        seen = {id(self._root)}
        while waiting:
            inode = waiting.pop()
            if inode.is_unsynced:
                found[inode.made] = None
            found.update((each.unsynced, None) for each in inode.since)
            added = [each.adds[1] for each in inode.since if each.adds is not None]
            for child in (*inode.synced_names.values(), *added):
                if id(child) not in seen:
                    seen.add(id(child))
                    waiting.append(child)
        return sorted(found, key=lambda each: (each.path, each.what, each.number))

    def write_to(self, target: Path, survival: Survival | Choice) -> None:
        """Lay out what the disk shows after a cut at this moment."""
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        self._lay_out(self._root, target, _UNIFORM[survival] if isinstance(survival, Survival) else survival)

    def _lay_out(self, inode: _Inode, target: Path, choice: Choice) -> None:
        names = dict(inode.synced_names)
        for operation in inode.since:
            if choice(operation.unsynced).part:
                operation.apply(names)
        for name, child in names.items():
            path = target / name
            if child.is_directory:
                path.mkdir()
                self._lay_out(child, path, choice)
            elif child.is_unsynced:
                path.write_bytes(child.surviving(choice(child.made)))
            else:
                path.write_bytes(child.synced)

    def _load(self, path: Path, place: str) -> _Inode:
        if path.is_dir():
            names = {
                child.name: self._load(child, f"{place}/{child.name}".removeprefix("./"))
                for child in path.iterdir()
            }
            return _Inode(names=names, synced_names=dict(names), is_directory=True)
        content = path.read_bytes()
        return _Inode(content=content, synced=content, made=Unsynced("bytes", place))

    def _find(self, path: str) -> _Inode | None:
        inode: _Inode | None = self._root
        for part in () if path == "." else path.split("/"):
            inode = inode.names.get(part) if inode else None
        return inode

    def _parent(self, path: str) -> tuple[_Inode, str]:
        folder, _, name = path.rpartition("/")
        parent = self._find(folder or ".")
        assert parent is not None, f"{path}: its directory was never made"
        return parent, name

    def _change_names(self, parent: _Inode, named: _Named) -> None:
        named.apply(parent.names)
        parent.since.append(named)

    def _new(self, operation: Operation) -> _Inode:
        return _Inode(made=Unsynced("bytes", operation.path, self._number))

    def _unsynced(self, operation: Operation) -> Unsynced:
        path = f"{operation.path} -> {operation.target}" if operation.target else operation.path
        return Unsynced(operation.call, path, self._number)

    def _open(self, operation: Operation) -> None:
        parent, name = self._parent(operation.path)
        if name not in parent.names:
            created = _Named(self._unsynced(operation), adds=(name, self._new(operation)))
            self._change_names(parent, created)
        elif operation.truncates:
            parent.names[name].content = b""

    def _write(self, operation: Operation) -> None:
        inode = self._find(operation.path)
        if inode is None:
            return
        start = len(inode.content) if operation.offset is None else operation.offset
        head = inode.content[:start].ljust(start, b"\0")
        inode.content = head + operation.data + inode.content[start + len(operation.data) :]

    def _copy(self, operation: Operation) -> None:
        """So many bytes more of a file that is copied from its beginning."""
        source, target = self._find(operation.path), self._find(operation.target)
        if source is not None and target is not None:
            done = len(target.content)
            target.content += source.content[done : done + (operation.offset or 0)]

    def _truncate(self, operation: Operation) -> None:
        inode = self._find(operation.path)
        if inode is not None and operation.offset is not None:
            inode.content = inode.content[: operation.offset].ljust(operation.offset, b"\0")

    def _sync(self, operation: Operation) -> None:
        inode = self._find(operation.path)
        if inode is not None:
            inode.synced = inode.content
            inode.synced_names = dict(inode.names)
            inode.since = []

    def _rename(self, operation: Operation) -> None:
        source, old = self._parent(operation.path)
        target, new = self._parent(operation.target)
        assert source is target, "the replay does not know renames between directories"
        renamed = _Named(self._unsynced(operation), removes=old, adds=(new, source.names[old]))
        self._change_names(source, renamed)

    def _link(self, operation: Operation) -> None:
        source, old = self._parent(operation.path)
        target, new = self._parent(operation.target)
        linked = _Named(self._unsynced(operation), adds=(new, source.names[old]))
        self._change_names(target, linked)

    def _unlink(self, operation: Operation) -> None:
        parent, name = self._parent(operation.path)
        self._change_names(parent, _Named(self._unsynced(operation), removes=name))

    def _mkdir(self, operation: Operation) -> None:
        parent, name = self._parent(operation.path)
        made = _Named(self._unsynced(operation), adds=(name, _Inode(is_directory=True)))
        self._change_names(parent, made)


def cuts(
    before: Path, operations: Sequence[Operation], target: Path, every: int = 1
) -> Iterator[tuple[int, Survival, Operation | None]]:
    """Lay out each state in `target` in turn: after 0, 1, … all operations, in each survival."""
    disk = Disk(before)
    for count in range(len(operations) + 1):
        if count:
            disk.apply(operations[count - 1])
        if count % every and count != len(operations):
            continue
        for survival in Survival:
            disk.write_to(target, survival)
            yield count, survival, operations[count - 1] if count else None


def turning_points(operations: Sequence[Operation]) -> list[int]:
    """The cuts at which most can be lost: right before something is synced or promised, and at the end.

    The states of every other cut are among the states of the next of these, since whatever
    happened since may be lost.
    """
    less = ("sync", ACKNOWLEDGED)
    found = [
        count
        for count, operation in enumerate(operations)
        if operation.call in less and not (count and operations[count - 1].call == "sync")
    ]
    return [*found, len(operations)]
