"""Reaching what is inside a local graph, without leaving it.

A graph directory is input: somebody else's, copied or mounted. The root is what the caller
named, and may be a link. Below it nothing is reached through a link, and nothing but plain
files is opened: a FIFO would keep us waiting, a device does whatever its driver does.

Each step of a path is opened relative to the directory before it and without following links,
so it does not matter what another process does to the path meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from omnigraph_core.storage.failures import ABSENT, StorageFailure, translated

# Only to go on from: needs no permission to list the directory.
_PASSING = getattr(os, "O_PATH", os.O_RDONLY)
_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PLAIN_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a directory",
    stat.S_IFREG: "a file",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_ERRNO_NAMES = {stat.S_IFLNK: "ELOOP", stat.S_IFDIR: "EISDIR", stat.S_IFREG: "ENOTDIR"}


class ForeignEntry(StorageFailure):
    """Something inside a graph that is not what OmniGraph makes: a link, a FIFO, a device."""

    def __init__(self, path: str, mode: int, wanted: str) -> None:
        found = _KINDS.get(stat.S_IFMT(mode), "something unknown")
        super().__init__(
            f"{path} is {found}, where a graph has {wanted}",
            path=path,
            errno_name=_ERRNO_NAMES.get(stat.S_IFMT(mode), "EINVAL"),
            hint="OmniGraph follows no links inside a graph and opens plain files only; look at it, "
            "and put in its place what belongs there",
        )


def open_directory(root: str, path: str, *, passing: bool = False) -> int:
    """A descriptor of the directory at `path` below `root`; with an empty path, of the root itself.

    With `passing` it only serves to reach what is inside. FileNotFoundError if there is none.
    """
    last = _PASSING if passing else os.O_RDONLY
    if not path:
        return os.open(root, os.O_DIRECTORY | os.O_CLOEXEC | last)
    first, *rest = path.split("/")
    # Not following links is about the last step: what leads to the root may be one.
    current = _step(f"{root}/{first}", None, _PASSING if rest else last, f"{root}/{first}")
    for number, name in enumerate(rest, start=1):
        shown = "/".join([root, first, *rest[:number]])
        try:
            following = _step(name, current, _PASSING if number < len(rest) else last, shown)
        finally:
            os.close(current)
        current = following
    return current


@contextmanager
def directory(root: str, path: str, *, passing: bool = False) -> Iterator[int]:
    """The same for as long as the block runs."""
    descriptor = open_directory(root, path, passing=passing)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_file(name: str, folder: int | None, flags: int, shown: str, mode: int = 0o666) -> int:
    """A descriptor of a plain file in an open directory; ForeignEntry if it is anything else."""
    try:
        descriptor = os.open(name, flags | _PLAIN_FILE, mode, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(found.st_mode):
                raise ForeignEntry(shown, found.st_mode, "a file") from None
        raise
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        os.close(descriptor)
        raise ForeignEntry(shown, found.st_mode, "a file")
    return descriptor


def open_inside(root: str, path: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of the plain file at `path` below `root`."""
    folder, _, name = path.rpartition("/")
    if not folder:
        return open_file(f"{root}/{name}", None, flags, f"{root}/{path}")
    with directory(root, folder, passing=True) as opened:
        return open_file(name, opened, flags, f"{root}/{path}")


def share_with_group(descriptor: int, root: str) -> None:
    """Let the group that may write to the root write to a new file or directory of ours, too.

    The umask of most users would keep everybody else out of it. What cannot be changed stays.
    """
    above, own = os.stat(root), os.fstat(descriptor)
    if not above.st_mode & stat.S_IWGRP or own.st_uid != os.geteuid():
        return
    allowed = stat.S_IRGRP | stat.S_IWGRP | (stat.S_IXGRP if stat.S_ISDIR(own.st_mode) else 0)
    with suppress(OSError):
        if own.st_gid != above.st_gid:
            os.fchown(descriptor, -1, above.st_gid)
        if own.st_mode & allowed != allowed:
            os.fchmod(descriptor, stat.S_IMODE(own.st_mode) | allowed)


def is_directory(name: str, folder: int, shown: str) -> bool:
    """Is it a directory? ForeignEntry if it is a link; False for a file, and if there is nothing."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if stat.S_ISLNK(found.st_mode):
        raise ForeignEntry(shown, found.st_mode, "a directory")
    return stat.S_ISDIR(found.st_mode)


def refuse_foreign(root: str, path: str, *, but_not_in: str) -> None:
    """ForeignEntry if the directory is reached through a link, or anything in it, at any depth, is neither
    a file nor a directory. One folder in it is passed over. Nothing there is fine.

    For those who hand the directory to a program that follows links and waits for FIFOs. A listing says
    of which kind its entries are, so this costs about a microsecond for each.
    """
    waiting = [path]
    while waiting:
        here = waiting.pop()
        folders = (f"{here}/{name}" for name in _folders_alone(root, here))
        waiting += [each for each in folders if each != f"{path}/{but_not_in}"]


def _folders_alone(root: str, path: str) -> list[str]:
    """The names of the directories in a directory; ForeignEntry unless all else are files."""
    folders = []
    for name, kind in _entries(root, path):
        if kind == stat.S_IFDIR:
            folders.append(name)
        elif kind != stat.S_IFREG:
            raise ForeignEntry(f"{root}/{path}/{name}", kind, "a file or a directory")
    return folders


def refuse_links_below(root: str, path: str) -> None:
    """The same for everything below, at any depth."""
    link = next((inside for inside, kind in _below(root, path) if kind == stat.S_IFLNK), None)
    if link is not None:
        raise ForeignEntry(f"{root}/{link}", stat.S_IFLNK, "a file or a directory")


def entries_below(root: str, path: str) -> Iterator[str]:
    """The paths of everything below that is no directory; links are entries like files."""
    return (inside for inside, _ in _below(root, path))


def foreign_below(root: str) -> Iterator[str]:
    """The paths of everything in a graph that is neither a file nor a directory."""
    return (inside for inside, kind in _below(root, "") if kind != stat.S_IFREG)


def _below(root: str, path: str) -> Iterator[tuple[str, int]]:
    folders = []
    for name, kind in _entries(root, path):
        inside = f"{path}/{name}" if path else name
        if kind == stat.S_IFDIR:
            folders.append(inside)
        else:
            yield inside, kind
    for folder in folders:
        yield from _below(root, folder)


def _entries(root: str, path: str) -> list[tuple[str, int]]:
    """What a directory has, and of which kind it is; nothing if there is no directory."""
    with translated("list", f"{root}/{path}" if path else root):
        try:
            with directory(root, path) as opened, os.scandir(opened) as found:
                return [(entry.name, _kind(entry)) for entry in found]
        except ABSENT:
            return []


def _kind(entry: os.DirEntry[str]) -> int:
    """Most file systems say it with the name, so that nothing has to be asked."""
    if entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    if entry.is_symlink():
        return stat.S_IFLNK
    try:
        return stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
    except FileNotFoundError:  # It has gone meanwhile.
        return stat.S_IFREG


def _step(name: str, folder: int | None, flags: int, shown: str) -> int:
    try:
        return os.open(name, flags | _DIRECTORY, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            raise
        raise ForeignEntry(shown, found.st_mode, "a directory") from None
