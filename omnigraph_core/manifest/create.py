"""The first version of `__manifest`: the moment a graph begins to exist."""

from __future__ import annotations

from collections.abc import Sequence

from omnigraph_core import faults, layout
from omnigraph_core.manifest import rows as manifest_rows
from omnigraph_core.manifest.request import Registration, Update
from omnigraph_core.manifest.rows import GraphHead
from omnigraph_core.manifest.stamp import INTERNAL_SCHEMA_VERSION, STAMP_KEY
from omnigraph_core.tables.commit import Guard, commit_exact
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.metadata import stage_metadata
from omnigraph_core.tables.refs import control_table

# Version 1 has all the rows, version 2 the config that tells other tools to keep off.
GENESIS_VERSION = 2
_CONFIG = {"table_version_management": "true"}


def create_manifest(
    tables: Tables,
    registrations: Sequence[Registration],
    updates: Sequence[Update],
    head: GraphHead,
    guard: Guard,
) -> Table:
    """Create `__manifest` with every table of a new graph in it; stamped from the start."""
    rows = [manifest_rows.head_row(head)]
    rows += [manifest_rows.table_row(entry.table_key, entry.table_path) for entry in registrations]
    rows += [
        manifest_rows.version_row(
            update.table_key, update.version, update.branch, update.row_count, update.metadata
        )
        for update in updates
    ]
    stamp = {STAMP_KEY: str(INTERNAL_SCHEMA_VERSION)}
    schema = manifest_rows.manifest_schema().with_metadata(stamp)
    data = manifest_rows.rows_table(rows).cast(schema)
    created = create_table(tables, control_table(layout.MANIFEST), schema, head.operation_id, data)
    faults.hit("init.manifest_created")
    configured = stage_metadata(created, head.operation_id, config=_CONFIG)
    return commit_exact(tables, configured, guard)
