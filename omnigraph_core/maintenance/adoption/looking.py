"""What a graph of the original is like, and whether it may be adopted. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core import layout
from omnigraph_core.errors import OmnigraphError, RefusedError
from omnigraph_core.maintenance.adoption.datasets import bad_indexes, unpublished
from omnigraph_core.maintenance.adoption.found import AdoptedBranch, AdoptedTable
from omnigraph_core.maintenance.adoption.record import is_adoption
from omnigraph_core.manifest.branch import lineage_of
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.manifest.rows import TYPE_HEAD, TYPE_TABLE, TYPE_TOMBSTONE, TYPE_VERSION
from omnigraph_core.manifest.snapshot import Snapshot, SubTableEntry
from omnigraph_core.manifest.stamp import INTERNAL_SCHEMA_VERSION, read_stamp
from omnigraph_core.original.catalog import load_original_catalog
from omnigraph_core.schema import Schema
from omnigraph_core.tables.failures import GraphMoved
from omnigraph_core.tables.foreign import ids_of_empty_blobs

_KNOWN_TYPES = {TYPE_TABLE, TYPE_VERSION, TYPE_TOMBSTONE, TYPE_HEAD}


def refuse_unfit(manifest: Manifest) -> None:
    """Raise if the graph is in a state that only the original understands, or that nobody does."""
    control = manifest.tables.storage.control
    main = manifest.open_for_read(layout.MAIN_BRANCH)
    stamp = read_stamp(main)
    if stamp != INTERNAL_SCHEMA_VERSION:
        raise RefusedError(
            f"the graph has the internal schema {stamp} of an older version of the original; "
            f"{INTERNAL_SCHEMA_VERSION} can be adopted",
            hint="run any command of the original 0.6.2 on it once, then adopt it",
        )
    pending = [name for name in control.list(layout.RECOVERY_DIR) if not is_adoption(control, name)]
    if pending:
        raise RefusedError(
            f"a write of the original is not finished: {layout.RECOVERY_DIR}/{pending[0]}",
            hint="run any command of the original on it once, which finishes it, then adopt it",
        )
    if manifest.branch_ref(layout.SCHEMA_LOCK_BRANCH) is not None:
        raise RefusedError(
            "a schema apply of the original is not finished: its lock, the branch "
            f"'{layout.SCHEMA_LOCK_BRANCH}', is there",
            hint="stop the original or let it finish, then adopt the graph",
        )
    load_original_catalog(control)
    for name in readable(manifest):
        found = manifest.open(name).read(["object_type"]).column("object_type").unique().to_pylist()
        if unknown := sorted(set(found) - _KNOWN_TYPES):
            raise RefusedError(
                f"the manifest of branch '{name}' has rows of the unknown type '{unknown[0]}'",
                hint="another program wrote them; what they mean would be lost",
            )


def readable(manifest: Manifest) -> Iterator[str]:
    """The branches that can be read where the graph is, main first."""
    for name in (layout.MAIN_BRANCH, *sorted(manifest.branches())):
        try:
            manifest.open(name)
        except OmnigraphError:
            if name == layout.MAIN_BRANCH:
                raise
            continue
        yield name


def look_at_branches(manifest: Manifest) -> list[AdoptedBranch]:
    found = []
    for name in (layout.MAIN_BRANCH, *sorted(manifest.branches())):
        try:
            head = manifest.snapshot(name).head
            found.append(AdoptedBranch(name, head.commit_id if head else None))
        except GraphMoved:
            found.append(AdoptedBranch(name, None, is_moved=True))
        except OmnigraphError as problem:
            found.append(AdoptedBranch(name, None, problem=str(problem)))
    return found


def look_at_tables(manifest: Manifest, snapshot: Snapshot, schema: Schema) -> Iterator[AdoptedTable]:
    """The tables that a branch owns, with what there is to do about them."""
    for entry in owned(snapshot):
        try:
            yield _look(manifest, snapshot.branch, entry, schema)
        except OmnigraphError as problem:
            version = entry.table_version
            yield AdoptedTable(snapshot.branch, entry.table_key, version, version, problem=str(problem))


def owned(snapshot: Snapshot) -> list[SubTableEntry]:
    """The tables whose versions are the branch's own to move."""
    return [each for each in snapshot.tables.values() if each.table_branch == lineage_of(snapshot.branch)]


def _look(manifest: Manifest, branch: str, entry: SubTableEntry, schema: Schema) -> AdoptedTable:
    table = manifest.tables.open(entry.ref, entry.table_version)
    table.count_rows()
    return AdoptedTable(
        branch,
        entry.table_key,
        entry.table_version,
        entry.table_version,
        drift=unpublished(manifest.tables, entry),
        empty_blobs=len(ids_of_empty_blobs(table)),
        indexes=bad_indexes(manifest.tables.storage, table, schema),
    )
