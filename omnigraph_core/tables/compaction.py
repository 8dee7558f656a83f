"""Staged compaction of a data table: fewer, larger fragments, and its indexes over them.

Up to three transactions, all prepared before anything is committed: the old indexes go
(Lance does not join fragments that are covered by different ones, which is what most
small fragments are), the fragments are rewritten with the same rows, row ids and row
versions, and indexes are built over the result. Lance's own compaction would move HEAD
twice by itself, and on a branch that inherits a BTREE it leaves an index that points
nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.fragments import ROWS_PER_FRAGMENT, data_files
from omnigraph_core.tables.indexes import IndexSpec, build_segments, index_write, list_indexes
from omnigraph_core.tables.staged import StagedWrite, StageKind, prepare


def stage_compaction(
    storage: Storage, table: Table, indexes: Sequence[IndexSpec], operation_id: str
) -> list[StagedWrite]:
    """The writes to commit in order, none when there is nothing to gain.

    `indexes` are the ones the table should have afterwards; any other index it has is
    dropped with the fragments it was built from.
    """
    removed = [segment for built in list_indexes(table).values() for segment in built.segments]
    writes = [index_write(table, [], removed, table.version, operation_id)] if removed else []
    with ExitStack() as previews:
        bare = previews.enter_context(_previewed(storage, table, writes[0])) if removed else table
        groups = _rewritten_groups(bare)
        if not groups:
            return []
        writes.append(rewrite_groups(storage, table, groups, table.version + len(writes), operation_id))
        if indexes:
            result = previews.enter_context(_previewed(storage, bare, writes[-1]))
            segments = build_segments(storage, result, indexes)
            writes.append(index_write(table, segments, [], table.version + len(writes), operation_id))
    return writes


def _rewritten_groups(table: Table) -> list[Any]:
    """Write the new fragments of every group of small or thinned-out ones."""
    from lance.optimize import Compaction

    with lance_failures(table.ref, "compacting"):
        plan = Compaction.plan(table.lance, {"target_rows_per_fragment": ROWS_PER_FRAGMENT})
        return [task.execute(table.lance) for task in plan.tasks]


def rewrite_groups(
    storage: Storage, table: Table, groups: Sequence[Any], read_version: int, operation_id: str
) -> StagedWrite:
    """The transaction that puts the new fragments of executed compaction tasks in place of the old."""
    from lance.dataset import LanceOperation

    operation = LanceOperation.Rewrite(
        [LanceOperation.RewriteGroup(group.original_fragments, group.new_fragments) for group in groups], []
    )
    new = [fragment for group in groups for fragment in group.new_fragments]
    files = data_files(storage, table.ref, new, table.schema)
    return prepare(table.ref, StageKind.COMPACTION, read_version, operation, operation_id, files)


@contextmanager
def _previewed(storage: Storage, table: Table, staged: StagedWrite) -> Iterator[Table]:
    """The table as `staged` would make it, for as long as the block runs; HEAD does not move.

    A detached commit does that. Fragment ids are handed out from the base's highest, so
    the real commit, which `commit_exact` puts on the same content, gives the same ones.
    """
    from lance import LanceDataset
    from lance.dataset import Transaction

    transaction = Transaction(table.version, staged.transaction.operation)
    with lance_failures(table.ref, "previewing the compaction of"):
        preview = LanceDataset.commit(table.lance, transaction, max_retries=1, detached=True)
    try:
        yield Table(table.ref, preview)
    finally:
        storage.control.delete(f"{table.ref.directory}/_versions/d{preview.version}.manifest")
