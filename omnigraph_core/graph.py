"""`Graph`: the public facade. Each method names the floors it uses and little else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from enum import StrEnum
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph_core import faults, layout
from omnigraph_core.catalog.files import (
    Catalog,
    has_schema_files,
    load_catalog,
    restore_schema_files,
    schema_at,
)
from omnigraph_core.errors import NotFoundError
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.reader import Manifest, check_branch, manifest_ref
from omnigraph_core.manifest.rows import GraphHead
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.manifest.stamp import INTERNAL_SCHEMA_VERSION, migrate, read_stamp
from omnigraph_core.progress import Progress, silent
from omnigraph_core.schema import Schema, compile_schema
from omnigraph_core.schema.files import Format
from omnigraph_core.settings import Settings
from omnigraph_core.storage import Location, LockHolder, open_storage, parse_location
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.write.pending import pending_operations
from omnigraph_core.write.root import RootState, inspect_root

# The other floors are imported by the methods that use them: a command needs one or two of
# them, and waits for the others in vain.
if TYPE_CHECKING:
    from omnigraph_core.change.mutate import Changed
    from omnigraph_core.export.tables import TypedTable
    from omnigraph_core.history.log import CommitLog, GraphCommit
    from omnigraph_core.history.recoveries import Recovery
    from omnigraph_core.load.assemble import LoadMode
    from omnigraph_core.load.run import Loaded
    from omnigraph_core.read.blob import Blob
    from omnigraph_core.read.cache import ReadCache
    from omnigraph_core.read.result import QueryResult
    from omnigraph_core.spark.options import SparkOptions
    from omnigraph_core.write.door import Door
    from omnigraph_core.write.sidecar import Sidecar
    from omnigraph_core.write.sweep import SweepReport


class OpenMode(StrEnum):
    """Read-only opens write nothing at all; read-write opens repair and migrate first."""

    READ_ONLY = "read-only"
    READ_WRITE = "read-write"


class GraphNotFound(NotFoundError):
    """There is no graph where one was expected."""


class Graph:
    """One graph at one place."""

    def __init__(self, location: Location, settings: Settings) -> None:
        self.location = location
        self.settings = settings
        self._storage = open_storage(location, settings)
        self._tables = Tables(self._storage)
        self._manifest = Manifest(self._tables)
        self._cache: ReadCache | None = None
        self._schemas: dict[str, Schema] = {}
        faults.arm(settings.failpoints)

    @cached_property
    def door(self) -> Door:
        """The one way this graph changes."""
        from omnigraph_core.write.door import Door

        return Door(self._manifest)

    @classmethod
    def init(
        cls,
        place: str,
        schema_source: str,
        settings: Settings,
        *,
        source_name: str = "schema.pg",
        actor: str | None = None,
        message: str | None = None,
        progress: Progress = silent,
    ) -> Graph:
        """Create a graph; nothing is left behind when it fails."""
        from omnigraph_core.write.genesis import init_graph

        schema = compile_schema(schema_source, source_name)
        graph = cls(parse_location(place, settings.working_directory), settings)
        init_graph(
            graph._storage,
            graph._tables,
            schema_source,
            schema,
            actor=actor or settings.default_actor,
            message=message,
            progress=progress,
        )
        return graph

    @classmethod
    def open(cls, place: str, settings: Settings, mode: OpenMode = OpenMode.READ_ONLY) -> Graph:
        """Open an existing graph. The schema files are checked when the schema is asked for."""
        graph = cls(parse_location(place, settings.working_directory), settings)
        if inspect_root(graph._storage.control) is RootState.UNFINISHED and not graph._is_made():
            raise GraphNotFound(
                f"{graph.location.uri}: an init started here and did not finish",
                hint="run `omnigraph init` again; it clears what is left",
            )
        if not graph._tables.exists(manifest_ref(layout.MAIN_BRANCH)):
            raise GraphNotFound(
                f"there is no graph at {graph.location.uri}", hint="create one with `omnigraph init`"
            )
        if mode is OpenMode.READ_WRITE:
            graph.prepare_for_writing()
        return graph

    def _is_made(self) -> bool:
        """Did the init that left its record get as far as making the graph?"""
        from omnigraph_core.write.genesis import manifest_is_whole

        return manifest_is_whole(self._tables)

    def snapshot(self, branch: str = layout.MAIN_BRANCH) -> Snapshot:
        """The branch as it is now."""
        return self._manifest.snapshot(branch)

    def snapshot_of(self, ref: str) -> Snapshot:
        """The graph as it was at a ref: branch, commit id, `REF~N` or `REF@{TIME}`."""
        return self._snapshot_at(self._readable_commit(ref))

    def _snapshot_at(self, commit: GraphCommit) -> Snapshot:
        return self._manifest.snapshot_at_version(commit.manifest_version, commit.branch)

    def head(self, branch: str = layout.MAIN_BRANCH) -> GraphHead | None:
        return self.snapshot(branch).head

    def log(self) -> CommitLog:
        """The commits of all branches, and the repairs of branches that are gone."""
        from omnigraph_core.history.log import read_log

        return read_log(self._tables, self._manifest)

    def commit(self, ref: str) -> GraphCommit:
        """The commit a ref names. One that starts with a branch looks at that branch alone."""
        from omnigraph_core.history.log import read_branch_log
        from omnigraph_core.history.refs import resolve

        branch = ref.split("~", 1)[0].split("@{", 1)[0]
        if branch == layout.MAIN_BRANCH or branch in self._manifest.branches():
            return resolve(read_branch_log(self._tables, self._manifest, branch), ref)
        return resolve(self.log(), ref)

    def _readable_commit(self, ref: str) -> GraphCommit:
        """The same, if its content is still there."""
        from omnigraph_core.history.log import CommitGone

        commit = self.commit(ref)
        if commit.branch_is_gone:
            raise CommitGone(commit)
        return commit

    def branches(self) -> list[str]:
        return self._manifest.branch_names()

    def create_branch(self, name: str, source: str = layout.MAIN_BRANCH) -> GraphCommit:
        """Make a branch that starts at a ref; returns the commit it starts at."""
        from omnigraph_core.write.branches import create_branch

        commit = self._readable_commit(source)
        create_branch(self.door, name, commit)
        return commit

    def delete_branch(self, name: str) -> None:
        from omnigraph_core.write.branches import delete_branch

        delete_branch(self.door, name)

    def change(
        self,
        source: str,
        *,
        name: str | None = None,
        source_name: str = "<query>",
        params: Mapping[str, Any] | None = None,
        param_texts: Sequence[str] = (),
        branch: str = layout.MAIN_BRANCH,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        dry_run: bool = False,
    ) -> Changed:
        """Run a mutation of a `.gq` source as one commit; none when it matches nothing.

        `param_texts` are `K=V`, read by the declared types, beside the values in `params`.
        """
        from omnigraph_core.change.mutate import run_mutation
        from omnigraph_core.change.plan import Intent
        from omnigraph_core.query import as_mutation
        from omnigraph_core.query.prepared import QueryRequest
        from omnigraph_core.write.plan import WriterKind

        catalog = self.catalog()
        request = QueryRequest(source, source_name, name, params, param_texts)
        checked, bound = request.prepare(catalog.schema)
        intent = Intent(
            WriterKind.MUTATION,
            actor or self.settings.default_actor,
            catalog.schema_hash,
            message=message,
            if_commit=if_commit,
        )
        mutation = as_mutation(checked)
        return run_mutation(self.door, branch, mutation, catalog.schema, bound, intent, dry_run=dry_run)

    def load(
        self,
        paths: Sequence[str],
        mode: LoadMode,
        *,
        branch: str = layout.MAIN_BRANCH,
        source: str | None = None,
        format_: Format | None = None,
        type_name: str | None = None,
        actor: str | None = None,
        message: str | None = None,
        rejects: str | None = None,
        max_rejects: int | None = None,
        dry_run: bool = False,
        spark: SparkOptions | None = None,
        progress: Progress = silent,
    ) -> Loaded:
        """Load files, or directories of them, as one commit; `-` is standard input.

        Without `format_` a file's name tells it; without `type_name` a CSV or Parquet file's
        name tells whose rows it has.

        `source` is a ref: a branch that does not exist yet starts there, and is not made
        unless the load succeeds. With `rejects`, bad records are written to that file and
        the others loaded, unless there are more than `max_rejects` of them. With `spark`, a
        Spark job reads and writes; what comes of it is the same.
        """
        from omnigraph_core.change.plan import Intent
        from omnigraph_core.load.inputs import resolve_inputs
        from omnigraph_core.load.rejects import RejectsFile
        from omnigraph_core.load.run import Load, Rejecting
        from omnigraph_core.write.plan import WriterKind

        catalog = self.catalog()
        actor = actor or self.settings.default_actor
        intent = Intent(WriterKind.LOAD, actor, catalog.schema_hash, message=message)
        limit = self.settings.memory_limit_bytes
        rejecting = None if rejects is None else Rejecting(RejectsFile(rejects), max_rejects)
        if spark is not None:
            from omnigraph_core.spark.load import SparkLoader

            loader = SparkLoader(self.door, self.settings, spark, catalog.schema, progress)
            request = (paths, format_, type_name)
            start = self._start_of(branch, source)
            return loader.load(request, mode, intent, rejecting, branch, start, dry_run=dry_run)
        at_once = self.settings.load_concurrency
        load = Load(self.door, catalog.schema, mode, intent, limit, progress, rejecting, at_once)
        with closing(load):
            start = self._start_of(branch, source)
            load.read(resolve_inputs(paths, catalog.schema, format_, type_name, self.settings.s3))
            return load.finish(branch, start, dry_run=dry_run)

    def _start_of(self, branch: str, source: str | None) -> GraphCommit | None:
        """Where a branch that is to be made starts; None for one that is there."""
        if branch == layout.MAIN_BRANCH or source is None or branch in self._manifest.branches():
            self.snapshot(branch)
            return None
        return self._readable_commit(source)

    def export(
        self,
        ref: str | None = None,
        *,
        branch: str = layout.MAIN_BRANCH,
        types: Sequence[str] = (),
        format_: Format = Format.JSONL,
    ) -> Iterator[bytes]:
        """Everything as text, in blocks of whole lines: of a branch as it is now, or at a ref.

        Ordered by table key, then by id. A ref is read with the schema it had.
        """
        from omnigraph_core.export.tables import text_blocks

        yield from text_blocks(self._typed_tables(ref, branch, types), format_)

    def export_files(
        self,
        out: Path,
        format_: Format,
        ref: str | None = None,
        *,
        branch: str = layout.MAIN_BRANCH,
        types: Sequence[str] = (),
    ) -> list[Path]:
        """The same as a file, or one file a type in a directory: all of them whole, or none."""
        from omnigraph_core.export.tables import write_files

        return write_files(out, self._typed_tables(ref, branch, types), format_)

    def _typed_tables(self, ref: str | None, branch: str, types: Sequence[str]) -> list[TypedTable]:
        from omnigraph_core.export.jsonl import chosen_types
        from omnigraph_core.export.tables import TypedTable

        snapshot = self.snapshot(branch) if ref is None else self.snapshot_of(ref)
        catalog = self.catalog() if ref is None else self.catalog_of(ref)
        chosen = chosen_types(list(catalog.schema.types()), types)
        entries = [snapshot.entry(entity.table_key) for entity in chosen]
        return [
            TypedTable(entity, self._tables.open(entry.ref, entry.table_version))
            for entity, entry in zip(chosen, entries, strict=True)
        ]

    def query(
        self,
        source: str,
        *,
        name: str | None = None,
        source_name: str = "<query>",
        params: Mapping[str, Any] | None = None,
        param_texts: Sequence[str] = (),
        branch: str = layout.MAIN_BRANCH,
        ref: str | None = None,
        timeout_s: float | None = None,
        explain_only: bool = False,
    ) -> QueryResult:
        """Run a read of a `.gq` source against one snapshot: of a branch as it is now, or at a ref.

        A ref is read with the schema it had. With `explain_only` the result has a plan and no rows.
        """
        from omnigraph_core.query import as_read
        from omnigraph_core.query.prepared import QueryRequest
        from omnigraph_core.read.cache import ReadCache
        from omnigraph_core.read.execute import Reading

        snapshot = self.snapshot(branch) if ref is None else self.snapshot_of(ref)
        schema = self._schema_of(snapshot)
        request = QueryRequest(source, source_name, name, params, param_texts)
        checked, bound = request.prepare(schema)
        read = as_read(checked)
        if self._cache is None:
            self._cache = ReadCache(self.settings.memory_limit_bytes // 4)
        reading = Reading(self._tables, snapshot, schema, self.settings, self._cache)
        try:
            return reading.run(
                read,
                bound,
                is_ref=ref is not None,
                timeout_s=timeout_s,
                explain_only=explain_only,
            )
        finally:
            # Deleting a branch takes its files along; then that is what is wrong.
            check_branch(self._manifest, snapshot)

    def blob(
        self,
        kind: str,
        type_name: str,
        entity_id: str,
        name: str,
        *,
        branch: str = layout.MAIN_BRANCH,
        ref: str | None = None,
    ) -> Blob:
        """One blob property of one entity, `kind` being `node` or `edge`; now, or at a ref."""
        from omnigraph_core.read.blob import find_blob

        snapshot = self.snapshot(branch) if ref is None else self.snapshot_of(ref)
        schema = self._schema_of(snapshot)
        return find_blob(self._tables, snapshot, schema, kind, type_name, entity_id, name)

    def _schema_of(self, snapshot: Snapshot) -> Schema:
        """The schema a snapshot was published with; looked up once, as a hash has one schema."""
        published = snapshot.head.schema_hash if snapshot.head else None
        known = None if published is None else self._schemas.get(published)
        if known is not None:
            return known
        current = self.catalog()
        if published is None:
            return current.schema
        is_current = published == current.schema_hash
        found = current.schema if is_current else schema_at(self._storage.control, published)
        self._schemas[published] = found
        return found

    def relocate(self) -> int:
        """Make the branches of a moved or copied graph refer to this place; returns files changed.

        Nobody may be writing: the locks of all branches are held for as long as it takes.
        """
        from omnigraph_core.tables.relocation import relocate_forks

        branches = [layout.MAIN_BRANCH, *self._manifest.branches()]
        locks = [layout.REFS_LOCK, *map(layout.branch_lock, branches)]
        with self._storage.locks.lock_all(locks, doing="relocate") as held:
            changed = 0
            for ref in self._datasets():
                held.check()
                changed += relocate_forks(self._tables, ref)
        return changed

    def _datasets(self) -> Iterator[TableRef]:
        """Every dataset that may have forks; the manifest first, so that it can be read for the rest."""
        from omnigraph_core.history.commits import commits_ref

        yield manifest_ref(layout.MAIN_BRANCH)
        yield commits_ref(layout.MAIN_BRANCH)
        paths = {
            entry.table_key: entry.table_path
            for branch in (layout.MAIN_BRANCH, *self._manifest.branches())
            for entry in self.snapshot(branch).tables.values()
        }
        for key, path in sorted(paths.items()):
            yield TableRef(key, path)

    def has_pending(self) -> bool:
        """Has any write begun and not ended? One listing."""
        return bool(pending_operations(self._storage.control))

    def pending(self) -> list[Sidecar]:
        """Writes that have begun and not ended, of live writers and of dead ones."""
        from omnigraph_core.write.sidecar import read_sidecar

        found = (
            read_sidecar(self._storage.control, each) for each in pending_operations(self._storage.control)
        )
        return [sidecar for sidecar in found if sidecar is not None]

    def recoveries(self) -> list[Recovery]:
        """Every repair there ever was, oldest first."""
        from omnigraph_core.history.recoveries import read_recoveries

        return read_recoveries(self._tables)

    def lock_holder(self, branch: str) -> LockHolder | None:
        """Who is writing to a branch right now."""
        return self._storage.locks.read_holder(layout.branch_lock(branch))

    def catalog(self) -> Catalog:
        """The accepted schema, after checking that the schema files agree with the published hash."""
        head = self.head()
        return load_catalog(
            self._storage.control,
            has_other_branches=bool(self._manifest.branches()),
            published_hash=head.schema_hash if head else None,
        )

    def catalog_of(self, ref: str) -> Catalog:
        """The schema as it was at a ref."""
        from omnigraph_core.schema.render import render

        commit = self.commit(ref)
        current = self.catalog()
        if commit.schema_hash in (None, current.schema_hash):
            return current
        schema = schema_at(self._storage.control, commit.schema_hash)
        return Catalog(schema, commit.schema_hash, render(schema))

    def internal_schema_version(self) -> int:
        return read_stamp(self._manifest.open_for_read(layout.MAIN_BRANCH))

    def prepare_for_writing(self, *, patient: bool = False) -> SweepReport:
        """What a read-write open does first: migrate, finish or undo what dead writers left."""
        from omnigraph_core.write.branches import forget_unwritten
        from omnigraph_core.write.genesis import forget_init
        from omnigraph_core.write.staging import sweep_staging

        if self.internal_schema_version() < INTERNAL_SCHEMA_VERSION:
            names = [layout.REFS_LOCK, layout.branch_lock(layout.MAIN_BRANCH)]
            with self._storage.locks.lock_all(names, doing="migrate") as held:
                migrate(self._tables, self._manifest.open(layout.MAIN_BRANCH), new_ulid(), held.check)
        report = self.door.sweeper.sweep(patient=patient)
        sweep_staging(self._storage, partial(forget_unwritten, self.door))
        if inspect_root(self._storage.control) is RootState.UNFINISHED:
            self._with_refs_lock(lambda: forget_init(self._storage))
        catalog = self.catalog()
        if not has_schema_files(self._storage.control):
            self._with_refs_lock(lambda: restore_schema_files(self._storage.control, catalog))
        return report

    def _with_refs_lock(self, repair: Callable[[], None]) -> None:
        """Do a repair that nobody else may be doing at the same time."""
        with self._storage.locks.lock(layout.REFS_LOCK, doing="repair").acquire():
            repair()
