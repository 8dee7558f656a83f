"""What the commit table of a branch says was published: the other witness beside `__manifest`.

The transaction that appends a commit row names the commit and its manifest version, so
that the newest one is known without reading a row. Rewrites of the table pass it on. A
table that does not have it (a new branch's, one of an older OmniGraph) is read.
"""

from __future__ import annotations

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.history.commits import commits_ref, commits_schema
from omnigraph_core.manifest.branch import Branch, name_of
from omnigraph_core.manifest.reader import Manifest, RecordedCommit
from omnigraph_core.tables.commit import transaction_properties
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.held_tables import HeldTables
from omnigraph_core.tables.log_read import read_log_rows
from omnigraph_core.tables.staged import PUBLISHED_PROPERTY
from omnigraph_core.tables.torn import is_torn, versions_on_disk

_PLACE = ("graph_commit_id", "manifest_branch", "manifest_version", "branch_identity")


def newest_recorded(tables: Tables, branch: str) -> RecordedCommit | None:
    """The newest commit on record, if the newest version of the commit table names it."""
    try:
        table = tables.open(commits_ref(branch))
        text = transaction_properties(table, table.version).get(PUBLISHED_PROPERTY, "")
    except OmnigraphError:
        return None
    version, _, commit_id = text.partition(" ")
    return RecordedCommit(commit_id, int(version)) if commit_id and version.isdecimal() else None


def recorded_above(tables: Tables, branch: str, version: int) -> list[RecordedCommit]:
    """The commits of a branch above a manifest version, as far as its table can be read."""
    tables = HeldTables(tables)
    newest = newest_recorded(tables, branch)
    if newest is not None and newest.manifest_version <= version:
        return []
    try:
        rows = read_log_rows(tables, commits_ref(branch), commits_schema())
    except OmnigraphError:
        return [] if newest is None else [newest]
    names = [name for name in _PLACE if name in rows.column_names]
    mine = _named(tables, branch)
    found = {
        row["graph_commit_id"]: RecordedCommit(row["graph_commit_id"], row["manifest_version"])
        for row in rows.select(names).to_pylist()
        if row["manifest_version"] > version
        and Branch(name_of(row["manifest_branch"]), row.get("branch_identity")).may_be(mine)
    }
    if newest is not None:
        found[newest.commit_id] = newest
    return sorted(found.values(), key=lambda each: each.manifest_version)


def _named(tables: Tables, branch: str) -> Branch:
    """The branch of this name, as far as its ref can be read."""
    try:
        return Manifest(tables).branch(branch)
    except OmnigraphError:
        return Branch(branch)


def commit_table_is_torn(tables: Tables, branch: str) -> bool:
    """Is its newest version torn, so that the table does not say all it should?"""
    ref = commits_ref(branch)
    newest = next(iter(versions_on_disk(tables, ref)), None)
    return newest is None or is_torn(tables, ref, newest)
