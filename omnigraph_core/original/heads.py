"""The head of a state that has no head row, as a head row of ours would say it.

The original finds the head of a branch in its commit table: the commit of the highest manifest version,
then the latest, then the highest id. So do we, for the newest state and for every older one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from omnigraph_core import layout
from omnigraph_core.catalog.files import Catalog
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.history.log import actor_of, read_commit_rows
from omnigraph_core.manifest.branch import MAIN, Branch, lineage_of, name_of
from omnigraph_core.manifest.commit import Commit
from omnigraph_core.manifest.reader import Manifest, manifest_ref
from omnigraph_core.manifest.rows import ORIGINAL_OPERATION, GraphHead, Outcome
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.original.catalog import load_original_catalog
from omnigraph_core.original.reconstruct import SchemaNotKnown, schema_then
from omnigraph_core.original.record import read_record
from omnigraph_core.schema import schema_hash
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.fork_refs import read_fork


class OriginalHeads:
    """What a graph's commit tables and tables say of states without a head row."""

    def __init__(self, tables: Tables, keep: Callable[[Catalog], None]) -> None:
        self._tables = tables
        self._keep = keep
        self._plain = Manifest(tables)
        self._hashes: dict[tuple[Branch, int], str] = {}

    def head_of(self, snapshot: Snapshot) -> GraphHead | None:
        row = self._newest(snapshot)
        if row is None:
            return None
        commit = Commit(
            commit_id=row["graph_commit_id"],
            parent_commit_id=row["parent_commit_id"],
            merged_parent_commit_id=row["merged_parent_commit_id"],
            actor_id=actor_of(self._tables, row["graph_commit_id"]),
            created_at=row["created_at"],
            operation=None,
            schema_hash=self.hash_of(snapshot),
        )
        return GraphHead(commit, ORIGINAL_OPERATION, Outcome.APPLIED, 0)

    def plain_snapshot(self, branch: Branch, manifest_version: int) -> Snapshot:
        """A state as its manifest has it, without a head."""
        return self._plain.snapshot_of(branch, manifest_version)

    def hash_of(self, snapshot: Snapshot) -> str:
        """The schema of the state, by our hash; its tables are looked at once a process."""
        recorded = read_record(self._tables.storage.control)
        for name in () if recorded is None else self._ancestry(snapshot.branch):
            if recorded is not None and recorded.knows(name, snapshot.manifest_version):
                known = recorded.schema_at(name, snapshot.manifest_version)
                if known is None:
                    raise SchemaNotKnown(snapshot, "a type that is gone", "the columns or ends")
                return known
        place = (snapshot.on, snapshot.manifest_version)
        if place not in self._hashes:
            self._hashes[place] = self._found_out(snapshot)
        return self._hashes[place]

    def _found_out(self, snapshot: Snapshot) -> str:
        catalog = load_original_catalog(self._tables.storage.control)
        schema = catalog.schema
        if not self._is_newest_of_main(snapshot):
            schema = schema_then(self._tables, schema, snapshot, partial(self._others, snapshot))
        if schema is not catalog.schema:
            catalog = Catalog(schema, schema_hash(schema), "")
        self._keep(catalog)
        return catalog.schema_hash

    def _is_newest_of_main(self, snapshot: Snapshot) -> bool:
        return snapshot.on == MAIN and self._plain.newest(MAIN).version == snapshot.manifest_version

    def _others(self, snapshot: Snapshot) -> Iterator[Snapshot]:
        """The other states of the branch that have a commit and can be read, newest first."""
        rows = read_commit_rows(self._tables, commits_ref(snapshot.branch))
        lineage = lineage_of(snapshot.branch)
        for row in sorted(rows, key=_order, reverse=True):
            if row["manifest_branch"] == lineage:
                with suppress(OmnigraphError):
                    yield self._plain.snapshot_of(snapshot.on, row["manifest_version"])

    def _newest(self, snapshot: Snapshot) -> dict[str, Any] | None:
        lineages = self._lineages(snapshot.branch)
        rows = [
            row
            for row in read_commit_rows(self._tables, commits_ref(snapshot.branch))
            if row.get("operation") is None
            and row["manifest_branch"] in lineages
            and row["manifest_version"] <= snapshot.manifest_version
        ]
        return max(rows, key=_order, default=None)

    def _lineages(self, branch: str) -> set[str | None]:
        """The lineages a branch descends from. A merge brings rows of others into its table, whose
        numbers mean something else."""
        return {lineage_of(name) for name in self._ancestry(branch)}

    def _ancestry(self, branch: str) -> list[str]:
        """The branch, those it was made from as far as they are still there, and main."""
        found = [branch]
        while (current := found[-1]) != layout.MAIN_BRANCH:
            fork = read_fork(self._tables, manifest_ref(layout.MAIN_BRANCH), current)
            parent = name_of(None if fork is None else fork.parent)
            found.append(layout.MAIN_BRANCH if parent in found else parent)
        return found


def _order(row: dict[str, Any]) -> tuple[int, int, str]:
    """The original's rule."""
    return row["manifest_version"], row["created_at"], row["graph_commit_id"]
