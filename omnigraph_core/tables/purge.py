"""Rewriting the fragments that still hold values of dropped columns.

Dropping a column leaves its bytes in the files of the others. After a purge they are in old
versions alone, and go when those do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from omnigraph_core.storage import Storage
from omnigraph_core.tables.column_files import OnWritten, not_told
from omnigraph_core.tables.columns import stored_columns
from omnigraph_core.tables.compaction import all_segments, rewrite_groups
from omnigraph_core.tables.dataset import FILE_FORMAT, Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.fragments import data_paths
from omnigraph_core.tables.indexes import index_write
from omnigraph_core.tables.limits import ROWS_PER_FRAGMENT
from omnigraph_core.tables.preview import previewed
from omnigraph_core.tables.staged import StagedWrite


def holds_dropped(table: Table) -> bool:
    """Does any file of this version hold a column that the table has no more?"""
    return any(_dropped_ids(fragment, _live_ids(table)) for fragment in table.lance.get_fragments())


def stage_purge(
    storage: Storage,
    table: Table,
    operation_id: str,
    on_written: OnWritten = not_told,
    *,
    read_version: int | None = None,
) -> list[StagedWrite]:
    """The writes to commit in order. Indexes go along, and are for the caller to build.

    A preview says which version it will be. `on_written` is told the paths of files as they are written.
    """
    if not holds_dropped(table):
        return []
    base = table.version if read_version is None else read_version
    removed = all_segments(table)
    writes = [index_write(table, [], removed, base, operation_id)] if removed else []
    with ExitStack() as previews:
        bare = previews.enter_context(previewed(storage, table, writes[0])) if removed else table
        groups = list(_purged_groups(storage, bare, on_written))
        writes.append(rewrite_groups(storage, table, groups, base + len(writes), operation_id))
    return writes


def _purged_groups(storage: Storage, table: Table, on_written: OnWritten) -> Iterator[Any]:
    """Write every fragment with such values anew, each by itself; compaction plans nothing for full ones."""
    from lance.optimize import CompactionTask

    live, options = _live_ids(table), _task_options()
    for fragment in table.lance.get_fragments():
        if _dropped_ids(fragment, live):
            task = {"task": {"fragments": [fragment.metadata.to_json()]}}
            text = json.dumps({**task, "read_version": table.version, "options": options})
            with lance_failures(table.ref, "rewriting"):
                group = CompactionTask.from_json(text).execute(table.lance)
            on_written(data_paths(storage, table.ref, group.new_fragments, table.schema))
            yield group


def _live_ids(table: Table) -> frozenset[int]:
    columns = stored_columns(table.lance.lance_schema).values()
    return frozenset(id_ for column in columns for id_ in column.ids)


def _dropped_ids(fragment: Any, live: frozenset[int]) -> set[int]:
    """A negative id is a column that was taken out of the file's list; its bytes are there as well."""
    return {id_ for file in fragment.metadata.files for id_ in file.fields} - live


def _task_options() -> Any:
    """The options of a compaction task, which only a plan can tell; here one of a table in memory."""
    import lance
    import pyarrow as pa
    from lance.optimize import Compaction

    twin = lance.write_dataset(
        pa.table({"id": [1, 2]}), "memory://", max_rows_per_file=1, data_storage_version=FILE_FORMAT
    )
    plan = Compaction.plan(twin, {"target_rows_per_fragment": ROWS_PER_FRAGMENT})
    return json.loads(plan.tasks[0].json())["options"]
