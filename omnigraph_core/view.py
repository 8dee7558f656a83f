"""`View`: one state of a graph, read with the schema it had. What every read works on."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from omnigraph_core import arguments, outputs
from omnigraph_core.catalog.schemas import Schemas
from omnigraph_core.errors import NotFoundError, OmnigraphError
from omnigraph_core.manifest.reader import Manifest, check_branch
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.schema import Schema
from omnigraph_core.schema.files import Format
from omnigraph_core.schema.model import NoSuchTypeError
from omnigraph_core.settings import Settings

if TYPE_CHECKING:
    from omnigraph_core.diff.entity import Blame
    from omnigraph_core.diff.graph import GraphDiff
    from omnigraph_core.diff.trails import Trails
    from omnigraph_core.export.tables import TypedTable
    from omnigraph_core.history.log import CommitLog, GraphCommit
    from omnigraph_core.query.prepared import PreparedQuery
    from omnigraph_core.read.answer.picture import Picture
    from omnigraph_core.read.answer.result import QueryResult
    from omnigraph_core.read.blob import Blob
    from omnigraph_core.read.execute import Reading
    from omnigraph_core.read.look import Entity, TypeFacts
    from omnigraph_core.schema.evolve import MigrationPlan
    from omnigraph_core.storage.copies import LocalCopies
    from omnigraph_core.topology.cache import ReadCache
    from omnigraph_core.topology.store import TopologyStore


# Of the sources that a process has asked last, unless they are very long.
_PREPARED_MAX = 64
_PREPARED_LENGTH_MAX = 10_000


class ReadState:
    """What the views of one graph share: what a process keeps between reads never shows in an answer."""

    def __init__(self, manifest: Manifest, settings: Settings, schemas: Schemas) -> None:
        self.manifest = manifest
        self.schemas = schemas
        self.tables = manifest.tables
        self.settings = settings
        self._cache: ReadCache | None = None
        self._topology: TopologyStore | None = None
        self._lock = threading.Lock()
        self._prepared: OrderedDict[tuple[str, str | None, str], PreparedQuery] = OrderedDict()

    def prepared(self, source: str, name: str | None, source_name: str) -> PreparedQuery:
        """A query of a source; the last ones are kept, as most programs ask the same again and again."""
        from omnigraph_core.query.prepared import PreparedQuery

        key = source, name, source_name
        known = self._prepared.get(key)
        if known is None:
            known = PreparedQuery(source, name=name, source_name=source_name)
            if len(source) <= _PREPARED_LENGTH_MAX:
                with self._lock:
                    self._prepared[key] = known
                    while len(self._prepared) > _PREPARED_MAX:
                        self._prepared.popitem(last=False)
        return known

    @property
    def cache(self) -> ReadCache:
        from omnigraph_core.topology.cache import ReadCache

        if self._cache is None:
            self._cache = ReadCache(self.settings.memory_limit_bytes // 4)
        return self._cache

    @property
    def topology(self) -> TopologyStore:
        """The topology indexes of the graph."""
        from omnigraph_core.topology.store import TopologyStore

        if self._topology is None:
            self._topology = TopologyStore(self.tables.storage, self._copies())
        return self._topology

    def _copies(self) -> LocalCopies | None:
        """Where files of a graph on S3 are kept between processes."""
        settings, location = self.settings, self.tables.storage.location
        if location.is_local or settings.cache_home is None or not settings.cache_limit_bytes:
            return None
        from omnigraph_core.storage.copies import LocalCopies

        directory = settings.working_directory / settings.cache_home / "topology"
        return LocalCopies(directory, settings.cache_limit_bytes, location.uri)

    def trails(self, log: CommitLog) -> Trails:
        """For following tables back through the commits of a log."""
        from omnigraph_core.diff.trails import Trails
        from omnigraph_core.history.removed import read_removals

        def schema_of(commit: GraphCommit) -> Schema:
            return self.schemas.of_commit(commit.schema_hash)

        return Trails(self.manifest, log, read_removals(self.tables.storage.control), schema_of)


class QueryOptions(TypedDict, total=False):
    """The options of `View.query`, for callers that pass them on."""

    name: str | None
    source_name: str
    params: Mapping[str, Any] | None
    param_texts: Sequence[str]
    timeout_s: float | None
    explain_only: bool


class View:
    """A snapshot and its schema; cheap to make, and the same however often it is read."""

    def __init__(self, state: ReadState, snapshot: Snapshot, schema: Schema, *, is_ref: bool) -> None:
        self._state = state
        self.snapshot = snapshot
        self.schema = schema
        self._is_ref = is_ref

    def query(
        self,
        source: str | PreparedQuery,
        *,
        name: str | None = None,
        source_name: str = "<query>",
        params: Mapping[str, Any] | None = None,
        param_texts: Sequence[str] = (),
        timeout_s: float | None = None,
        explain_only: bool = False,
    ) -> QueryResult:
        """Run a read of a `.gq` source, or one that is prepared, whose names are its own.

        With `explain_only` the result has a plan and no rows.
        """
        from omnigraph_core.query.prepared import PreparedQuery

        if not isinstance(source, PreparedQuery):
            arguments.texts(source=source)
        arguments.texts(source_name=source_name)
        arguments.optional_texts(name=name)
        arguments.named_values("params", params)
        arguments.text_lists(param_texts=param_texts)
        arguments.seconds("timeout_s", timeout_s)
        arguments.flags(explain_only=explain_only)
        from omnigraph_core.query import as_read

        prepared = self._state.prepared(source, name, source_name) if isinstance(source, str) else source
        checked, bound = prepared.checked(self.schema), prepared.bound(params, param_texts)
        try:
            return self._reading().run(
                as_read(checked), bound, is_ref=self._is_ref, timeout_s=timeout_s, explain_only=explain_only
            )
        finally:
            self._check_branch()

    def picture(
        self,
        source: str,
        *,
        name: str | None = None,
        source_name: str = "<query>",
        params: Mapping[str, Any] | None = None,
        param_texts: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> Picture:
        """The nodes and edges that a read matches, to be drawn: `as_dot` or `as_html` of `read.answer`."""
        arguments.texts(source=source, source_name=source_name)
        arguments.optional_texts(name=name)
        arguments.named_values("params", params)
        arguments.text_lists(param_texts=param_texts)
        arguments.seconds("timeout_s", timeout_s)
        from omnigraph_core.query import as_read
        from omnigraph_core.query.prepared import QueryRequest
        from omnigraph_core.read.answer.picture import drawing, drawn

        checked, bound = QueryRequest(source, source_name, name, params, param_texts).prepare(self.schema)
        read = as_read(checked)
        try:
            found = self._reading().run(drawing(read), bound, is_ref=self._is_ref, timeout_s=timeout_s)
            return drawn(read, found)
        finally:
            self._check_branch()

    def _reading(self) -> Reading:
        from omnigraph_core.read.execute import Reading

        state = self._state
        return Reading(state.tables, self.snapshot, self.schema, state.settings, state.cache, state.topology)

    def export(self, *, types: Sequence[str] = (), format: Format | str = Format.JSONL) -> Iterator[bytes]:
        """Everything as text, in blocks of whole lines, ordered by table key, then by id."""
        from omnigraph_core.export.tables import text_blocks

        chosen = arguments.choice("format", format, Format)
        tables = self._typed_tables(types)

        def blocks() -> Iterator[bytes]:
            with self._while_branch_lasts():
                yield from text_blocks(tables, chosen)

        return blocks()

    def export_files(self, out: Path, format: Format | str, *, types: Sequence[str] = ()) -> list[Path]:
        """The same as a file, or one file per type in a directory: all of them whole, or none."""
        from omnigraph_core.export.tables import write_files

        arguments.instance("out", out, Path, "a Path")
        chosen = arguments.choice("format", format, Format)
        self.refuse_as_output(out)
        tables = self._typed_tables(types)
        with self._while_branch_lasts():
            return write_files(out, tables, chosen)

    def refuse_as_output(self, out: Path) -> None:
        """Raise UsageError for a file that is a part of the graph."""
        location = self._state.tables.storage.location
        if location.is_local:
            outputs.refuse_graph(out, location.path, "out")

    def blob(self, kind: str, type_name: str, entity_id: str, name: str) -> Blob:
        """One blob property of one entity, `kind` being `node` or `edge`."""
        arguments.texts(kind=kind, type_name=type_name, entity_id=entity_id, name=name)
        from omnigraph_core.read.blob import find_blob

        try:
            return find_blob(self._state.tables, self.snapshot, self.schema, kind, type_name, entity_id, name)
        finally:
            self._check_branch()

    def entity(self, type_name: str, entity_id: str) -> Entity:
        """One node or edge; of a name that both have, the node."""
        arguments.texts(type_name=type_name, entity_id=entity_id)
        from omnigraph_core.read.look import find_entity

        for each in reversed(self._named_tables(type_name)):
            with self._while_branch_lasts():
                found = find_entity(each.table, each.entity, entity_id)
            if found is not None:
                return found
        raise NotFoundError(f"there is no {type_name} with the id '{entity_id}'")

    def head(self, type_name: str, limit: int) -> list[Entity]:
        """The first nodes or edges of a type, by id."""
        arguments.texts(type_name=type_name)
        arguments.count("limit", limit)
        from omnigraph_core.read.look import first_entities

        with self._while_branch_lasts():
            return [
                entity
                for each in self._named_tables(type_name)
                for entity in first_entities(each.table, each.entity, limit)
            ][:limit]

    def describe(self, type_name: str) -> list[TypeFacts]:
        """What a type has: rows, and per property its nulls, bounds and indexes. Reads all of it."""
        arguments.texts(type_name=type_name)
        from omnigraph_core.read.look import type_facts

        with self._while_branch_lasts():
            return [type_facts(each.table, each.entity) for each in self._named_tables(type_name)]

    def _named_tables(self, type_name: str) -> list[TypedTable]:
        """The tables of a name, which a node type and an edge type may share; or of `node:NAME`."""
        kind, colon, name = type_name.rpartition(":")
        tables = self._typed_tables([name])
        return [each for each in tables if not colon or each.entity.kind == kind]

    def diff(self, later: View, *, types: Sequence[str] = (), ids: Sequence[str] | None = None) -> GraphDiff:
        """What `later` has that this view has not, and the other way round.

        `types` are names that types have in either of them; with `ids`, only these entities
        are looked at. Nothing is read before it is asked for.
        """
        arguments.instance("later", later, View, "a view")
        arguments.text_lists(types=types, ids=() if ids is None else ids)
        from omnigraph_core.diff.graph import State, diff_states

        @contextmanager
        def lasting() -> Iterator[None]:
            with self._while_branch_lasts(), later._while_branch_lasts():
                yield
            self._check_branch()
            later._check_branch()

        before, after = State(self.snapshot, self.schema), State(later.snapshot, later.schema)
        return diff_states(self._state.tables, before, after, types, ids, lasting)

    def blame(self, type_name: str, entity_id: str) -> Blame:
        """For every property of an entity: the commit that gave it its value.

        Renamed types and properties are followed, and so are merges: a value that a merge took
        from the merged branch is that of the commit that set it there.
        """
        arguments.texts(type_name=type_name, entity_id=entity_id)
        from omnigraph_core.diff.entity import RowsOnTrails, blame
        from omnigraph_core.history.log import read_branch_log

        named = [each for each in self.schema.types() if each.name == type_name]
        if not named:
            raise NoSuchTypeError(type_name, (each.table_key for each in self.schema.types()))
        with self._while_branch_lasts():
            log = read_branch_log(self._state.tables, self._state.manifest, self.snapshot.branch)
            head = self.snapshot.head
            commit = None if head is None else log.commits.get(head.commit_id)
            if commit is None:
                raise NotFoundError(f"branch '{self.snapshot.branch}' has no commit on record")
            trails = self._state.trails(log)
            for entity in named:
                path = self.snapshot.entry(entity.table_key).table_path
                found = blame(RowsOnTrails(trails, path, entity_id), commit)
                if found is not None:
                    self._check_branch()
                    return found
        self._check_branch()
        raise NotFoundError(f"there is no {type_name} with the id '{entity_id}'")

    def plan_schema(self, wanted: Schema, *, allow_data_loss: bool = False) -> MigrationPlan:
        """What it takes to give this state another schema, and whether its data allows that.

        Nothing is written. Without the permission to lose data, what is dropped stays readable in
        old commits.
        """
        arguments.instance("wanted", wanted, Schema, "a schema")
        arguments.flags(allow_data_loss=allow_data_loss)
        from omnigraph_core.migrate.answers import answer
        from omnigraph_core.schema.arrow import require_patterns
        from omnigraph_core.schema.evolve import plan_migration

        require_patterns(wanted)
        plan = plan_migration(self.schema, wanted, allow_data_loss=allow_data_loss)
        if not plan.questions:
            return plan
        with self._while_branch_lasts():
            limit = self._state.settings.memory_limit_bytes
            answers = answer(self._state.tables, self.snapshot, plan, memory_bytes=limit)
        self._check_branch()
        return plan.answered(answers)

    def _typed_tables(self, types: Sequence[str]) -> list[TypedTable]:
        """What is to be read, opened; all of one branch, even if another has its name by now."""
        from omnigraph_core.export.jsonl import chosen_types
        from omnigraph_core.export.tables import TypedTable

        arguments.text_lists(types=types)
        chosen = chosen_types(list(self.schema.types()), types)
        entries = [self.snapshot.entry(entity.table_key) for entity in chosen]
        with self._while_branch_lasts():
            opened = [
                TypedTable(entity, self._state.tables.open(entry.ref, entry.table_version))
                for entity, entry in zip(chosen, entries, strict=True)
            ]
        self._check_branch()
        return opened

    def _check_branch(self) -> None:
        """Deleting a branch takes its files along; then that is what is wrong."""
        check_branch(self._state.manifest, self.snapshot)

    @contextmanager
    def _while_branch_lasts(self) -> Iterator[None]:
        """When reading fails, the branch may have been deleted meanwhile; then say that."""
        try:
            yield
        except OmnigraphError:
            self._check_branch()
            raise
