"""Moved datasets: the manifests of Lance branches name the absolute place they were made in.

A fork reads its parent's files through `base_paths`, so after its directory was moved
or copied it reads from where the graph used to be: nothing at all, or the original.
Opening such a fork is refused (`GraphMoved`) until `relocate_forks` has rewritten the paths.

The rewriting knows this of Lance's manifest files (`tables/manifest_file.py`): field 18 of the
message is a base path; fields 2 and 4 of that are its name (the branch, none for main) and its path.
"""

from __future__ import annotations

from dataclasses import replace

from omnigraph_core import faults
from omnigraph_core.errors import StorageError
from omnigraph_core.storage import ControlStore, ObjectChanged
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.fork_refs import trees_on_disk
from omnigraph_core.tables.manifest_file import ManifestFile
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.torn import FOOTER_MAGIC, versions_on_disk
from omnigraph_core.tables.wire import WireField, encoded, fields

_BASE_PATH_FIELD = 18
_NAME_FIELD = 2
_PATH_FIELD = 4


def relocate_forks(tables: Tables, ref: TableRef, guard: Guard) -> int:
    """Make every version of every fork of a dataset refer to where it is now; returns how many changed.

    Each manifest is replaced atomically, by the e-tag that was read, and doing it again changes nothing.
    Nobody may be writing to the dataset. Whether the ref of a fork can be read does not matter, nor whether
    it has one: a deleted branch has none, and tags, bases and `undelete` still want its files.
    """
    home = tables.uri(ref.on(None))
    forks = (ref.on(name) for name in trees_on_disk(tables, ref))
    paths = [manifest_path(fork, version) for fork in forks for version in versions_on_disk(tables, fork)]
    return sum(_relocate_version(tables.storage.control, path, home, guard) for path in paths)


def _relocate_version(control: ControlStore, path: str, home: str, guard: Guard) -> bool:
    """Did it change? By now another branch may have the path, and a version of the same number."""
    found = control.get(path)
    if found is None or not found.data.endswith(FOOTER_MAGIC):
        return False  # Torn by a power cut: nothing to relocate, and whoever writes next sets it aside.
    rewritten = with_base_paths(found.data, home, path)
    if rewritten == found.data:
        return False
    guard()
    faults.hit("relocate.read")
    try:
        control.replace(path, rewritten, found.e_tag)
    except ObjectChanged:
        guard()
        raise
    return True


def with_base_paths(data: bytes, home: str, path: str) -> bytes:
    """The manifest file with all of its base paths below `home`."""
    try:
        found = ManifestFile.decode(data)
        message = b"".join(_relocated(field, home) for field in fields(found.message))
    except (IndexError, ValueError) as error:
        raise StorageError(f"{path} cannot be relocated: {error}") from error
    return replace(found, message=message).encode()


def _relocated(field: WireField, home: str) -> bytes:
    number, wire, payload = field
    if number != _BASE_PATH_FIELD:
        return encoded(field)
    inner = list(fields(payload))
    names = [text.decode() for inner_number, _, text in inner if inner_number == _NAME_FIELD]
    place = f"{home}/tree/{names[0]}" if names else home
    rewritten = [
        (inner_number, inner_wire, place.encode() if inner_number == _PATH_FIELD else text)
        for inner_number, inner_wire, text in inner
    ]
    return encoded((number, wire, b"".join(map(encoded, rewritten))))
