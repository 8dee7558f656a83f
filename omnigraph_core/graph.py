"""`Graph`: the public facade. Each method names the floors it uses and little else."""

from __future__ import annotations

from enum import StrEnum

from omnigraph_core import faults, layout
from omnigraph_core.catalog.files import Catalog, load_catalog, restore_schema_files, schema_at
from omnigraph_core.errors import NotFoundError
from omnigraph_core.history.log import read_log
from omnigraph_core.history.refs import resolve
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.reader import Manifest, manifest_ref
from omnigraph_core.manifest.rows import GraphHead
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.manifest.stamp import INTERNAL_SCHEMA_VERSION, migrate, read_stamp
from omnigraph_core.progress import Progress, silent
from omnigraph_core.schema import compile_schema
from omnigraph_core.schema.render import render
from omnigraph_core.settings import Settings
from omnigraph_core.storage import Location, open_storage, parse_location
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.write.genesis import RootState, init_graph, inspect_root, manifest_is_whole


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
        faults.arm(settings.failpoints)

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
        """Open an existing graph; checks that its files describe one graph."""
        graph = cls(parse_location(place, settings.working_directory), settings)
        unfinished = inspect_root(graph._storage.control) is RootState.UNFINISHED
        if unfinished and not manifest_is_whole(graph._tables):
            raise GraphNotFound(
                f"{graph.location.uri}: an init started here and did not finish",
                hint="run `omnigraph init` again; it clears what is left",
            )
        if not graph._tables.exists(manifest_ref(layout.MAIN_BRANCH)):
            raise GraphNotFound(
                f"there is no graph at {graph.location.uri}", hint="create one with `omnigraph init`"
            )
        if mode is OpenMode.READ_WRITE:
            graph._prepare_for_writing()
        return graph

    def snapshot(self, branch: str = layout.MAIN_BRANCH) -> Snapshot:
        """The branch as it is now."""
        return self._manifest.snapshot(branch)

    def snapshot_of(self, ref: str) -> Snapshot:
        """The graph as it was at a ref: branch, commit id, `REF~N` or `REF@{TIME}`."""
        commit = resolve(read_log(self._tables, self._manifest), ref)
        return self._manifest.snapshot_at_version(commit.manifest_version, commit.branch)

    def head(self, branch: str = layout.MAIN_BRANCH) -> GraphHead | None:
        return self.snapshot(branch).head

    def catalog(self) -> Catalog:
        """The accepted schema, after checking that the schema files agree."""
        return load_catalog(self._storage.control, has_other_branches=bool(self._manifest.branches()))

    def catalog_of(self, ref: str) -> Catalog:
        """The schema as it was at a ref."""
        commit = resolve(read_log(self._tables, self._manifest), ref)
        current = self.catalog()
        if commit.schema_hash in (None, current.schema_hash):
            return current
        schema = schema_at(self._storage.control, commit.schema_hash)
        return Catalog(schema, commit.schema_hash, render(schema))

    def internal_schema_version(self) -> int:
        return read_stamp(self._manifest.open(layout.MAIN_BRANCH))

    def _prepare_for_writing(self) -> None:
        """What a read-write open repairs before anybody may use the graph."""
        if self.internal_schema_version() < INTERNAL_SCHEMA_VERSION:
            names = [layout.REFS_LOCK, layout.branch_lock(layout.MAIN_BRANCH)]
            with self._storage.locks.lock_all(names, doing="migrate") as held:
                migrate(self._tables, self._manifest.open(layout.MAIN_BRANCH), new_ulid(), held.check)
        restore_schema_files(self._storage.control, self.catalog())
