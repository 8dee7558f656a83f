"""Tables of types that a schema adds: where they live, and what they start from.

Version 1 on Lance's main lineage is a stub: the key columns and no rows. Nobody reads it. The
columns follow as a staged write, on main's lineage for main and on a fork of the stub for a
branch; so a branch never moves what is main's, and main and a branch may give one type different
columns. A stub that an apply left behind, or that another branch made, is used again.

A type lives where its name's hash says, unless another table has been there: that of a type
which was renamed, or dropped and is still read by old commits. Then it gets a place that nobody
has had. Nothing is cleared, so nothing can be lost. Under the refs lock: no second apply is at work.
"""

from __future__ import annotations

import pyarrow as pa

from omnigraph_core import faults, layout
from omnigraph_core.errors import NotFoundError, StorageError
from omnigraph_core.manifest.branch import lineage_of
from omnigraph_core.manifest.snapshot import ManifestState
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.schema.model import EdgeType, EntityType
from omnigraph_core.tables.commit import Guard, restored_version
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import sync_new_table
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.write.forks import fork_at, unwritten
from omnigraph_core.write.plan import ForkOrigin
from omnigraph_core.write.sidecar import read_pending
from omnigraph_core.write.writable import WritableTable

_STUB_VERSION = 1


def new_table(
    tables: Tables, entity: EntityType, branch: str, state: ManifestState, operation_id: str, guard: Guard
) -> WritableTable:
    """A table with the key columns of a type, on the branch's own lineage; `state` is the branch's."""
    stub = _place(tables, entity, branch, state, operation_id)
    if tables.exists(stub):
        # Whoever made it may have died before this.
        sync_new_table(tables.storage, stub)
    else:
        guard()
        create_table(tables, stub, _key_columns(entity), operation_id)
        sync_new_table(tables.storage, stub)
    faults.hit("schema.stub_created")
    lineage = lineage_of(branch)
    if lineage is None:
        return WritableTable(unwritten(tables, stub, _STUB_VERSION, guard), 0, 0)
    head = fork_at(tables, stub, _STUB_VERSION, lineage, guard)
    return WritableTable(head, 0, 0, ForkOrigin(None, _STUB_VERSION))


def _place(
    tables: Tables, entity: EntityType, branch: str, state: ManifestState, operation_id: str
) -> TableRef:
    """Where the type's name says, if that place is free or has a stub that can be built on."""
    home = TableRef(entity.table_key, layout.table_path(entity.kind, entity.name))
    if home.path not in state.paths and (not tables.exists(home) or _is_usable(tables, home, entity, branch)):
        return home
    return TableRef(home.key, layout.table_path(entity.kind, f"{entity.name} {operation_id}"))


def _is_usable(tables: Tables, home: TableRef, entity: EntityType, branch: str) -> bool:
    """Is there a stub, and is the lineage that would be built on unwritten and nobody's?

    A pending write that names the place may be rolled back, which may remove it.
    """
    if _is_pending(tables, home.path):
        return False
    try:
        if not _is_stub(tables.open(home, _STUB_VERSION), entity):
            return False
        if lineage_of(branch) is not None:
            return True
        head = tables.open(home)
        return head.version == _STUB_VERSION or restored_version(head) == _STUB_VERSION
    except (NotFoundError, StorageError):
        return False


def _is_stub(table: Table, entity: EntityType) -> bool:
    return bool(table.schema.equals(_key_columns(entity))) and not table.count_rows()


def _is_pending(tables: Tables, path: str) -> bool:
    pending = read_pending(tables.storage.control)
    return any(table.table_path == path for sidecar in pending for table in sidecar.tables)


def _key_columns(entity: EntityType) -> pa.Schema:
    fixed = 3 if isinstance(entity, EdgeType) else 1
    return pa.schema(list(table_schema(entity))[:fixed])
