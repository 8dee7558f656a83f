"""Small tables and graphs for the contract tests, built through the floors under test.

Everything starts from a `Storage`, so that the same tests can run wherever a graph can live.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count

import obstore
import pyarrow as pa
import pytest

from omnigraph_core import layout
from omnigraph_core.manifest.commit import Commit
from omnigraph_core.manifest.create import create_manifest
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.manifest.request import Publish, Registration, Update
from omnigraph_core.manifest.rows import GraphHead, Outcome, VersionMetadata
from omnigraph_core.storage import Storage
from omnigraph_core.storage.s3 import S3ControlStore
from omnigraph_core.tables.branches import create_fork
from omnigraph_core.tables.commit import commit_exact, unguarded
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.stage import stage_append, stage_delete, stage_upsert
from omnigraph_core.tables.staged import StagedWrite

PERSON = TableRef("node:Person", layout.table_path("node", "Person"))
PEOPLE_SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("age", pa.int64())])

MAIN, BRANCH, BRANCH_OF_BRANCH = "main", "branch", "branch-of-branch"
LINEAGES = (MAIN, BRANCH, BRANCH_OF_BRANCH)
"""Of a table; each is made from the one before it."""
BRANCHES = (MAIN, "dev", "dev-two")
"""Of a graph; likewise."""

People = dict[str, int | None]

only_local = pytest.mark.parametrize("place", ["local"], indirect=True)
"""For a test that is about a disk of our own; its docstring says why."""

_numbers = count(1)


def operation(name: str = "op") -> str:
    """An operation id nobody else has."""
    return f"{name}-{next(_numbers)}"


def people(ages: Mapping[str, int | None]) -> pa.Table:
    return pa.table([list(ages), list(ages.values())], schema=PEOPLE_SCHEMA)


def ids(*names: str) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(names, pa.string())])


def ages(table: Table) -> People:
    """The content of a table of people; asserts that no id occurs twice."""
    rows = table.read(["id", "age"]).to_pylist()
    content = {row["id"]: row["age"] for row in rows}
    assert len(content) == len(rows)
    return content


def row_ids(table: Table) -> dict[str, int]:
    rows = table.read(["id"], with_row_id=True).to_pylist()
    return {row["id"]: row["_rowid"] for row in rows}


def commit(tables: Tables, staged: StagedWrite) -> Table:
    return commit_exact(tables, staged, unguarded)


def people_table(tables: Tables, lineage: str = MAIN) -> Table:
    """Two fragments on main, then (on the lineage asked for) an update and a delete.

    So fragments of every table have deletion files, and those of a branch lie partly
    with its parents. The version before HEAD belongs to the lineage too.
    """
    storage = tables.storage
    table = create_table(tables, PERSON, PEOPLE_SCHEMA, operation(), people({"ann": 1, "bob": 2, "cid": 3}))
    table = commit(tables, stage_append(storage, table, people({"dan": 4, "eva": 5, "fay": 6}), operation()))
    if lineage != MAIN:
        table = create_fork(tables, PERSON, "dev", table.version, unguarded)
    if lineage == BRANCH_OF_BRANCH:
        table = commit(tables, stage_upsert(storage, table, people({"eva": 50, "gus": 7}), operation()))
        table = create_fork(tables, PERSON.on("dev"), "dev-two", table.version, unguarded)
    table = commit(tables, stage_upsert(storage, table, people({"bob": 20, "hal": 8}), operation()))
    return commit(tables, stage_delete(storage, table, operation(), ids=ids("dan")))


def file_tree(storage: Storage) -> dict[str, str]:
    """Every file or object below the root, by relative path, with a digest of its bytes."""
    if isinstance(storage.control, S3ControlStore):
        pages = obstore.list(storage.control._store)
        return {entry["path"]: f"{entry['e_tag']}" for page in pages for entry in page}
    root = storage.location.path
    return {
        path.relative_to(root).as_posix(): hashlib.blake2b(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file()
    }


def write_raw(storage: Storage, path: str, data: bytes) -> None:
    """Put bytes where Lance keeps its files, as a crash or a broken disk would."""
    if not storage.location.is_local:
        storage.control.put(path, data)
        return
    target = storage.location.path / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


# ---- manifests ----


def head(number: int | str, parent: str | None = None) -> GraphHead:
    commit = Commit(
        commit_id=f"commit-{number}",
        parent_commit_id=parent,
        merged_parent_commit_id=None,
        actor_id="ann",
        created_at=1_000_000,
        operation="load",
        schema_hash="sha256:0",
    )
    return GraphHead(commit, f"operation-{number}", Outcome.APPLIED, lock_token=1)


def update(
    table_key: str,
    version: int,
    row_count: int = 0,
    *,
    branch: str | None = None,
    commit_id: str | None = None,
) -> Update:
    ref = TableRef(table_key, layout.table_path(*layout.split_table_key(table_key)), branch)
    return Update(
        table_key,
        version,
        branch,
        row_count,
        VersionMetadata(manifest_path(ref, version), commit_id=commit_id),
    )


def registration(table_key: str) -> Registration:
    return Registration(table_key, layout.table_path(*layout.split_table_key(table_key)))


def new_manifest(tables: Tables, *table_keys: str) -> Manifest:
    """A manifest with these tables at version 1; no datasets behind them."""
    genesis = head("genesis")
    create_manifest(
        tables,
        [registration(key) for key in table_keys],
        [update(key, 1, commit_id=genesis.commit_id) for key in table_keys],
        genesis,
        unguarded,
    )
    return Manifest(tables)


def on_branch(manifest: Manifest, branch: str, request: Publish) -> Publish:
    return replace(request, on=manifest.branch(branch))


class Lying:
    """Stands in for a function: calls `before`, then the real one as often as `lands`, then raises."""

    def __init__(
        self,
        real: Callable[..., object],
        *,
        error: Exception | None = None,
        lands: bool = True,
        before: Callable[[], object] | None = None,
        times: int | None = None,
    ) -> None:
        self.calls = 0
        self._real, self._error, self._lands = real, error, lands
        self._before, self._times = before, times

    def __call__(self, *arguments: object, **options: object) -> object:
        self.calls += 1
        if self._times is not None and self.calls > self._times:
            return self._real(*arguments, **options)
        if self._before is not None:
            before, self._before = self._before, None
            before()
        result = self._real(*arguments, **options) if self._lands else None
        if self._error is not None:
            raise self._error
        return result
