"""Staged compaction of a data table: fewer, larger fragments, and its indexes over them.

Up to three transactions, all prepared before anything is committed: indexes go, the
fragments are rewritten with the same rows and row ids, and row versions that say no more than
anybody can still ask (`row_versions.py`), and indexes are built over the result. Lance's own
compaction would move HEAD twice by itself, and on a branch that inherits a BTREE it leaves an
index that points nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from typing import Any

from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.fragments import data_files
from omnigraph_core.tables.indexes import MEMORY_BYTES, IndexSpec, index_write, list_indexes, stage_indexes
from omnigraph_core.tables.limits import DELETED_SHARE_MAX, ROWS_PER_FRAGMENT
from omnigraph_core.tables.preview import previewed
from omnigraph_core.tables.row_versions import level
from omnigraph_core.tables.staged import StagedWrite, StageKind, discard_files, prepare


@dataclass(frozen=True, slots=True)
class PendingIndex:
    """An index that is declared and cannot or need not be built yet, and why."""

    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class IndexWork:
    """Indexes to build over everything, and those to extend to what they do not cover yet."""

    build: Sequence[IndexSpec] = ()
    extend: Sequence[IndexSpec] = ()
    pending: tuple[PendingIndex, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in (*self.build, *self.extend))


Choose = Callable[[Table], IndexWork]
"""What the indexes of a table need, as this version has them."""


@dataclass(frozen=True, slots=True)
class Compactable:
    """What a compaction of a table would rewrite; read from its manifest alone."""

    fragments: int
    rewritten: int
    """Fragments that would be joined with a neighbour, or rid of their deleted rows."""
    rows: int
    """Live rows in these."""
    bytes: int
    """Size of their data files."""


def compactable(table: Table, besides: Collection[int] = ()) -> Compactable:
    """Runs of fragments that are too small, and single ones with too many deleted rows.

    Fragments named by `besides` stay as they are.
    """
    fragments = [fragment.metadata for fragment in table.lance.get_fragments()]
    chosen: list[Any] = []
    run: list[Any] = []
    for fragment in [*fragments, None]:
        if fragment is not None and fragment.id not in besides and _is_worth_it(fragment):
            run.append(fragment)
            continue
        if len(run) > 1 or any(map(_is_thin, run)):
            chosen += run
        run = []
    return Compactable(
        fragments=len(fragments),
        rewritten=len(chosen),
        rows=sum(fragment.num_rows for fragment in chosen),
        bytes=sum(file.file_size_bytes or 0 for fragment in chosen for file in fragment.files),
    )


def _is_worth_it(fragment: Any) -> bool:
    return _is_small(fragment) or _is_thin(fragment)


def _is_small(fragment: Any) -> bool:
    return bool(fragment.physical_rows < ROWS_PER_FRAGMENT)


def _is_thin(fragment: Any) -> bool:
    return bool(fragment.num_deletions > DELETED_SHARE_MAX * fragment.physical_rows)


def stage_compaction(
    storage: Storage,
    table: Table,
    choose: Choose,
    operation_id: str,
    *,
    drops_indexes: bool,
    readable: Collection[int] = (),
    memory_bytes: int = MEMORY_BYTES,
) -> list[StagedWrite]:
    """The writes to commit in order: the rewrite, and what the indexes need after it; perhaps none.

    Lance does not join fragments that are covered by different indexes, which is what most
    small ones are, unless the compaction `drops_indexes` first; then all are built anew. One
    that keeps them joins the fragments that no index covers: a covered one would be in its
    index and out of it at once.

    Row versions between two `readable` versions of the table are not told apart any more; none
    of these may be above the table's own. Without any, all stay as they are.
    """
    with ExitStack() as previews:
        writes: list[StagedWrite] = []
        result = table
        try:
            removed = all_segments(table) if drops_indexes else []
            if removed:
                writes.append(index_write(table, [], removed, table.version, operation_id))
                result = previews.enter_context(previewed(storage, result, writes[-1]))
            groups = _rewritten_groups(result, covered_fragments(result))
            if groups:
                writes.append(
                    rewrite_groups(
                        storage, table, groups, table.version + len(writes), operation_id, readable
                    )
                )
                result = previews.enter_context(previewed(storage, result, writes[-1]))
            elif removed:
                writes, result = [], table
            work = choose(result)
            if work.names:
                writes.append(
                    stage_indexes(
                        storage,
                        result,
                        operation_id,
                        build=work.build,
                        extend=work.extend,
                        memory_bytes=memory_bytes,
                        read_version=table.version + len(writes),
                    )
                )
        except BaseException:
            discard_files(storage, writes)
            raise
    return writes


def all_segments(table: Table) -> list[Any]:
    return [segment for built in list_indexes(table).values() for segment in built.segments]


def covered_fragments(table: Table) -> frozenset[int]:
    """The fragments that any index covers."""
    return frozenset(each for built in list_indexes(table).values() for each in built.covered)


def _rewritten_groups(table: Table, besides: frozenset[int]) -> list[Any]:
    """Write the new fragments of every group of small or thinned-out ones, but for those `besides`."""
    from lance.optimize import Compaction

    options: Any = {
        "target_rows_per_fragment": ROWS_PER_FRAGMENT,
        "materialize_deletions_threshold": DELETED_SHARE_MAX,
    }
    with lance_failures(table.ref, "compacting"):
        tasks = Compaction.plan(table.lance, options).tasks
        return [task.execute(table.lance) for task in tasks if not besides & _fragment_ids(task)]


def _fragment_ids(task: Any) -> set[int]:
    return {fragment["id"] for fragment in json.loads(task.json())["task"]["fragments"]}


def rewrite_groups(
    storage: Storage,
    table: Table,
    groups: Iterable[Any],
    read_version: int,
    operation_id: str,
    readable: Collection[int] = (),
) -> StagedWrite:
    """The transaction that puts the new fragments of executed compaction tasks in place of the old."""
    from lance.dataset import LanceOperation

    # Every reading of `new_fragments` makes new objects, so they are read once.
    pairs = [(group.original_fragments, level(group.new_fragments, readable)) for group in groups]
    rewritten = [LanceOperation.RewriteGroup(old, new) for old, new in pairs]
    operation = LanceOperation.Rewrite(rewritten, [])
    files = data_files(storage, table.ref, [each for _, new in pairs for each in new], table.schema)
    return prepare(table.ref, StageKind.COMPACTION, read_version, operation, operation_id, files)
