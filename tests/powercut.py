"""Power cuts, by record and replay: what a disk may show after the power fails at any moment.

A program runs under strace; its file operations below one directory are recorded. From
them every directory state is rebuilt that a disk may show when the power fails after
the n-th operation. The disk model, worst case first:

- DROPPED: nothing survives that was not synced. A file has the content of its last
  fsync, a directory the names of its last fsync.
- TORN: every name survives, but a file has only the content that was synced: new files
  are empty. (A journal that orders names before data.)
- KEPT: everything survives; as after `kill -9`.

Out of the model: bytes that rot, syncs that lie, and one file's blocks surviving in
part (a short file stands for it).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

CALLS = (
    "openat,open,creat,write,pwrite64,writev,pwritev,ftruncate,rename,renameat,renameat2,link,linkat,"
    "unlink,unlinkat,rmdir,mkdir,mkdirat,fsync,fdatasync,sync_file_range,syncfs,copy_file_range,fallocate"
)
# Calls that the replay would have to understand if anybody made them.
UNSUPPORTED = {"writev", "pwritev", "copy_file_range", "fallocate", "syncfs", "sync_file_range"}

_LINE = re.compile(r"^(?P<pid>\d+)\s+(?P<rest>.*)$")
_RESUMED = re.compile(r"^<\.\.\. (?P<call>\w+) resumed>(?P<rest>.*)$", re.DOTALL)
_CALL = re.compile(r"^(?P<call>\w+)\((?P<arguments>.*)\)\s+= (?P<result>-?\d+|\?)(?P<after>.*)$", re.DOTALL)
_DESCRIPTOR = re.compile(r"^(?:AT_FDCWD|\d+)<(?P<path>[^>]*)>")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


class Survival(Enum):
    """How much of what was not synced the disk shows after the cut."""

    DROPPED = "dropped"
    TORN = "torn"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Operation:
    """One change of the file system below the root; paths are relative to it."""

    call: str
    path: str
    target: str = ""
    data: bytes = b""
    offset: int | None = None
    creates: bool = False
    truncates: bool = False


def record(command: Sequence[str], root: Path, environment: Mapping[str, str], log: Path) -> list[Operation]:
    """Run `command` to its end and return what it did below `root`, in order of completion."""
    done = subprocess.run(
        ["strace", "-f", "-y", "-xx", "-s", "10000000", "-e", f"trace={CALLS}", "-o", str(log), *command],
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(_parse(log.read_text(), root))


def _parse(text: str, root: Path) -> Iterator[Operation]:
    unfinished: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        pid, rest = match["pid"], match["rest"]
        if rest.endswith("<unfinished ...>"):
            unfinished[pid] = rest.removesuffix("<unfinished ...>").rstrip()
            continue
        if resumed := _RESUMED.match(rest):
            rest = unfinished.pop(pid) + resumed["rest"]
        operation = _operation(rest, root)
        if operation is not None:
            yield operation


def _operation(line: str, root: Path) -> Operation | None:
    match = _CALL.match(line)
    if match is None or match["result"].startswith(("-", "?")):
        return None
    call, arguments = match["call"], match["arguments"]
    if call in ("openat", "open", "creat"):
        return _opened(arguments, match["after"], root)
    descriptor = _DESCRIPTOR.match(arguments)
    strings = [bytes.fromhex(found.replace("\\x", "")) for found in _STRING.findall(arguments)]
    if call in ("write", "pwrite64", "ftruncate", "fsync", "fdatasync", *UNSUPPORTED):
        path = _relative(_decoded(descriptor["path"]) if descriptor else "", root)
        if path is None:
            return None
        assert call not in UNSUPPORTED, f"the replay does not know {call}"
        if call == "pwrite64":
            return Operation("write", path, data=strings[0], offset=int(arguments.rsplit(",", 1)[1]))
        if call == "ftruncate":
            return Operation("truncate", path, offset=int(arguments.rsplit(",", 1)[1]))
        return Operation("sync" if "sync" in call else "write", path, data=strings[0] if strings else b"")
    paths = [_relative(path, root) for path in _paths(arguments)]
    if paths[0] is None:
        return None
    verb = {"rename": "rename", "link": "link", "unlin": "unlink", "mkdir": "mkdir", "rmdir": "unlink"}
    name = next(value for prefix, value in verb.items() if call.startswith(prefix))
    return Operation(name, paths[0], target=(paths[1] or "") if len(paths) > 1 else "")


def _opened(arguments: str, after: str, root: Path) -> Operation | None:
    path = _relative(_paths(arguments)[0], root)
    creates, truncates = "O_CREAT" in arguments, "O_TRUNC" in arguments
    if path is None or not (creates or truncates):
        return None
    return Operation("open", path, creates=creates, truncates=truncates)


def _paths(arguments: str) -> list[str]:
    """The path arguments of a call, absolute: each is `DIRFD<dir>, "name"` or just `"name"`."""
    found = []
    for match in re.finditer(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>,\s*)?"((?:\\x[0-9a-f]{2})*)"', arguments):
        directory = _decoded(match[1] or "")
        found.append(str(Path(directory) / bytes.fromhex(match[2].replace("\\x", "")).decode()))
    return found


def _decoded(text: str) -> str:
    return re.sub(r"(?:\\x[0-9a-f]{2})+", lambda m: bytes.fromhex(m[0].replace("\\x", "")).decode(), text)


def _relative(path: str, root: Path) -> str | None:
    path = path.removesuffix(" (deleted)")
    prefix = str(root)
    if path == prefix:
        return "."
    return path[len(prefix) + 1 :] if path.startswith(prefix + "/") else None


@dataclass
class _Inode:
    """A file with its present and its synced content; a directory with its names."""

    content: bytes = b""
    synced: bytes = b""
    names: dict[str, _Inode] = field(default_factory=dict)
    synced_names: dict[str, _Inode] = field(default_factory=dict)
    is_directory: bool = False


class Disk:
    """The replay: starts as a copy of a directory, everything in it synced."""

    def __init__(self, before: Path) -> None:
        self._root = self._load(before)

    def apply(self, operation: Operation) -> None:
        getattr(self, f"_{operation.call}")(operation)

    def write_to(self, target: Path, survival: Survival) -> None:
        """Lay out what the disk shows after a cut at this moment."""
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        self._lay_out(self._root, target, survival)

    def _lay_out(self, inode: _Inode, target: Path, survival: Survival) -> None:
        names = inode.synced_names if survival is Survival.DROPPED else inode.names
        for name, child in names.items():
            path = target / name
            if child.is_directory:
                path.mkdir()
                self._lay_out(child, path, survival)
            else:
                path.write_bytes(child.content if survival is Survival.KEPT else child.synced)

    def _load(self, path: Path) -> _Inode:
        if path.is_dir():
            names = {child.name: self._load(child) for child in path.iterdir()}
            return _Inode(names=names, synced_names=dict(names), is_directory=True)
        content = path.read_bytes()
        return _Inode(content=content, synced=content)

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

    def _open(self, operation: Operation) -> None:
        parent, name = self._parent(operation.path)
        if name not in parent.names:
            parent.names[name] = _Inode()
        elif operation.truncates:
            parent.names[name].content = b""

    def _write(self, operation: Operation) -> None:
        inode = self._find(operation.path)
        if inode is None:
            return
        start = len(inode.content) if operation.offset is None else operation.offset
        head = inode.content[:start].ljust(start, b"\0")
        inode.content = head + operation.data + inode.content[start + len(operation.data) :]

    def _truncate(self, operation: Operation) -> None:
        inode = self._find(operation.path)
        if inode is not None and operation.offset is not None:
            inode.content = inode.content[: operation.offset].ljust(operation.offset, b"\0")

    def _sync(self, operation: Operation) -> None:
        inode = self._find(operation.path)
        if inode is not None:
            inode.synced = inode.content
            inode.synced_names = dict(inode.names)

    def _rename(self, operation: Operation) -> None:
        source, old = self._parent(operation.path)
        target, new = self._parent(operation.target)
        target.names[new] = source.names.pop(old)

    def _link(self, operation: Operation) -> None:
        source, old = self._parent(operation.path)
        target, new = self._parent(operation.target)
        target.names[new] = source.names[old]

    def _unlink(self, operation: Operation) -> None:
        parent, name = self._parent(operation.path)
        parent.names.pop(name, None)

    def _mkdir(self, operation: Operation) -> None:
        parent, name = self._parent(operation.path)
        parent.names[name] = _Inode(is_directory=True)


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
