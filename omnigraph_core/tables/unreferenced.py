"""Files of a table that no version of it refers to: staged by writers that died, or are at work.

By name. The names of data and deletion files and of indexes are unique within a dataset with all its
forks (each has a random part), so a name that any version has on any lineage is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from omnigraph_core.storage import Stored
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.fragments import file_name
from omnigraph_core.tables.indexes import list_indexes
from omnigraph_core.tables.refs import TableRef

_FOLDERS = ("data", "_deletions", "_indices")


def staged_names(files: Mapping[str, Stored], line: TableRef) -> dict[str, str]:
    """Of the files of a dataset, those of one lineage that a version may refer to: path to name.

    The name of a file is that of the data file it belongs to (large blobs have a folder of their
    own beside it), or the uuid of its index.
    """
    found = {}
    for path in files:
        inside = path.removeprefix(f"{line.directory}/")
        folder, _, rest = inside.partition("/")
        if inside != path and folder in _FOLDERS and rest:
            found[path] = _stem(rest.split("/")[0])
    return found


def referenced_names(tables: Tables, line: TableRef, versions: Iterable[int]) -> set[str]:
    """The names that these versions refer to, wherever the files are. Raises if one cannot be read."""
    return {name for version in versions for name in _names(tables.open(line, version))}


def _names(table: Table) -> Iterable[str]:
    with lance_failures(table.ref, "listing the files of"):
        fragments = [fragment.metadata for fragment in table.lance.get_fragments()]
    for fragment in fragments:
        yield from (_stem(file_name(file)) for file in fragment.files)
        if fragment.deletion_file is not None:
            yield _stem(PurePosixPath(fragment.deletion_file.path(fragment.id)).name)
    for built in list_indexes(table).values():
        yield from (str(segment.uuid) for segment in built.segments)


def _stem(name: str) -> str:
    return PurePosixPath(name).stem
