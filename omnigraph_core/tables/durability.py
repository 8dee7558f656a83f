"""Making a committed version survive a power cut. Lance itself never syncs.

A version is safe when the files it added, its manifest, and the directories that name
them are synced. `_transactions` files are left alone: the manifest carries the
transaction. On object storage everything here does nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import PurePosixPath
from urllib.parse import quote

from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.fragments import file_name, has_blobs, side_files
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import StagedWrite

_HIGHEST_VERSION = 2**64 - 1
_MANIFEST_SUFFIX = ".manifest"


def manifest_path(ref: TableRef, version: int) -> str:
    """Where Lance keeps the manifest of a version; named so that the newest sorts first."""
    return f"{ref.directory}/_versions/{_HIGHEST_VERSION - version:020d}{_MANIFEST_SUFFIX}"


def version_of(file_name: str) -> int | None:
    """The version whose manifest has this name; None for any other file."""
    digits = file_name.removesuffix(_MANIFEST_SUFFIX)
    if digits == file_name or len(digits) != 20 or not digits.isdecimal():
        return None
    return _HIGHEST_VERSION - int(digits)


def own_files(table: Table) -> dict[str, int | None]:
    """Data and deletion files of this version in its own lineage, with sizes where known."""
    found: dict[str, int | None] = {}
    for fragment in table.lance.get_fragments():
        metadata = fragment.metadata
        for data_file in metadata.files:
            if data_file.base_id is None:
                found[f"{table.ref.directory}/data/{file_name(data_file)}"] = data_file.file_size_bytes
        deletion = metadata.deletion_file
        if deletion is not None and deletion.base_id is None:
            found[f"{table.ref.directory}/{deletion.path(metadata.id)}"] = None
    return found


class Barrier:
    """Versions that must be safe before the next step; synced together, in parallel."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._paths: list[str] = []
        self._doubtful: list[str] = []
        self._directories: list[str] = []

    def add_version(self, table: Table, base: Table | None) -> None:
        """Everything `table` added on top of `base` (everything it has, if None)."""
        if self._storage.location.is_local:
            self._paths += version_files(self._storage, table, base)

    def add_manifest(self, table: Table) -> None:
        """A version whose files are safe already."""
        self._paths.append(manifest_path(table.ref, table.version))

    def add_files(self, paths: Iterable[str]) -> None:
        """Files given relative to the graph root."""
        self._paths += paths

    def renew_version(self, table: Table, base: Table | None) -> None:
        """The same, of a version that another process made: whether its sync failed is unknown."""
        if self._storage.location.is_local:
            self._doubtful += version_files(self._storage, table, base)
            self._directories.append(_parent(table))

    def add_foreign(self, table: Table) -> None:
        """Everything `table` has, whoever wrote it, and the name of the dataset itself."""
        self.add_version(table, None)
        self._directories.append(_parent(table))

    def sync(self) -> None:
        """Return when everything added so far survives a power cut."""
        paths, self._paths = self._paths, []
        doubtful, self._doubtful = self._doubtful, []
        directories, self._directories = self._directories, []
        sync_files(self._storage, paths)
        write_anew(self._storage, doubtful)
        if directories and self._storage.location.is_local:
            root = self._storage.location.path
            self._storage.syncer.barrier(dirs=[root / PurePosixPath(each) for each in directories])


def _parent(table: Table) -> str:
    """The directory that has the name of the dataset: its maker may have died before syncing it."""
    return str(PurePosixPath(table.ref.directory).parent)


def version_files(storage: Storage, table: Table, base: Table | None) -> list[str]:
    """The manifest of a version and the files it added on top of `base` (all it has, if None)."""
    known = {} if base is None else own_files(base)
    files = [path for path in own_files(table) if path not in known]
    if has_blobs(table.schema):
        files += [side for path in files for side in side_files(storage, path)]
    return [*files, manifest_path(table.ref, table.version)]


def sync_version(tables: Tables, table: Table, base: Table | None) -> None:
    """A barrier for one version."""
    barrier = Barrier(tables.storage)
    barrier.add_version(table, base)
    barrier.sync()


def sync_staged(storage: Storage, staged: Iterable[StagedWrite]) -> None:
    """Sync the files of staged writes; must precede the commit that adopts them."""
    sync_files(storage, [file.path for write in staged for file in write.files])


def sync_manifests(tables: Tables, committed: Iterable[Table]) -> None:
    """Sync the manifests of freshly committed versions whose files are synced already."""
    sync_files(tables.storage, [manifest_path(table.ref, table.version) for table in committed])


def sync_new_table(storage: Storage, ref: TableRef) -> None:
    """Sync a dataset that was just created, and its name in its parent."""
    if storage.location.is_local:
        storage.syncer.sync_tree(storage.location.path / PurePosixPath(ref.directory))


def sync_fork(storage: Storage, ref: TableRef, name: str) -> None:
    """Sync a new branch: its files first, then the ref that makes it exist."""
    if not storage.location.is_local:
        return
    root = storage.location.path
    storage.syncer.sync_tree(root / PurePosixPath(ref.on(name).directory))
    tree = PurePosixPath(ref.path) / "tree" / name
    storage.syncer.barrier(dirs=[root / parent for parent in tree.parents if ref.path in str(parent)])
    refs = root / PurePosixPath(ref.path) / "_refs"
    file = refs / "branches" / f"{quote(name, safe='')}.json"
    storage.syncer.barrier([file], [file.parent, refs, refs.parent])


def sync_ref_removed(storage: Storage, path: str) -> None:
    """After the ref of a branch was deleted: it must not come back when its files are gone."""
    if storage.location.is_local:
        storage.syncer.barrier(dirs=[(storage.location.path / PurePosixPath(path)).parent])


def sync_files(storage: Storage, paths: Iterable[str]) -> None:
    """Sync files given relative to the graph root, then their directories, as one barrier.

    The directory above goes along: Lance makes `data`, `_deletions` and the rest when
    the first file needs them, and such a name is new in the directory of the table. Not so
    `_versions`: it is as old as the table, which was synced when it was made.
    """
    if not storage.location.is_local:
        return
    root = str(storage.location.path)
    absolute = [f"{root}/{path}" for path in paths]
    directories = dict.fromkeys(os.path.dirname(path) for path in absolute)
    above = (os.path.dirname(each) for each in directories if not each.endswith("/_versions"))
    storage.syncer.barrier(absolute, [*directories, *above])


def write_anew(storage: Storage, paths: Iterable[str]) -> None:
    """Put synced copies in the place of files given relative to the graph root (see `storage.sync`)."""
    if not storage.location.is_local:
        return
    absolute = [storage.location.path / PurePosixPath(path) for path in paths]
    if not absolute:
        return
    storage.syncer.write_anew(absolute)
    storage.syncer.barrier(dirs={path.parent.parent for path in absolute})
