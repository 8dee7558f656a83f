"""Tables: what heads publish can be opened, has its rows, columns and files, and is HEAD."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core.indexes.ensure import UNINDEXED_ROWS_MAX, outstanding
from omnigraph_core.maintenance.examination import Examination, Published
from omnigraph_core.maintenance.findings import Finding, Severity, attempt, error
from omnigraph_core.maintenance.limits import FRAGMENTS_MANY, VECTOR_INDEX_ROWS_MIN
from omnigraph_core.manifest.branch import lineage_of
from omnigraph_core.schema.arrow import table_schema
from omnigraph_core.tables.columns import stored_shape
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.referenced import short_files


def check_tables(seen: Examination) -> Iterator[Finding]:
    for found in seen.published:
        yield from attempt("table-unreadable", found.where, _table, seen, found)


def _table(seen: Examination, found: Published) -> Iterator[Finding]:
    table = seen.open(found)
    yield from _rows(table, found)
    yield from _columns(table, found)
    yield from _files(seen, table)
    yield from _head(seen, table, found)
    yield from _cost(table, found)


def _rows(table: Table, found: Published) -> Iterator[Finding]:
    rows = table.count_rows()
    if rows != found.entry.row_count:
        text = f"{rows} rows, where {found.entry.row_count} were published"
        yield error("row-count", found.where, text)


def _columns(table: Table, found: Published) -> Iterator[Finding]:
    """Each column of the type, with its Arrow type. Their order is history's."""
    if found.entity is None:
        return
    there = {field.name: stored_shape(field) for field in table.schema}
    wanted = {field.name: stored_shape(field) for field in table_schema(found.entity)}
    if there != wanted:
        differ = sorted(name for name in there.keys() | wanted.keys() if there.get(name) != wanted.get(name))
        yield error("columns", found.where, f"not the columns of its type: {', '.join(differ)}")


def _files(seen: Examination, table: Table) -> Iterator[Finding]:
    """Without reading them: there, and as long as they were. Asking a store takes a request for each."""
    if seen.storage.location.is_local:
        for path in short_files(table, seen.storage):
            yield error(
                "file-short", path, "missing, empty, or not as long as it was", "restore it from a backup"
            )


def _head(seen: Examination, table: Table, found: Published) -> Iterator[Finding]:
    """HEAD moves only under a sidecar, which stays until the publish. So if HEAD was read first, then
    the sidecars, then the manifest, and no sidecar is there, the manifest has all that HEAD has."""
    entry = found.entry
    owner = next((name for name in found.branches if lineage_of(name) == entry.table_branch), None)
    if owner is None or owner not in seen.heads:
        return
    head = table.latest_version()
    if head == entry.table_version or seen.pending():
        return
    now = seen.manifest.snapshot(owner).tables.get(entry.table_key)
    if now is None or now.table_path != entry.table_path or now.table_version == head:
        return
    if now.table_version > head:
        if seen.tables.open(entry.ref).latest_version() < now.table_version:
            text = f"version {now.table_version} is published, and HEAD is {head}"
            yield error("head-behind", found.where, text, "restore the table's _versions from a backup")
        return
    text = f"version {now.table_version} is published, and {head} is there"
    yield Finding("drift", Severity.ERROR, found.where, text, "omnigraph repair", lineage_of(owner))


def _cost(table: Table, found: Published) -> Iterator[Finding]:
    fix, branch = "omnigraph optimize", lineage_of(found.branches[0])
    fragments = table.count_fragments()
    if fragments > FRAGMENTS_MANY:
        yield Finding("fragments", Severity.WARNING, found.where, f"{fragments} fragments", fix, branch)
    if found.entity is None or found.entry.row_count <= UNINDEXED_ROWS_MAX:
        return
    work = outstanding(
        table, found.entity, unindexed_max=UNINDEXED_ROWS_MAX, vectors_min=VECTOR_INDEX_ROWS_MIN
    )
    if work.names:
        text = f"more than {UNINDEXED_ROWS_MAX:,} rows are outside {', '.join(work.names)}"
        yield Finding("index-behind", Severity.WARNING, found.where, text, fix, branch)
