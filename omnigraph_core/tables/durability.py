"""Making a committed version survive a power cut. Lance itself never syncs.

A version is safe when the files it added, its manifest, and the directories that name
them are synced. `_transactions` files are left alone: the manifest carries the
transaction.
"""

from __future__ import annotations

from pathlib import PurePosixPath

from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.fragments import has_blobs, side_files
from omnigraph_core.tables.refs import TableRef

_HIGHEST_VERSION = 2**64 - 1


def manifest_path(ref: TableRef, version: int) -> str:
    """Where Lance keeps the manifest of a version; named so that the newest sorts first."""
    return f"{ref.directory}/_versions/{_HIGHEST_VERSION - version:020d}.manifest"


def sync_version(tables: Tables, table: Table, base: Table | None) -> None:
    """Sync everything `table` added on top of `base` (everything it has, if None), one barrier."""
    known = set() if base is None else set(_files(base))
    files = [path for path in _files(table) if path not in known]
    if has_blobs(table):
        files += [side for path in files for side in side_files(tables.storage, path)]
    files.append(manifest_path(table.ref, table.version))
    sync_files(tables.storage, files)


def sync_files(storage: Storage, paths: list[str]) -> None:
    """Sync files given relative to the graph root, then their directories, as one barrier."""
    if not storage.location.is_local:
        return
    root = storage.location.path
    absolute = [root / PurePosixPath(path) for path in paths]
    storage.syncer.barrier(absolute, {path.parent for path in absolute})


def _files(table: Table) -> list[str]:
    """Data and deletion files of this version that live in its own lineage."""
    found: list[str] = []
    for fragment in table.lance.get_fragments():
        metadata = fragment.metadata
        for data_file in metadata.files:
            if data_file.base_id is None:
                found.append(f"{table.ref.directory}/data/{data_file.path}")
        deletion = metadata.deletion_file
        if deletion is not None and deletion.base_id is None:
            found.append(f"{table.ref.directory}/{deletion.path(metadata.id)}")
    return found
