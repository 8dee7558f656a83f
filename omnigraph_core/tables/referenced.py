"""Which files a version of a table refers to, its own and those of lineages it was forked from."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.fragments import file_name, has_blobs, side_files


def referenced_files(table: Table, storage: Storage) -> dict[str, int | None]:
    """Data, deletion and blob files with their sizes where they are recorded; paths below the graph root."""
    homes = _homes(table, storage)
    found: dict[str, int | None] = {}
    with lance_failures(table.ref, "listing the files of"):
        fragments = [fragment.metadata for fragment in table.lance.get_fragments()]
    for metadata in fragments:
        for data_file in metadata.files:
            path = f"{homes[data_file.base_id]}/data/{file_name(data_file)}"
            found[path] = data_file.file_size_bytes
        deletion = metadata.deletion_file
        if deletion is not None:
            found[f"{homes[deletion.base_id]}/{deletion.path(metadata.id)}"] = None
    if has_blobs(table.schema):
        found |= dict.fromkeys(side for path in list(found) for side in side_files(storage, path))
    return found


def referenced_names(table: Table, storage: Storage) -> Iterator[str]:
    """The same with the manifest and the folders of indexes: whatever a listing may show."""
    yield from referenced_files(table, storage)
    yield manifest_path(table.ref, table.version)
    with lance_failures(table.ref, "listing the indexes of"):
        descriptions = table.lance.describe_indices()
    homes = set(_homes(table, storage).values())
    for description in descriptions:
        for segment in description.segments:
            yield from (f"{home}/_indices/{segment.uuid}" for home in homes)


def short_files(table: Table, storage: Storage) -> list[str]:
    """Files of the version that are missing, empty, or not as long as it says."""
    return sorted(
        path for path, size in referenced_files(table, storage).items() if _is_short(storage, path, size)
    )


def _is_short(storage: Storage, path: str, size: int | None) -> bool:
    actual = storage.control.size(path)
    return not actual or (size is not None and actual != size)


def _homes(table: Table, storage: Storage) -> dict[int | None, str]:
    """The directories that the version keeps files in, by the number that files name them with."""
    root = storage.location.uri.rstrip("/") + "/"
    homes: dict[int | None, str] = {None: table.ref.directory}
    for number, base in table.lance.base_paths().items():
        homes[number] = base.path.removeprefix(root).rstrip("/")
    return homes
