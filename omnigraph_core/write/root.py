"""What is at the place where a graph should be. Looked at by every command, so it imports little."""

from __future__ import annotations

from enum import Enum, auto

from omnigraph_core import layout
from omnigraph_core.errors import NotFoundError, StorageError
from omnigraph_core.manifest.reader import manifest_ref
from omnigraph_core.storage import ControlStore, Storage
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.write.pending import record_ids
from omnigraph_core.write.staging_record import INIT_KIND, StagingRecord


class RootState(Enum):
    """What is at the place where a graph should be."""

    EMPTY = auto()
    GRAPH = auto()
    UNFINISHED = auto()
    ORPHANED = auto()
    """Schema files and nothing else: left by an init of the original that died."""
    FOREIGN = auto()


_SCHEMA_FILES = {layout.SCHEMA_SOURCE, layout.SCHEMA_COMPILED, layout.SCHEMA_STATE}


class GraphNotFound(NotFoundError):
    """There is no graph where one was expected."""


def require_graph(storage: Storage, tables: Tables) -> None:
    """Raise unless there is a graph: an init that died may have left its record, or half a graph."""
    uri = storage.location.uri
    if inspect_root(storage.control) is RootState.UNFINISHED and not _is_made(tables):
        raise GraphNotFound(
            f"{uri}: an init started here and did not finish",
            hint="run `omnigraph init` again; it clears what is left",
        )
    if not tables.exists(manifest_ref(layout.MAIN_BRANCH)):
        if layout.MANIFEST in storage.control.entries():
            raise StorageError(
                f"the graph at {uri} is damaged: {layout.MANIFEST} has no versions",
                hint="restore the directory from a backup",
            )
        raise GraphNotFound(f"there is no graph at {uri}", hint="create one with `omnigraph init`")


def _is_made(tables: Tables) -> bool:
    """Did the init that left its record get as far as making the graph?"""
    from omnigraph_core.write.creation import manifest_is_whole

    return manifest_is_whole(tables)


def inspect_root(control: ControlStore) -> RootState:
    """Look without touching anything, and without Lance."""
    names = set(control.entries())
    versions = control.list(f"{layout.MANIFEST}/_versions")
    has_manifest = any(name.endswith(".manifest") for name in versions)
    unfinished = bool(init_records(control))
    if has_manifest and not unfinished:
        return RootState.GRAPH
    if names - layout.ROOT_NAMES:
        return RootState.FOREIGN
    if unfinished:
        return RootState.UNFINISHED
    # An init that was killed before its record leaves these, the second with a temporary file.
    if names == {layout.LOCKS_DIR, layout.STAGING_DIR} and not control.list(layout.STAGING_DIR):
        return RootState.UNFINISHED
    names -= {layout.LOCKS_DIR}
    if names and names <= _SCHEMA_FILES and all(map(control.exists, names)):
        return RootState.ORPHANED
    return RootState.FOREIGN if names else RootState.EMPTY


def init_records(control: ControlStore) -> list[str]:
    """Operations whose staging record an init wrote.

    One that cannot be read may be anybody's. In a graph it is left to the sweep, which says so;
    where there is no graph, the place is not ours until a person has looked at it.
    """
    found: list[str] = []
    for operation_id in record_ids(control, layout.STAGING_DIR):
        try:
            record = control.get(layout.staging_record(operation_id))
            if record is not None and StagingRecord.decode(operation_id, record.data).kind == INIT_KIND:
                found.append(operation_id)
        except StorageError:
            continue
    return found
