"""Writing to a graph of the Rust original as the original would, to get more kinds of graphs than it left us.

Table commits land one by one and are published as rows of `__manifest`, then the commit and its actor are
appended. Branches are Lance branches of the manifest and of the commits; a table is forked by its first
write on a branch. Nothing is locked, and Lance's own cleanup stays configured. The hand keeps a model of
what each commit holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from omnigraph_core import layout
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.rows import version_object_id

Row = dict[str, Any]
Rows = dict[tuple[str, str], Row]
"""By table key and id, without nulls."""

BORN = datetime(2026, 11, 18)


@dataclass
class Hand:
    """One graph; `rows` is what each branch holds, `commits` what each commit did."""

    root: Path
    rows: dict[str, Rows] = field(default_factory=dict)
    commits: dict[str, Rows] = field(default_factory=dict)
    actors: dict[str, str | None] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    """Commits and branches that its own cleanup has made unreadable."""
    gone: set[str] = field(default_factory=set)
    """Commits that went with their branch."""
    _branches: dict[str, str] = field(default_factory=dict)
    _made: int = 0

    def __post_init__(self) -> None:
        for branch in [layout.MAIN_BRANCH, *self.manifest().branches.list()]:
            self.rows[branch] = {
                (key, row["id"]): without_nulls(row)
                for key in self._pins(branch)
                for row in self.table(key, branch).to_table().to_pylist()
            }

    # ---- datasets ----

    def manifest(self, branch: str = layout.MAIN_BRANCH) -> lance.LanceDataset:
        return on_branch(lance.dataset(str(self.root / layout.MANIFEST)), branch)

    def _commits(self, branch: str) -> lance.LanceDataset:
        return on_branch(lance.dataset(str(self.root / layout.COMMITS)), branch)

    def table(self, key: str, branch: str = layout.MAIN_BRANCH) -> lance.LanceDataset:
        """At the version that is published on the branch."""
        version, on = self._pins(branch)[key]
        dataset = lance.dataset(self._path(key))
        return dataset.checkout_version((on, version) if on else version)

    def _path(self, key: str) -> str:
        located = self.manifest().to_table(filter=f"object_type = 'table' AND table_key = '{key}'")
        return str(self.root / located.column("location")[0].as_py())

    def _pins(self, branch: str) -> dict[str, tuple[int, str | None]]:
        rows = self.manifest(branch).to_table(filter="object_type <> 'table'").to_pylist()
        rows.sort(key=lambda row: row["table_version"])
        gone = {
            row["table_key"]: row["table_version"] for row in rows if row["object_type"] != "table_version"
        }
        return {
            row["table_key"]: (row["table_version"], row["table_branch"])
            for row in rows
            if row["object_type"] == "table_version" and row["table_version"] > gone.get(row["table_key"], 0)
        }

    def writable(self, key: str, branch: str = layout.MAIN_BRANCH) -> lance.LanceDataset:
        """HEAD of the table on the branch; forked if the branch has none of its own."""
        published = self.table(key, branch)
        if branch != layout.MAIN_BRANCH and self._pins(branch)[key][1] != branch:
            version, on = self._pins(branch)[key]
            published.create_branch(branch, (on, version) if on else version)
        return on_branch(lance.dataset(self._path(key)), branch)

    # ---- writes ----

    def put(
        self, key: str, rows: list[Row], branch: str = layout.MAIN_BRANCH, *, actor: str | None = "twin"
    ) -> str:
        """A load in mode merge of one type."""
        dataset = self.writable(key, branch)
        data = pa.Table.from_pylist(rows, schema=dataset.schema)
        dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data)
        self.rows[branch] = {**self.rows[branch], **{(key, row["id"]): without_nulls(row) for row in rows}}
        return self.publish([key], branch, actor)

    def delete(
        self, key: str, ids: Iterable[str], branch: str = layout.MAIN_BRANCH, *, drifts: Iterable[str] = ()
    ) -> str:
        """A delete, committed inline; tables in `drifts` move too, and that is not published."""
        gone = {(key, each) for each in ids}
        dataset = self.writable(key, branch)
        dataset.delete("id IN (" + ", ".join(f"'{each}'" for _, each in gone) + ")")
        for other in drifts:
            self.writable(other, branch).delete("src = 'nobody'")
        self.rows[branch] = {each: row for each, row in self.rows[branch].items() if each not in gone}
        return self.publish([key], branch)

    def maintain(
        self, key: str, work: Callable[[lance.LanceDataset], object], branch: str = layout.MAIN_BRANCH
    ) -> str:
        """What changes no row, like compaction: a commit of one table, without an actor."""
        dataset = self.writable(key, branch)
        work(dataset)
        return self.publish([key], branch, None)

    def publish(
        self,
        tables: Iterable[str],
        branch: str = layout.MAIN_BRANCH,
        actor: str | None = "twin",
        merged: str | None = None,
    ) -> str:
        newest = {key: on_branch(lance.dataset(self._path(key)), branch) for key in tables}
        self.merge_rows([version_row(key, dataset, branch) for key, dataset in newest.items()], branch)
        return self._commit(branch, actor, merged)

    def merge_rows(self, rows: list[Row], branch: str) -> None:
        manifest = self.manifest(branch)
        data = pa.Table.from_pylist(rows, schema=manifest.schema)
        manifest.merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all().execute(
            data
        )

    def _commit(self, branch: str, actor: str | None, merged: str | None = None) -> str:
        self._made += 1
        commit_id, now = new_ulid(), BORN + timedelta(seconds=self._made)
        log = self._commits(branch)
        row = {
            "graph_commit_id": commit_id,
            "manifest_branch": _lineage(branch),
            "manifest_version": self.manifest(branch).version,
            "parent_commit_id": self.head(branch),
            "merged_parent_commit_id": merged,
            "created_at": now,
        }
        _append(log, row)
        if actor is not None:
            actors = lance.dataset(str(self.root / layout.COMMIT_ACTORS))
            _append(actors, {"graph_commit_id": commit_id, "actor_id": actor, "created_at": now})
        self.commits[commit_id] = dict(self.rows[branch])
        self.actors[commit_id] = actor
        self._branches[commit_id] = branch
        return commit_id

    def head(self, branch: str) -> str:
        """By the original's rule."""
        rows = self._commits(branch).to_table().to_pylist()
        mine = [row for row in rows if row["manifest_version"] <= self.manifest(branch).version]
        newest = max(
            mine, key=lambda row: (row["manifest_version"], row["created_at"], row["graph_commit_id"])
        )
        return str(newest["graph_commit_id"])

    # ---- branches ----

    def branch(self, name: str, source: str = layout.MAIN_BRANCH) -> None:
        for dataset in (self.manifest(source), self._commits(source)):
            dataset.create_branch(
                name, (_lineage(source), dataset.version) if _lineage(source) else dataset.version
            )
        self.rows[name] = dict(self.rows[source])

    def delete_branch(self, name: str) -> None:
        """The manifest's first, then the commits', then the forks of tables."""
        for path in (layout.MANIFEST, layout.COMMITS):
            lance.dataset(str(self.root / path)).branches.delete(name)
        for folder in (*self.root.glob("nodes/*"), *self.root.glob("edges/*")):
            dataset = lance.dataset(str(folder))
            if name in dataset.branches.list():
                dataset.branches.delete(name)
        self.forget(name)

    def forget(self, name: str) -> None:
        """What is known of a deleted branch: nothing."""
        del self.rows[name]
        self.gone |= {commit for commit, branch in self._branches.items() if branch == name}


def version_row(key: str, table: lance.LanceDataset, branch: str) -> Row:
    """What a publish says of a table."""
    return {
        "object_id": version_object_id(key, table.version),
        "object_type": "table_version",
        "metadata": '{"manifest_path":"elsewhere","manifest_size":null,"e_tag":null,"naming_scheme":"V2"}',
        "table_key": key,
        "table_version": table.version,
        "table_branch": _lineage(branch),
        "row_count": table.count_rows(),
    }


def on_branch(dataset: lance.LanceDataset, branch: str) -> lance.LanceDataset:
    return dataset if branch == layout.MAIN_BRANCH else dataset.checkout_version((branch, None))


def _lineage(branch: str) -> str | None:
    return None if branch == layout.MAIN_BRANCH else branch


def _append(dataset: lance.LanceDataset, row: Row) -> None:
    dataset.insert(pa.Table.from_pylist([row], schema=dataset.schema), mode="append")


def without_nulls(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}
