"""File operations of a program, in order: recorded by strace, below one directory.

A program that is recorded says what it has promised by making a file in a second
directory: `acknowledged` in the record. From then on a power cut must not take it back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.tracing import run_under_strace, whole_calls

CALLS = (
    "openat,open,creat,write,pwrite64,writev,pwritev,ftruncate,rename,renameat,renameat2,link,linkat,"
    "unlink,unlinkat,rmdir,mkdir,mkdirat,fsync,fdatasync,sync_file_range,syncfs,copy_file_range,fallocate"
)
# Calls that the replay would have to understand if anybody made them.
UNSUPPORTED = {"writev", "pwritev", "fallocate", "syncfs", "sync_file_range"}

ACKNOWLEDGED = "acknowledged"

_LINE = re.compile(r"^(?P<pid>\d+)\s+(?P<rest>.*)$")
_CALL = re.compile(r"^(?P<call>\w+)\((?P<arguments>.*)\)\s+= (?P<result>-?\d+|\?)(?P<after>.*)$", re.DOTALL)
_DESCRIPTOR = re.compile(r"^(?:AT_FDCWD|\d+)<(?P<path>[^>]*)>")
_COPIED = re.compile(r"\d+<([^>]*)>, NULL")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')


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


def record(
    command: Sequence[str],
    root: Path,
    environment: Mapping[str, str],
    log: Path,
    acknowledgements: Path | None = None,
) -> list[Operation]:
    """Run `command` to its end and return what it did below `root`, in order of completion."""
    options = ["-f", "-y", "-xx", "-s", "10000000", "-e", f"trace={CALLS}", "-o", str(log)]
    done = run_under_strace(options, command, environment)
    assert done.returncode == 0, done.stderr
    return parse(log, root, acknowledgements)


def parse(log: Path, root: Path, acknowledgements: Path | None = None) -> list[Operation]:
    """What a recorded program did; operations that failed did nothing."""
    found: list[Operation] = []
    for line in _calls(log.read_text()):
        operation = _operation(line, root)
        if operation is None and acknowledgements is not None:
            marked = _operation(line, acknowledgements)
            if marked is not None and marked.creates:
                operation = Operation(ACKNOWLEDGED, marked.path)
        if operation is not None:
            found.append(operation)
    return found


def _calls(text: str) -> Iterator[str]:
    return (match["rest"] for line in whole_calls(text) if (match := _LINE.match(line)))


def _operation(line: str, root: Path) -> Operation | None:
    match = _CALL.match(line)
    if match is None or match["result"].startswith(("-", "?")):
        return None
    call, arguments = match["call"], match["arguments"]
    if call in ("openat", "open", "creat"):
        return _opened(arguments, match["after"], root)
    descriptor = _DESCRIPTOR.match(arguments)
    strings = [bytes.fromhex(found.replace("\\x", "")) for found in _STRING.findall(arguments)]
    if call == "copy_file_range":
        source, target = (_relative(_decoded(each), root) for each in _COPIED.findall(arguments))
        assert source is not None, "copied from another place"
        assert target is not None, "copied to another place"
        return Operation("copy", source, target=target, offset=int(match["result"]))
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
