"""Appending to our own log-like datasets: commits, actors, recoveries.

Nobody looks up or updates these rows while writing, and every row has a key of its
own, so two appends may land in any order: Lance rebases one onto the other. That makes
this the one place where a commit is not exact.

A newest version that a power cut tore is not this module's to judge: what it held may
have been acknowledged. `history/settle.py` sets it aside, before anything is appended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from omnigraph_core import faults, layout
from omnigraph_core.records import dataclass
from omnigraph_core.tables.commit import Guard, transaction_properties, unguarded
from omnigraph_core.tables.control_rewrite import stage_control_rewrite, tail_to_rewrite
from omnigraph_core.tables.create import TableExists, create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import Barrier, manifest_path, sync_files, sync_new_table
from omnigraph_core.tables.failures import LANCE_RAISES, TableNotFound, storage_error
from omnigraph_core.tables.fragments import file_name, write_rows
from omnigraph_core.tables.keys import quote_text
from omnigraph_core.tables.limits import FRAGMENTS_MAX
from omnigraph_core.tables.log_columns import with_columns
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import PUBLISHED_PROPERTY, operation_properties

if TYPE_CHECKING:
    import pyarrow as pa

_RETRIES = 20

Marks = Mapping[str, str]
"""Properties of the transaction that appends, beside the operation."""
NO_MARKS: Marks = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Rows in files of their own, which no version of the log refers to yet."""

    base: Table
    transaction: Any
    files: tuple[str, ...]
    """Relative to the graph root."""


def append_rows(
    tables: Tables,
    ref: TableRef,
    rows: pa.Table,
    operation_id: str,
    barrier: Barrier,
    marks: Marks = NO_MARKS,
    guard: Guard = unguarded,
) -> None:
    """Append; creates the dataset when it is the first row ever. Safe once `barrier` is synced.

    `operation_id` names the sidecar under which this is done. `guard` is asked right before.
    """
    try:
        base = tables.open(ref)
    except TableNotFound:
        base = _create(tables, ref, rows.schema, operation_id)
    written = _write(with_columns(base, rows.schema, operation_id), rows)
    barrier.add_files(written.files)
    append_written(tables, written, operation_id, barrier, marks, guard)


def write_ahead(tables: Tables, base: Table, rows: pa.Table) -> WrittenRows:
    """Write rows that are appended later, and sync them. The log must have all of their columns."""
    written = _write(base, rows)
    sync_files(tables.storage, written.files)
    return written


def append_written(
    tables: Tables,
    written: WrittenRows,
    operation_id: str,
    barrier: Barrier,
    marks: Marks = NO_MARKS,
    guard: Guard = unguarded,
) -> None:
    """Append rows whose file is synced, or is the barrier's to sync."""
    transaction = written.transaction
    transaction.transaction_properties = operation_properties(operation_id, **marks)
    guard()
    _add(tables, barrier, _commit(tables, written.base, transaction), operation_id)


def _write(base: Table, rows: pa.Table) -> WrittenRows:
    transaction = write_rows(base, rows)
    files = (file for fragment in transaction.operation.fragments for file in fragment.files)
    paths = tuple(f"{base.ref.directory}/data/{file_name(file)}" for file in files)
    return WrittenRows(base, transaction, paths)


def append_if_absent(
    tables: Tables,
    ref: TableRef,
    keys: Sequence[str],
    rows: pa.Table,
    operation_id: str,
    barrier: Barrier,
    guard: Guard,
    marks: Marks = NO_MARKS,
) -> bool:
    """Append one row unless a row with the same `keys` is there; True if it was appended.

    Exactly once only under a lock that keeps other appenders of the same key away, and the branch
    of the log in its place. `guard` raises when that lock is lost: whoever has it now may have
    appended the row, and another branch may have the name of this one.
    """
    tables.forget(ref)  # What was kept may be from before somebody wrote the row.
    try:
        present = tables.open(ref)
        if present.count_rows(" AND ".join(_equals(key, rows.column(key)[0].as_py()) for key in keys)):
            # Whoever wrote it may have died before syncing it, or have failed to.
            barrier.renew_version(present, None)
            return False
    except TableNotFound:
        pass
    faults.hit("tables.log_looked_up")
    append_rows(tables, ref, rows, operation_id, barrier, marks, guard)
    return True


def _equals(key: str, value: str | None) -> str:
    return f"{key} IS NULL" if value is None else f"{key} = {quote_text(value)}"


def append_absent(
    tables: Tables,
    ref: TableRef,
    key: str,
    rows: pa.Table,
    operation_id: str,
    barrier: Barrier,
    guard: Guard,
) -> None:
    """Append those of several rows whose `key` is not there yet, under the lock of those who append to it.

    The mark of the newest version stays the newest: these rows tell of no publish.
    """
    import pyarrow.compute as pc

    present = tables.open(ref)
    known = present.read([key]).column(key).combine_chunks()
    absent = rows.filter(pc.invert(pc.is_in(rows.column(key), value_set=known)))
    if not absent.num_rows:
        barrier.renew_version(present, None)
        return
    published = transaction_properties(present, present.version).get(PUBLISHED_PROPERTY)
    marks = NO_MARKS if published is None else {PUBLISHED_PROPERTY: published}
    faults.hit("tables.log_looked_up")
    append_rows(tables, ref, absent, operation_id, barrier, marks, guard)


def compact_log(
    tables: Tables, ref: TableRef, operation_id: str, barrier: Barrier, most: int = FRAGMENTS_MAX
) -> None:
    """Rewrite the tail of one-row fragments when there are more than `most`; losing a race is fine.

    The rows of the tail are written anew, also those of others that are not synced yet. So
    it does not matter what a power cut leaves of the versions below.
    """
    table = tables.open(ref)
    tail = tail_to_rewrite(table.fragment_rows(), most) if table.count_fragments() > most else []
    if not tail:
        return
    staged = stage_control_rewrite(tables.storage, table, tail, operation_id)
    published = transaction_properties(table, table.version).get(PUBLISHED_PROPERTY)
    if published is not None:
        properties = staged.transaction.transaction_properties
        staged.transaction.transaction_properties = {**properties, PUBLISHED_PROPERTY: published}
    barrier.add_files(file.path for file in staged.files)
    _add(tables, barrier, _commit(tables, table, staged.transaction), operation_id)


def _add(tables: Tables, barrier: Barrier, landed: Table, operation_id: str) -> None:
    """Have the barrier make `landed` safe, whose own files it has, and what that stands on and may not be.

    Actors and recoveries are appended to by writers of all branches, and only each one's own
    barrier syncs its files. A version of ours that stands on another's unsynced one is lost
    with it, although our own files are safe. Who may that be? Whoever committed before us and
    has not passed its barrier. Its sidecar is there from before its append until after that
    barrier. So a sidecar that is *not* listed after our commit is of a writer that came later
    or is safe by now, and while one is listed, everything is synced that our version refers to.
    Not the manifests below ours: a version is read by itself, and a torn one beneath it is
    never looked at again.
    """
    if not tables.storage.location.is_local:
        return
    own = f"{operation_id}.json"
    if any(name != own for name in tables.storage.control.list(layout.RECOVERY_DIR)):
        barrier.add_foreign(landed)
    else:
        barrier.add_files([manifest_path(landed.ref, landed.version)])


def _create(tables: Tables, ref: TableRef, schema: pa.Schema, operation_id: str) -> Table:
    try:
        created = create_table(tables, ref, schema, operation_id)
    except TableExists:
        return tables.open(ref)
    sync_new_table(tables.storage, ref)
    return created


def _commit(tables: Tables, base: Table, transaction: Any) -> Table:
    from lance import LanceDataset

    try:
        landed = Table(base.ref, LanceDataset.commit(base.lance, transaction, max_retries=_RETRIES))
    except LANCE_RAISES as error:
        tables.forget(base.ref)
        raise storage_error(base.ref, "appending to", error) from error
    landed.known_properties = transaction.transaction_properties
    tables.keep(landed)
    return landed
