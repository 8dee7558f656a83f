"""`Graph`: the public facade. Each method names the floors it uses and little else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Unpack

from omnigraph_core import arguments, layout
from omnigraph_core.catalog.files import Catalog, source_at
from omnigraph_core.errors import UsageError
from omnigraph_core.lifecycle import OpenMode as OpenMode
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.manifest.stamp import read_stamp, refuse_future_stamp_on_disk
from omnigraph_core.progress import Progress, silent
from omnigraph_core.schema import Schema, compile_schema
from omnigraph_core.schema.files import Format
from omnigraph_core.settings import Settings
from omnigraph_core.storage import LockHolder, parse_location
from omnigraph_core.undoing import GraphOperations
from omnigraph_core.view import QueryOptions, View
from omnigraph_core.write.pending import pending_operations
from omnigraph_core.write.root import GraphNotFound as GraphNotFound
from omnigraph_core.write.root import require_graph

# The other floors are imported by the methods that use them: a command needs one or two of
# them, and waits for the others in vain.
if TYPE_CHECKING:
    from omnigraph_core.diff.entity import Blame
    from omnigraph_core.diff.graph import GraphDiff
    from omnigraph_core.diff.touches import Touches
    from omnigraph_core.history.log import CommitLog
    from omnigraph_core.history.recoveries import Recovery
    from omnigraph_core.query.prepared import PreparedQuery
    from omnigraph_core.read.answer.result import QueryResult
    from omnigraph_core.schema.evolve import MigrationPlan
    from omnigraph_core.write.sidecar_record import Sidecar, SidecarUnreadable


class Graph(GraphOperations):
    """One graph at one place."""

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
        takes_over: bool = False,
        progress: Progress = silent,
    ) -> Graph:
        """Create a graph; nothing is left behind when it fails.

        `takes_over` replaces schema files that another program's init left, if nothing else is there.
        """
        arguments.texts(place=place, schema_source=schema_source, source_name=source_name)
        arguments.optional_texts(actor=actor, message=message)
        arguments.flags(takes_over=takes_over)
        arguments.instance("settings", settings, Settings, "settings")
        arguments.called("progress", progress)
        from omnigraph_core.schema.arrow import require_patterns
        from omnigraph_core.write.creation import init_graph

        schema = compile_schema(schema_source, source_name)
        require_patterns(schema)
        graph = cls(parse_location(place, settings.working_directory), settings)
        init_graph(
            graph._storage,
            graph._tables,
            schema_source,
            schema,
            actor=graph._signed(actor),
            message=message,
            takes_over=takes_over,
            progress=progress,
        )
        return graph

    @classmethod
    def open(cls, place: str, settings: Settings, mode: OpenMode = OpenMode.AS_IS) -> Graph:
        """Open an existing graph. The schema files are checked when the schema is asked for."""
        arguments.texts(place=place)
        arguments.instance("settings", settings, Settings, "settings")
        mode = arguments.choice("mode", mode, OpenMode)
        graph = cls(parse_location(place, settings.working_directory), settings, mode)
        require_graph(graph._storage, graph._tables)
        refuse_future_stamp_on_disk(graph._tables)
        if mode is OpenMode.READ_WRITE:
            graph.prepare_for_writing()
        return graph

    def at(self, ref: str | None = None, *, branch: str = layout.MAIN_BRANCH) -> View:
        """The graph as it was at a ref, or a branch as it is now; with the schema it had."""
        arguments.texts(branch=branch)
        arguments.optional_texts(ref=ref)
        snapshot = self.snapshot(branch) if ref is None else self.snapshot_of(ref)
        return View(self._reads, snapshot, self._schema_of(snapshot), is_ref=ref is not None)

    def prepare(self, source: str, *, name: str | None = None, source_name: str = "<query>") -> PreparedQuery:
        """A query to be run many times, by `query`, with other parameters and on any state of the graph."""
        arguments.texts(source=source, source_name=source_name)
        arguments.optional_texts(name=name)
        from omnigraph_core.query.prepared import PreparedQuery

        prepared = PreparedQuery(source, name=name, source_name=source_name)
        prepared.checked(self.at().schema)
        return prepared

    def query(
        self,
        source: str | PreparedQuery,
        *,
        branch: str = layout.MAIN_BRANCH,
        ref: str | None = None,
        **options: Unpack[QueryOptions],
    ) -> QueryResult:
        """`View.query` of a branch as it is now, or at a ref."""
        return self.at(ref, branch=branch).query(source, **options)

    def export(
        self,
        ref: str | None = None,
        *,
        branch: str = layout.MAIN_BRANCH,
        types: Sequence[str] = (),
        format: Format | str = Format.JSONL,
    ) -> Iterator[bytes]:
        """`View.export` of a branch as it is now, or at a ref."""
        return self.at(ref, branch=branch).export(types=types, format=format)

    def diff(
        self,
        a: str,
        b: str | None = None,
        *,
        types: Sequence[str] = (),
        ids: Sequence[str] | None = None,
    ) -> GraphDiff:
        """`View.diff` from one ref to another; or of a commit, from its first parent to itself."""
        arguments.texts(a=a)
        arguments.optional_texts(b=b)
        logs: dict[str, CommitLog] = {}
        if b is not None:
            return self._view_of(a, logs).diff(self._view_of(b, logs), types=types, ids=ids)
        commit = self._commit(a, logs)
        after = self._view_of(commit.commit_id, logs)
        if commit.parent_commit_id is not None:
            before = self._view_of(commit.parent_commit_id, logs)
        else:
            before = View(self._reads, Snapshot(after.snapshot.on, 0, {}, None), Schema(), is_ref=True)
        return before.diff(after, types=types, ids=ids)

    def blame(
        self,
        type_name: str,
        entity_id: str,
        *,
        branch: str = layout.MAIN_BRANCH,
        ref: str | None = None,
    ) -> Blame:
        """`View.blame` of a branch as it is now, or at a ref."""
        found = self.at(ref, branch=branch).blame(type_name, entity_id)
        names = self._names()
        return found.named(names.of) if names.entries else found

    def commits(
        self, branch: str | None = None, *, type_name: str | None = None, entity_id: str | None = None
    ) -> Touches:
        """Commits of all branches, or what one descends from, newest first; all of them, or those that
        changed a type, or one entity of it."""
        arguments.optional_texts(branch=branch, type_name=type_name, entity_id=entity_id)
        from omnigraph_core.diff.touches import Touches, touching_entity, touching_type
        from omnigraph_core.history.log import newest_first, read_branch_log

        if branch is None:
            log = self.log()
            listed = newest_first(log.commits.values())
        else:
            log = self._named(read_branch_log(self._tables, self._manifest, self._line(branch)))
            listed = log.history(branch)
        if type_name is None:
            if entity_id is not None:
                raise UsageError("an entity is named by its type and its id")
            return Touches(tuple(listed))
        trails = self._reads.trails(log)
        if entity_id is None:
            return touching_type(trails, listed, type_name)
        return touching_entity(trails, listed, type_name, entity_id)

    def _view_of(self, ref: str, logs: dict[str, CommitLog]) -> View:
        """`at` a ref. The head of a branch is known without its history."""
        is_branch = self._live_line(ref) is not None
        snapshot = self.snapshot(ref) if is_branch else self._snapshot_at(self._commit(ref, logs))
        return View(self._reads, snapshot, self._schema_of(snapshot), is_ref=True)

    def has_pending(self) -> bool:
        """Has any write begun and not ended? One listing."""
        return bool(pending_operations(self._storage.control))

    def pending(self) -> list[Sidecar]:
        """Writes that have begun and not ended, of live writers and of dead ones."""
        from omnigraph_core.write.sidecar import read_all

        return read_all(self._storage.control)[0]

    def unreadable(self) -> list[SidecarUnreadable]:
        """Records of such writes that cannot be read: what is pending beside the others is not known."""
        from omnigraph_core.write.sidecar import read_all

        return read_all(self._storage.control)[1]

    def recoveries(self) -> list[Recovery]:
        """Every repair there ever was, oldest first."""
        from omnigraph_core.history.recoveries import read_recoveries

        return read_recoveries(self._tables, self._manifest.testimony)

    def lock_holder(self, branch: str) -> LockHolder | None:
        """Who is writing to a branch right now."""
        arguments.texts(branch=branch)
        return self._storage.locks.read_holder(layout.branch_lock(self._line(branch)))

    def catalog_of(self, ref: str | None = None, *, branch: str = layout.MAIN_BRANCH) -> Catalog:
        """The schema as it was at a ref, or as a branch has it now; with its text."""
        arguments.texts(branch=branch)
        arguments.optional_texts(ref=ref)
        from omnigraph_core.schema.render import render

        if ref is None:
            head = self.head(branch)
            published = head.schema_hash if head else None
        else:
            published = self.commit(ref).schema_hash
        current = self.catalog()
        if published in (None, current.schema_hash):
            return current
        schema = self._schemas.by_hash(published)
        return Catalog(schema, published, source_at(self._storage.control, published) or render(schema))

    def plan_schema(
        self,
        wanted: str | Schema,
        *,
        source_name: str = "schema.pg",
        branch: str = layout.MAIN_BRANCH,
        allow_data_loss: bool = False,
    ) -> MigrationPlan:
        """`View.plan_schema` of a branch as it is now; `wanted` may be the text of a schema."""
        arguments.texts(source_name=source_name, branch=branch)
        arguments.instance("wanted", wanted, (str, Schema), "the text of a schema, or a compiled one")
        arguments.flags(allow_data_loss=allow_data_loss)
        schema = compile_schema(wanted, source_name) if isinstance(wanted, str) else wanted
        snapshot = self.snapshot(branch)
        # The wanted schema may be the graph's own file, edited; that must not stand in the way.
        accepted = self._schemas.kept(snapshot.head.schema_hash) if snapshot.head else self.catalog().schema
        view = View(self._reads, snapshot, accepted, is_ref=False)
        return view.plan_schema(schema, allow_data_loss=allow_data_loss)

    def internal_schema_version(self) -> int:
        return read_stamp(self._manifest.open_for_read(layout.MAIN_BRANCH))
