"""Which files a version of a table refers to, its own and those of lineages it was forked from.

By path where the files themselves are wanted, and by name where it is asked what nobody refers to.
The names of data and deletion files and of indexes are unique within a dataset with all its forks
(each has a random part), so a name that any version has on any lineage is in use, wherever the
version believes the file to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.fragments import file_name, has_blobs, side_files
from omnigraph_core.tables.indexes import list_indexes
from omnigraph_core.tables.places import place_inside
from omnigraph_core.tables.refs import TableRef

_FOLDERS = ("data", "_deletions", "_indices")


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


def named_files(paths: Iterable[str], line: TableRef) -> dict[str, str]:
    """Of the files of a dataset, those of one lineage that a version may refer to: path to name.

    The name of a file is that of the data file it belongs to (large blobs have a folder of their
    own beside it), or the uuid of its index.
    """
    found = {}
    for path in paths:
        inside = path.removeprefix(f"{line.directory}/")
        folder, _, rest = inside.partition("/")
        if inside != path and folder in _FOLDERS and rest:
            found[path] = _stem(rest.split("/")[0])
    return found


def referenced_names(table: Table) -> Iterator[str]:
    """The names that a version refers to."""
    with lance_failures(table.ref, "listing the files of"):
        fragments = [fragment.metadata for fragment in table.lance.get_fragments()]
    for fragment in fragments:
        yield from (_stem(file_name(file)) for file in fragment.files)
        if fragment.deletion_file is not None:
            yield _stem(fragment.deletion_file.path(fragment.id))
    for built in list_indexes(table).values():
        yield from (str(segment.uuid) for segment in built.segments)


def _stem(name: str) -> str:
    return PurePosixPath(name).stem


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
    homes: dict[int | None, str] = {None: table.ref.directory}
    for number, base in table.lance.base_paths().items():
        homes[number] = place_inside(storage, base.path) or base.path
    return homes
