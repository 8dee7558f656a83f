"""One look at a graph, shared by all checks: what each of them asks for is read once.

Nothing here takes a lock or writes. What cannot be read is kept as a failure beside what can,
so that one check reports it and the others go on with the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from omnigraph_core import layout
from omnigraph_core.catalog.files import Catalog
from omnigraph_core.errors import NotFoundError, OmnigraphError, StorageError
from omnigraph_core.history.deleted import DeletedBranch, deleted_identities, read_gone
from omnigraph_core.history.log import CommitLog, GraphCommit, read_branch_log
from omnigraph_core.history.removed import Removals, read_removals
from omnigraph_core.maintenance.keep import is_readable
from omnigraph_core.maintenance.lineages import Place, dataset_refs, look_at
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.snapshot import Snapshot, SubTableEntry
from omnigraph_core.records import dataclass
from omnigraph_core.schema import EntityType, Schema
from omnigraph_core.storage import LockHolder
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.fork_refs import ForkRef, RefState
from omnigraph_core.tables.referenced import referenced_files
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.torn import open_newest_whole
from omnigraph_core.write.door import Door
from omnigraph_core.write.pending import pending_operations
from omnigraph_core.write.ref_repair import lost_refs

Failures = dict[str, Exception]


@dataclass(frozen=True, slots=True)
class Published:
    """A version of a table that heads publish, however many branches share it."""

    entry: SubTableEntry
    branches: tuple[str, ...]
    entity: EntityType | None
    """None if the schema of its branch cannot be read or does not have it."""

    @property
    def where(self) -> str:
        return f"{self.branches[0]} {self.entry.table_key}"


class Examination:
    """What there is, as far as it can be read."""

    def __init__(self, door: Door, read_catalog: Callable[[], Catalog], memory_bytes: int) -> None:
        self.door = door
        self.read_catalog = read_catalog
        self.memory_bytes = memory_bytes
        self.storage = door.storage
        self.control = door.storage.control
        self.tables = door.tables
        self.manifest = door.manifest
        self.head_failures: Failures = {}
        self.log_failures: Failures = {}
        self.schema_failures: Failures = {}
        self.place_failures: Failures = {}
        self.deleted_failures: Failures = {}
        self.damaged: set[str] = set()
        """Files whose bytes are known to be others than they were. Lance is not given them to read:
        it may end the process over a changed length in a deletion file."""

    @classmethod
    def of_one(cls, door: Door, snapshot: Snapshot, schema: Schema, memory_bytes: int) -> Examination:
        """Of a single state, which need not be published."""

        def no_catalog() -> Catalog:
            raise StorageError("a single state is examined with its own schema")

        seen = cls(door, no_catalog, memory_bytes)
        vars(seen).update(heads={snapshot.branch: snapshot}, schemas={snapshot.branch: schema})
        return seen

    def fresh(self) -> Examination:
        """Another look, at the graph as it is by then."""
        again = Examination(self.door, self.read_catalog, self.memory_bytes)
        again.damaged = self.damaged
        return again

    @cached_property
    def branch_refs(self) -> list[ForkRef]:
        """Also those that are missing and that nothing but files on disk tells of."""
        found = [*self.manifest.branch_refs(), *lost_refs(self.manifest)]
        return list({each.name: each for each in found}.values())

    @cached_property
    def heads(self) -> Mapping[str, Snapshot]:
        """The branches that can be read; a branch that goes meanwhile is gone."""
        whole = sorted(found.name for found in self.branch_refs if found.state is RefState.WHOLE)
        found: dict[str, Snapshot] = {}
        for name in (layout.MAIN_BRANCH, *whole):
            try:
                found[name] = self.manifest.snapshot(name)
            except NotFoundError as problem:
                if name == layout.MAIN_BRANCH:
                    self.head_failures[name] = problem
            except Exception as problem:  # Whatever damaged bytes lead to.
                self.head_failures[name] = problem
        return found

    @property
    def live(self) -> Mapping[str, Branch]:
        return {name: head.on for name, head in self.heads.items()}

    @cached_property
    def schemas(self) -> Mapping[str, Schema]:
        """The schema of each branch, as its head names it."""
        found: dict[str, Schema] = {}
        for name, snapshot in self.heads.items():
            try:
                head = snapshot.head
                found[name] = (
                    self.read_catalog().schema if head is None else self.door.schemas.kept(head.schema_hash)
                )
            except Exception as problem:
                self.schema_failures[name] = problem
        return found

    @cached_property
    def published(self) -> list[Published]:
        """Every table version of every head, once."""
        sharing: dict[tuple[str, str | None, int], list[tuple[str, SubTableEntry]]] = {}
        for name, snapshot in self.heads.items():
            for entry in snapshot.tables.values():
                key = (entry.table_path, entry.table_branch, entry.table_version)
                sharing.setdefault(key, []).append((name, entry))
        return [self._published(users) for users in sharing.values()]

    def _published(self, users: list[tuple[str, SubTableEntry]]) -> Published:
        name, entry = users[0]
        schema = self.schemas.get(name)
        types = {} if schema is None else {each.table_key: each for each in schema.types()}
        return Published(entry, tuple(name for name, _ in users), types.get(entry.table_key))

    def open(self, found: Published) -> Table:
        """The table, if none of its files is known to be damaged."""
        table = self.tables.open(found.entry.ref, found.entry.table_version)
        damaged = self.damaged & referenced_files(table, self.storage).keys() if self.damaged else ()
        if damaged:
            raise StorageError(f"it was not read, because {min(damaged)} is damaged")
        return table

    def open_log(self, ref: TableRef) -> Table:
        """A control table as readers have it: before what a power cut tore. What may not be passed over
        is said by the checks of branches and history."""
        try:
            return self.tables.open(ref)
        except StorageError:
            return open_newest_whole(self.tables, ref)

    @cached_property
    def logs(self) -> Mapping[str, CommitLog]:
        """The history of each branch that has a readable one."""
        found: dict[str, CommitLog] = {}
        for name in self.heads:
            try:
                found[name] = read_branch_log(self.tables, self.manifest, name)
            except NotFoundError:
                continue
            except Exception as problem:
                self.log_failures[name] = problem
        return found

    @cached_property
    def commits(self) -> Mapping[str, GraphCommit]:
        return {id_: commit for log in self.logs.values() for id_, commit in log.commits.items()}

    @cached_property
    def removals(self) -> Removals:
        return read_removals(self.control)

    def is_readable(self, commit: GraphCommit) -> bool:
        return is_readable(commit, self.live, self.removals)

    @cached_property
    def deleted(self) -> list[DeletedBranch]:
        """Those that can be read."""
        found = []
        for identity in deleted_identities(self.control):
            try:
                found.append(read_gone(self.control, identity))
            except OmnigraphError as problem:
                self.deleted_failures[layout.deleted_branch(identity)] = problem
        return [each for each in found if each is not None]

    @property
    def knows_deleted(self) -> bool:
        """Can every record of a deleted branch be read?"""
        _ = self.deleted
        return not self.deleted_failures

    @cached_property
    def places(self) -> list[Place]:
        """Every dataset on disk; one that goes meanwhile is gone."""
        return list(self._look())

    def _look(self) -> Iterator[Place]:
        for ref in dataset_refs(self.manifest):
            try:
                yield look_at(self.tables, ref)
            except NotFoundError:
                continue
            except OmnigraphError as problem:
                self.place_failures[ref.path] = problem

    def pending(self) -> list[str]:
        """Operations that have a sidecar now."""
        return pending_operations(self.control)

    def holder(self, lock: str) -> LockHolder | None:
        return self.storage.locks.read_holder(lock)
