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

from omnigraph_core.errors import StorageError
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import manifest_path, own_files, version_of
from omnigraph_core.tables.refs import TableRef

TORN_SUFFIX = ".torn"

_FOOTER_MAGIC = b"LANC"


def versions_on_disk(tables: Tables, ref: TableRef) -> list[int]:
    """Every version that has a manifest file, newest first; whether it can be read or not."""
    names = tables.storage.control.list(f"{ref.directory}/_versions")
    found = (version_of(name) for name in names)
    return sorted((version for version in found if version is not None), reverse=True)


def open_newest_whole(tables: Tables, ref: TableRef) -> Table:
    """The newest version that is not torn. Writes nothing; for whoever failed to read HEAD."""
    for version in versions_on_disk(tables, ref):
        if not is_torn(tables, ref, version):
            return tables.open(ref, version)
    raise StorageError(f"table '{ref.key}' has no readable version")


def set_aside_torn(tables: Tables, ref: TableRef, published: int, guard: Guard) -> list[int]:
    """Move torn versions above `published` out of Lance's way; returns them, newest first.

    Needs the branch lock: a version that is only being written looks the same. A torn
    version at or below `published` is damage no rule of ours explains, and stays.
    """
    moved: list[int] = []
    for version in versions_on_disk(tables, ref):
        if version <= published or not is_torn(tables, ref, version):
            break
        guard()
        _set_aside(tables, ref, version)
        moved.append(version)
    return moved


def is_torn(tables: Tables, ref: TableRef, version: int) -> bool:
    """Is the manifest short, or one of the files it added missing or short?

    Only proof counts. A version that cannot be opened for any other reason (no file
    descriptors, no permission, bytes that rotted) is not torn: taking it for that would
    throw an acknowledged commit away.
    """
    if _manifest_is_torn(tables, ref, version):
        return True
    table = tables.open(ref, version)
    return any(_is_short(tables, path, size) for path, size in own_files(table).items())


def _is_short(tables: Tables, path: str, size: int | None) -> bool:
    """Where the size is not recorded (deletion files), only an empty file is known to be short."""
    actual = tables.storage.control.size(path)
    return not actual or (size is not None and actual != size)


def _manifest_is_torn(tables: Tables, ref: TableRef, version: int) -> bool:
    """Lance ends every manifest with a magic word; a torn one does not get that far."""
    found = tables.storage.control.get(manifest_path(ref, version))
    return found is not None and not found.data.endswith(_FOOTER_MAGIC)


def _set_aside(tables: Tables, ref: TableRef, version: int) -> None:
    """Keep the bytes under a name that Lance does not list, for whoever wants to look."""
    control = tables.storage.control
    path = manifest_path(ref, version)
    found = control.get(path)
    if found is not None:
        control.put(path + TORN_SUFFIX, found.data)
        control.delete(path)
