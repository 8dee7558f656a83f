"""Torn files: what a power cut leaves of a commit that was not synced yet.

Lance links a new manifest into place before its content is safe, and never syncs. So
after a power cut the newest version of a dataset may be a manifest that is short or
empty, or a whole one whose data files are. Such a version cannot be opened or
scanned, and no commit can be made after it. It was never published: everything a
publish names was synced before. Setting it aside makes the version before it HEAD
again.

On object storage a PUT is whole or absent, so only local files are ever torn.
"""

from __future__ import annotations

import os
from pathlib import PurePosixPath

from omnigraph_core.errors import StorageError
from omnigraph_core.storage.failures import translated
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import manifest_path, own_files, version_of
from omnigraph_core.tables.refs import TableRef

TORN_SUFFIX = ".torn"

FOOTER_MAGIC = b"LANC"

# How a file ends that was written to its end, by the end of its name. A disk may have given it its
# full length before its bytes.
_ENDINGS = {".lance": FOOTER_MAGIC, ".arrow": b"ARROW1"}


class NoWholeVersion(StorageError):
    """Versions have names, and not one of them can be read."""


def versions_on_disk(tables: Tables, ref: TableRef) -> list[int]:
    """Every version that has a manifest file, newest first; whether it can be read or not."""
    names = tables.storage.control.list(f"{ref.directory}/_versions")
    found = (version_of(name) for name in names)
    return sorted((version for version in found if version is not None), reverse=True)


def open_newest_whole(tables: Tables, ref: TableRef) -> Table:
    """The newest version that is not torn. Writes nothing; for a caller that failed to read HEAD."""
    for version in versions_on_disk(tables, ref):
        if not is_torn(tables, ref, version):
            return tables.open(ref, version)
    raise NoWholeVersion(f"table '{ref.key}' has no readable version")


def torn_from(tables: Tables, ref: TableRef, published: int) -> int | None:
    """The lowest version above `published` that is torn or missing; None when all are whole.

    A write may commit several versions and sync them side by side, so a power cut can
    take one and leave those above it. They build on what is lost, and count as lost.
    """
    if not tables.storage.location.is_local:
        return None
    above = [version for version in versions_on_disk(tables, ref) if version > published]
    for expected, version in enumerate(reversed(above), start=published + 1):
        if version != expected or is_torn(tables, ref, version):
            return expected
    return None


def set_aside_torn(tables: Tables, ref: TableRef, published: int, guard: Guard) -> list[int]:
    """Move versions above `published`, from the lowest torn one upwards, out of Lance's way.

    Returns them, newest first, which is the order they go in: killed half-way, the torn one
    is still there and tells. Needs the branch lock: a version that is only being written
    looks the same. A torn version at or below `published` is damage no rule of ours
    explains, and stays.
    """
    lowest = torn_from(tables, ref, published)
    if lowest is None:
        return []
    moved = [version for version in versions_on_disk(tables, ref) if version >= lowest]
    for version in moved:
        guard()
        _set_aside(tables, ref, version)
    tables.forget(ref)
    # A name that comes back with the next power cut would be above what is written now.
    storage = tables.storage
    storage.syncer.barrier(dirs=[storage.location.path / ref.directory / "_versions"])
    return moved


def is_torn(tables: Tables, ref: TableRef, version: int) -> bool:
    """Is the manifest short, or one of the files it added missing or short?

    Only proof counts. A version that cannot be opened for any other reason (no file
    descriptors, no permission, bytes that rotted) is not torn: taking it for that would
    throw an acknowledged commit away.
    """
    return torn_file(tables, ref, version) is not None


def torn_file(tables: Tables, ref: TableRef, version: int) -> str | None:
    """The file that makes a version torn."""
    if _manifest_is_torn(tables, ref, version):
        return manifest_path(ref, version)
    table = tables.open(ref, version)
    short = (path for path, size in own_files(table).items() if _is_short(tables, path, size))
    return next(short, None)


def broken_file(tables: Tables, ref: TableRef, version: int) -> str | None:
    """The same, where a version whose manifest is not there at all counts as well."""
    if version not in versions_on_disk(tables, ref):
        return manifest_path(ref, version)
    return torn_file(tables, ref, version)


def _is_short(tables: Tables, path: str, size: int | None) -> bool:
    """Where the size is not recorded (deletion files), the end of the file has to tell."""
    actual = tables.storage.control.size(path)
    if not actual or (size is not None and actual != size):
        return True
    ending = next((text for suffix, text in _ENDINGS.items() if path.endswith(suffix)), b"")
    return tables.storage.location.is_local and not _ends_with(tables, path, ending)


def _ends_with(tables: Tables, path: str, ending: bytes) -> bool:
    file = tables.storage.location.path / PurePosixPath(path)
    with translated("read", file), open(file, "rb") as stream:
        stream.seek(-min(len(ending), os.fstat(stream.fileno()).st_size), os.SEEK_END)
        return stream.read() == ending


def manifest_is_whole(tables: Tables, ref: TableRef, version: int) -> bool:
    """Is the version's manifest there, and all of it?"""
    found = tables.storage.control.get(manifest_path(ref, version))
    return found is not None and found.data.endswith(FOOTER_MAGIC)


def _manifest_is_torn(tables: Tables, ref: TableRef, version: int) -> bool:
    """Lance ends every manifest with a magic word; a torn one does not get that far."""
    found = tables.storage.control.get(manifest_path(ref, version))
    return found is not None and not found.data.endswith(FOOTER_MAGIC)


def _set_aside(tables: Tables, ref: TableRef, version: int) -> None:
    """Keep the bytes under a name that Lance does not list, for a person to look at."""
    control = tables.storage.control
    path = manifest_path(ref, version)
    found = control.get(path)
    if found is not None:
        control.put(path + TORN_SUFFIX, found.data)
        control.delete(path)
