"""Folding: the small fragments that small writes leave behind are joined as they pile up.

Every commit and every look-up costs time in proportion to the number of fragments, and
every small write adds one. So a write that finds too many of them brings along a second
transaction that makes them one: same rows, same row ids, same row versions. It is what
`optimize` does, for the tail alone and in a few milliseconds.
"""

from __future__ import annotations

import json
from typing import Any

from omnigraph_core.storage import Storage
from omnigraph_core.tables.compaction import rewrite_groups
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.indexes import list_indexes
from omnigraph_core.tables.limits import FOLD_FRAGMENTS, FOLD_ROWS_MAX
from omnigraph_core.tables.staged import StagedWrite


def stage_fold(storage: Storage, table: Table, write: StagedWrite) -> StagedWrite | None:
    """A second write, to be committed right after `write`; None while the tail is short.

    Fragments that `write` changes are left alone, because it is staged on the same version;
    so are indexed ones, because joining them would take them out of their indexes.
    """
    if table.count_fragments() < FOLD_FRAGMENTS:
        return None
    rows = table.fragment_rows()
    small = {each for each, count in rows.items() if count < FOLD_ROWS_MAX}
    if len(small) < FOLD_FRAGMENTS:
        return None
    touched = _touched(write)
    if touched is None:
        return None
    covered = {each for built in list_indexes(table).values() for each in built.covered}
    tail = small - touched - covered
    if len(tail) < FOLD_FRAGMENTS:
        return None
    groups = _joined(table, tail)
    if not groups:
        return None
    return rewrite_groups(storage, table, groups, write.read_version + 1, write.operation_id)


def _touched(write: StagedWrite) -> set[int] | None:
    """The fragments a write removes or marks rows of; None when nothing will be left to fold."""
    from lance.dataset import LanceOperation

    operation = write.transaction.operation
    if isinstance(operation, LanceOperation.Append):
        return set()
    if isinstance(operation, LanceOperation.Update):
        return {*operation.removed_fragment_ids, *(each.id for each in operation.updated_fragments)}
    if isinstance(operation, LanceOperation.Delete):
        return {*operation.deleted_fragment_ids, *(each.id for each in operation.updated_fragments)}
    return None


def _joined(table: Table, tail: set[int]) -> list[Any]:
    """Write one fragment for every run of tail fragments that Lance would join.

    Lance plans for the whole table and takes no choice of fragments, but its tasks can be
    narrowed in their serialised form.
    """
    from lance.optimize import Compaction, CompactionTask

    options = {"target_rows_per_fragment": FOLD_ROWS_MAX, "materialize_deletions": False}
    with lance_failures(table.ref, "folding small fragments of"):
        groups = []
        for task in Compaction.plan(table.lance, options).tasks:
            document = json.loads(task.json())
            chosen = [each for each in document["task"]["fragments"] if each["id"] in tail]
            if len(chosen) < FOLD_FRAGMENTS // 2:
                continue
            document["task"]["fragments"] = chosen
            groups.append(CompactionTask.from_json(json.dumps(document)).execute(table.lance))
        return groups
