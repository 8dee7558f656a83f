"""An open graph: what it is made of, and how branches, commits and schemas are found in it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

from omnigraph_core import arguments, faults, layout
from omnigraph_core.catalog.files import Catalog, SchemaFilesDisagree, load_catalog
from omnigraph_core.catalog.schemas import Schemas
from omnigraph_core.lifecycle import GraphClosed, GraphReadOnly, OpenMode
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.reader import BranchNotFound, Manifest
from omnigraph_core.manifest.rows import GraphHead
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.original.recognition import HeadsIfNeeded, refuse_original
from omnigraph_core.schema import Schema
from omnigraph_core.settings import Settings
from omnigraph_core.storage import Location, open_storage
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.failures import GraphMoved
from omnigraph_core.view import ReadState
from omnigraph_core.write.testimony import Testimony

# The other floors are imported by the methods that use them: a command needs one or two of
# them, and waits for the others in vain.
if TYPE_CHECKING:
    from omnigraph_core.history.log import CommitLog, GraphCommit
    from omnigraph_core.history.names import BranchNames
    from omnigraph_core.write.door import Door
    from omnigraph_core.write.sweep import SweepReport

_GIVEN_BACK = ("_storage", "_tables", "_schemas", "_manifest", "_reads", "_unchecked_door")


class OpenGraph:
    """What every part of the facade stands on. Threads may share it; a child process opens its own."""

    def __init__(self, location: Location, settings: Settings, mode: OpenMode = OpenMode.AS_IS) -> None:
        arguments.instance("location", location, Location, "a location; `Graph.open` takes a text")
        arguments.instance("settings", settings, Settings, "settings")
        arguments.optional_texts(**{"settings.actor": settings.actor})
        self.location = location
        self.settings = settings
        self.mode = mode
        self._first_write = RLock()
        self._storage = open_storage(location, settings)
        self._start_anew()
        self.warnings: tuple[str, ...] = ()
        """What the last read-write open found and had to leave as it is."""
        faults.arm(settings.failpoints)

    def _start_anew(self) -> None:
        """Know nothing of the graph but its place."""
        settings = self.settings
        vars(self).pop("_unchecked_door", None)
        self._tables = Tables(self._storage, settings.memory_limit_bytes)
        self._schemas = Schemas(self._storage.control, self.catalog)
        heads = HeadsIfNeeded(self._tables, self._schemas.keep)
        self._manifest = Manifest(self._tables, Testimony(self._tables), heads)
        self._reads = ReadState(self._manifest, settings, self._schemas)

    def close(self) -> None:
        """Give back what is kept in memory. Afterwards only `repr` works; closing again does nothing."""
        for name in _GIVEN_BACK:
            vars(self).pop(name, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = self.mode.value if "_storage" in vars(self) else "closed"
        return f"<Graph {self.location.uri} ({state})>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What is missing was given back."""
            if name in _GIVEN_BACK and "location" in vars(self):
                raise GraphClosed(self.location.uri)
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @property
    def door(self) -> Door:
        """The one way this graph changes; refused for a graph of the Rust original."""
        return self._door_for(dry_run=False)

    def _door_for(self, *, dry_run: bool) -> Door:
        """The same; those who only try something may also do so where nothing may be written."""
        if not dry_run:
            self._begin_writing()
        refuse_original(self._manifest)
        return self._unchecked_door

    def _begin_writing(self) -> None:
        """Raise if nothing may be written; before the first write, repair and migrate."""
        self._refuse_read_only()
        if self.mode is OpenMode.ON_DEMAND:
            with self._first_write:
                if self.mode is OpenMode.ON_DEMAND:
                    self.prepare_for_writing()

    def _refuse_read_only(self) -> None:
        if self.mode is OpenMode.READ_ONLY:
            raise GraphReadOnly(self.location.uri)

    def prepare_for_writing(self, *, patient: bool = False, thorough: bool = False) -> SweepReport:
        """What a read-write open does first; see `write/opening.py`."""
        arguments.flags(patient=patient, thorough=thorough)
        self._refuse_read_only()
        from omnigraph_core.write.opening import prepare_for_writing

        door = self._door_for(dry_run=True)
        opened = prepare_for_writing(door, self.catalog, patient=patient, thorough=thorough)
        self.warnings = opened.warnings
        self.mode = OpenMode.READ_WRITE
        return opened.swept

    @cached_property
    def _unchecked_door(self) -> Door:
        """The same for those who only look, or who make the graph ours."""
        from omnigraph_core.write.door import Door

        return Door(self._manifest, self._schemas)

    def is_original(self) -> bool:
        """Is this a graph of the Rust original that nobody has adopted?"""
        return self._manifest.is_original()

    def moved_branches(self) -> list[str]:
        """The branches of an original's graph that cannot be read, because it is not where it was made."""
        found = []
        for name in self._manifest.branches() if self.is_original() else ():
            try:
                self._manifest.open(name)
            except GraphMoved:
                found.append(name)
        return sorted(found)

    def snapshot(self, branch: str = layout.MAIN_BRANCH) -> Snapshot:
        """The branch as it is now."""
        arguments.texts(branch=branch)
        line = self._line(branch)
        found = self._manifest.snapshot(line)
        return found if line == branch else replace(found, called=branch)

    def _line(self, name: str) -> str:
        """The line of versions of the branch that is called so: its name, unless one was renamed.

        All floors below know a branch by its line; people by its name. See `history/names.py`.
        """
        if name == layout.MAIN_BRANCH:
            return name
        names = self._names()
        for line in names.lines(name):
            if (found := self._branch_on(line)) is not None and names.of(found) == name:
                return line
        if names.entries and (other := self._branch_on(name)) is not None:
            raise BranchNotFound(name, f"it was renamed to '{names.of(other)}'")
        return name

    def _branch_on(self, line: str) -> Branch | None:
        """The live branch of a line; looks at no other."""
        with suppress(BranchNotFound):
            return self._manifest.branch(line)
        return None

    def _live(self) -> list[Branch]:
        return [Branch(each.name, each.identity) for each in self._manifest.branches().values()]

    def _names(self) -> BranchNames:
        from omnigraph_core.history.names import read_names

        return read_names(self._storage.control)

    def _named(self, log: CommitLog) -> CommitLog:
        """A log by the names of branches."""
        names = self._names()
        if not names.entries:
            return log
        from omnigraph_core.history.log import CommitLog

        commits = {id_: replace(each, named=names.of(each.on)) for id_, each in log.commits.items()}
        called = {each.name: names.of(each) for each in self._live()}
        return CommitLog(commits, {called.get(line, line): head for line, head in log.heads.items()})

    def snapshot_of(self, ref: str) -> Snapshot:
        """The graph as it was at a ref: branch, `tag:NAME`, commit id, `REF~N` or `REF@{TIME}`."""
        return self._snapshot_at(self.commit(ref))

    def _snapshot_at(self, commit: GraphCommit) -> Snapshot:
        from omnigraph_core.history.travel import snapshot_at

        return replace(snapshot_at(self._manifest, commit), called=commit.named)

    def head(self, branch: str = layout.MAIN_BRANCH) -> GraphHead | None:
        return self.snapshot(branch).head

    def log(self) -> CommitLog:
        """The commits of all branches, and the repairs of branches that are gone."""
        from omnigraph_core.history.log import read_log

        return self._named(read_log(self._tables, self._manifest))

    def commit(self, ref: str) -> GraphCommit:
        """The commit a ref names. One that starts with a branch looks at that branch alone."""
        return self._commit(ref, {})

    def _commit(self, ref: str, logs: dict[str, CommitLog]) -> GraphCommit:
        """The same; `logs` keeps what was read, for the next ref."""
        arguments.texts(ref=ref)
        from omnigraph_core.history.log import read_branch_log
        from omnigraph_core.history.refs import TaggedCommitGone, first_name, resolve, tag_name
        from omnigraph_core.history.tags import read_tag

        tagged = tag_name(ref)
        tag = None if tagged is None else read_tag(self._storage.control, tagged)
        where = self._line(first_name(ref)) if tag is None else tag.branch
        if not self._manifest.has_branch(where):
            where = ""
        if where not in logs and where:
            logs[where] = self._named(read_branch_log(self._tables, self._manifest, where))
        elif where not in logs:
            logs[where] = self.log()
        try:
            return resolve(logs[where], ref, tag)
        except TaggedCommitGone as gone:
            called = self._names().of(gone.tag.on)
            raise TaggedCommitGone(replace(gone.tag, on=replace(gone.tag.on, name=called))) from None

    def _live_line(self, name: str) -> str | None:
        """The line of a branch, None if no branch is called so."""
        with suppress(BranchNotFound):
            line = self._line(name)
            return line if self._manifest.has_branch(line) else None
        return None

    def _new_line(self, name: str) -> str:
        """Where a new branch has its versions: at its name, unless a renamed branch has it there."""
        from omnigraph_core.ids import new_ulid
        from omnigraph_core.tables.fork_refs import share_a_directory
        from omnigraph_core.write.naming import check_name

        check_name(name)
        renamed = [each for each in self._names().entries if each.name != each.lineage]
        is_taken = any(share_a_directory(each.lineage, name) for each in renamed)
        return f"at-{new_ulid().lower()}" if is_taken else name

    def _readable_commit(self, ref: str) -> GraphCommit:
        """The same, if its content is still there."""
        from omnigraph_core.history.travel import branch_of

        commit = self.commit(ref)
        branch_of(self._manifest, commit)
        return commit

    def catalog(self) -> Catalog:
        """The accepted schema, after checking that the schema files agree with the published hash.

        They may be replaced while they are read, by a schema that is published before they are.
        """
        while True:
            if self._manifest.is_original():
                from omnigraph_core.original.catalog import load_original_catalog

                return load_original_catalog(self._storage.control)
            head = self.head()
            try:
                catalog = load_catalog(
                    self._storage.control,
                    has_other_branches=self._manifest.has_other_branches,
                    published_hash=head.schema_hash if head else None,
                )
            except SchemaFilesDisagree:
                if self.head() == head:
                    raise
                continue
            self._schemas.keep(catalog)
            return catalog

    def _schema_of(self, snapshot: Snapshot) -> Schema:
        """The schema a snapshot was published with."""
        return self._schemas.of_commit(snapshot.head.schema_hash if snapshot.head else None)

    def _signed(self, actor: str | None) -> str:
        """Who a commit is by: the one that was named, or the one of the settings."""
        from omnigraph_core.write.actors import check_actor

        signed = actor or self.settings.default_actor
        check_actor(signed)
        return signed
