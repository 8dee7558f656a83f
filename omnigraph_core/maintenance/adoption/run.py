"""The order of an adoption, under the locks of the refs and of every branch.

1. The record (`record`), which keeps the original out.
2. Base paths: forks refer to where the graph is.
3. History: the columns that it lacks, and no settings of the original.
4. Tables (`datasets`): none of this is published yet, so readers see the original's graph.
5. The schemas of the past, and ours.
6. Branches: a head row with the commit they are at, and the versions of their own tables.
7. Main: the same in a commit of its own. From here on the graph is ours.
8. The rows of that commit, the schema files in the root; the record goes.

Killed before 7, the graph is the original's, and `adopt` repeats everything. Killed after it, recovery
finishes like that of any write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from omnigraph_core import faults, layout
from omnigraph_core.catalog.files import Catalog
from omnigraph_core.catalog.schemas import Schemas
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.history.commits import commits_ref, commits_schema, record_commit
from omnigraph_core.history.recoveries import recoveries_schema
from omnigraph_core.maintenance.adoption.datasets import adopt_table
from omnigraph_core.maintenance.adoption.found import Adopted, AdoptedTable
from omnigraph_core.maintenance.adoption.looking import (
    look_at_branches,
    look_at_tables,
    owned,
    readable,
    refuse_unfit,
)
from omnigraph_core.maintenance.adoption.past import Past, keep_past, read_past
from omnigraph_core.maintenance.adoption.record import begin
from omnigraph_core.manifest.branch import lineage_of
from omnigraph_core.manifest.publisher import Publisher
from omnigraph_core.manifest.reader import Manifest, manifest_ref
from omnigraph_core.manifest.request import Publish, Update
from omnigraph_core.manifest.rows import GraphHead, VersionMetadata
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.original.catalog import load_original_catalog
from omnigraph_core.original.heads import OriginalHeads
from omnigraph_core.storage import HeldLocks, Storage
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.durability import Barrier, manifest_path, sync_manifests
from omnigraph_core.tables.failures import TableNotFound
from omnigraph_core.tables.foreign import make_ours
from omnigraph_core.tables.fork_refs import fork_names
from omnigraph_core.tables.log_columns import with_columns
from omnigraph_core.tables.refs import TableRef, control_table
from omnigraph_core.tables.relocation import relocate_forks
from omnigraph_core.tables.torn import open_newest_whole, set_aside_torn
from omnigraph_core.write.actors import Signature
from omnigraph_core.write.promotion import promote_schema
from omnigraph_core.write.sidecar import StoredSidecar, forget_sidecar

_ACTORS = control_table(layout.COMMIT_ACTORS)
_RECOVERIES = control_table(layout.RECOVERIES)


class Adoption:
    """Makes one graph ours. What the caller knew of the graph is out of date afterwards."""

    def __init__(self, storage: Storage, by: Signature) -> None:
        self._storage = storage
        self._control = storage.control
        self._by = by
        self._reopen()

    def _reopen(self) -> None:
        """Look at everything anew: Lance keeps what it has read of files that are rewritten."""
        self._tables = Tables(self._storage)
        self._schemas = Schemas(self._control, lambda: load_original_catalog(self._control))
        self._heads = OriginalHeads(self._tables, self._schemas.keep)
        self._manifest = Manifest(self._tables, None, self._heads)

    def preview(self) -> Adopted:
        """What there is to do; writes nothing."""
        if not self._manifest.is_original():
            return Adopted(is_original=False)
        refuse_unfit(self._manifest)
        names = list(readable(self._manifest))
        past = read_past(self._manifest, self._heads, names)
        return Adopted(
            tuple(look_at_branches(self._manifest)), tuple(self._tables_of(names)), past.lost_commits
        )

    def run(self) -> Adopted:
        if not self._manifest.is_original():
            return Adopted(is_original=False)
        refuse_unfit(self._manifest)
        branches = [layout.MAIN_BRANCH, *sorted(self._manifest.branches())]
        locks = [layout.REFS_LOCK, *map(layout.branch_lock, branches)]
        with self._storage.locks.lock_all(locks, doing="adopt") as held:
            self._reopen()
            if not self._manifest.is_original():
                return Adopted(is_original=False)
            return self._under_locks(held)

    def _under_locks(self, held: HeldLocks) -> Adopted:
        faults.hit("adopt.locked")
        refuse_unfit(self._manifest)
        moved = {each.name for each in look_at_branches(self._manifest) if each.is_moved}
        catalog = load_original_catalog(self._control)
        main = self._manifest.snapshot()
        held.check()
        stored = begin(self._control, main, catalog, self._by, held.token(layout.branch_lock(main.branch)))
        faults.hit("adopt.recorded")
        try:
            return self._carried_out(stored, catalog, moved, held)
        except OmnigraphError as error:
            error.hint = error.hint or "run `omnigraph adopt` again: it repeats what is not done"
            raise

    def _carried_out(
        self, stored: StoredSidecar, catalog: Catalog, moved: set[str], held: HeldLocks
    ) -> Adopted:
        operation_id = stored.sidecar.operation_id
        self._relocate(held)
        refuse_unfit(self._manifest)
        branches = [replace(each, is_moved=each.name in moved) for each in look_at_branches(self._manifest)]
        names = list(readable(self._manifest))
        looked_at = list(self._tables_of(names))
        past = read_past(self._manifest, self._heads, names)
        self._adopt_history(names, operation_id, held)
        adopted = [self._adopt_branch_tables(name, catalog, operation_id, held) for name in names]
        self._keep(past, catalog)
        faults.hit("adopt.kept")
        updates = dict(zip(names, adopted, strict=True))
        for name in names[1:]:
            self._publish_branch(name, updates[name], operation_id, held)
        self._publish_main(stored, updates[layout.MAIN_BRANCH], held)
        forget_sidecar(self._storage, stored, held.check)
        faults.hit("adopt.done")
        return Adopted(
            tuple(branches),
            tuple(_with_versions(looked_at, updates)),
            past.lost_commits,
            stored.sidecar.head.commit_id,
        )

    def _tables_of(self, names: list[str]) -> Iterator[AdoptedTable]:
        schema = load_original_catalog(self._control).schema
        for name in names:
            yield from look_at_tables(self._manifest, self._manifest.snapshot(name), schema)

    def _set_aside_torn(self, refs: Sequence[TableRef], held: HeldLocks) -> None:
        """An earlier adoption may have met a power cut, which tears what was committed and not synced."""
        if self._storage.location.is_local:
            lineages = [each for ref in refs for each in self._lineages(ref)]
            for each in filter(self._tables.exists, lineages):
                whole = open_newest_whole(self._tables, each).version
                set_aside_torn(self._tables, each, whole, held.check)

    def _lineages(self, ref: TableRef) -> list[TableRef]:
        return [ref, *(ref.on(name) for name in fork_names(self._tables, ref))]

    def _relocate(self, held: HeldLocks) -> None:
        """The manifest first, so that the branches can be read for the rest."""
        self._relocate_all([manifest_ref(layout.MAIN_BRANCH), commits_ref(layout.MAIN_BRANCH)], held)
        faults.hit("adopt.control_relocated")
        self._set_aside_torn([_ACTORS, _RECOVERIES], held)
        paths: dict[str, str] = {}
        for name in readable(self._manifest):
            paths.update(self._manifest.paths(name))
        self._relocate_all([TableRef(key, path) for path, key in sorted(paths.items())], held)
        faults.hit("adopt.relocated")

    def _relocate_all(self, refs: list[TableRef], held: HeldLocks) -> None:
        for ref in refs:
            relocate_forks(self._tables, ref, held.check)
        self._reopen()
        self._set_aside_torn(refs, held)

    def _adopt_history(self, names: list[str], operation_id: str, held: HeldLocks) -> None:
        wanted = [(commits_ref(name), commits_schema()) for name in names]
        for ref, schema in (*wanted, (_ACTORS, None), (_RECOVERIES, recoveries_schema())):
            try:
                table = self._tables.open(ref)
            except TableNotFound:
                continue
            held.check()
            table = make_ours(self._tables, table, operation_id, held.check)
            if schema is not None:
                sync_manifests(self._tables, [with_columns(table, schema, operation_id)])
            faults.hit("adopt.history_table")

    def _adopt_branch_tables(
        self, name: str, catalog: Catalog, operation_id: str, held: HeldLocks
    ) -> list[Update]:
        """Make the tables of a branch ours; returns what its publish says of them."""
        snapshot = self._manifest.snapshot(name)
        types = {each.table_key: each for each in catalog.schema.types()}
        updates = []
        for entry in owned(snapshot):
            try:
                self._tables.open(entry.ref, entry.table_version).count_rows()
            except OmnigraphError:
                continue  # Reported; it stays as it is.
            table = adopt_table(self._tables, entry, types.get(entry.table_key), operation_id, held.check)
            faults.hit("adopt.table")
            if table.version != entry.table_version:
                metadata = VersionMetadata(manifest_path(entry.ref, table.version), naming_scheme="V2")
                updates.append(
                    Update(entry.table_key, table.version, entry.table_branch, entry.row_count, metadata)
                )
        self._adopt_dropped(snapshot, operation_id, held)
        return updates

    def _adopt_dropped(self, snapshot: Snapshot, operation_id: str, held: HeldLocks) -> None:
        """Datasets of types that are gone: nobody reads their HEAD, and nobody may let Lance clean it up."""
        live = {entry.table_path for entry in snapshot.tables.values()}
        for path, key in self._manifest.paths(snapshot.branch).items():
            ref = TableRef(key, path, lineage_of(snapshot.branch))
            if path not in live and self._tables.exists(ref):
                make_ours(self._tables, self._tables.open(ref), operation_id, held.check)

    def _keep(self, past: Past, catalog: Catalog) -> None:
        hashes = {hash_ for runs in past.schemas.values() for _, hash_ in runs if hash_}
        known = {each: self._schemas.kept(each) for each in hashes}
        known[catalog.schema_hash] = catalog.schema
        by = self._by.actor or ""
        keep_past(self._control, past, known, catalog, by)

    def _publish_branch(self, name: str, updates: list[Update], operation_id: str, held: HeldLocks) -> None:
        table = make_ours(self._tables, self._manifest.open(name), operation_id, held.check)
        faults.hit("adopt.branch_manifest")
        snapshot = self._manifest.snapshot(name)
        head = snapshot.head
        if head is None or (not head.is_original and not updates):
            return
        token = held.token(layout.branch_lock(name))
        published = replace(head, operation_id=operation_id, lock_token=token)
        self._publish(snapshot, published, updates, held)
        faults.hit("adopt.branch_published")
        self._tables.forget(table.ref)

    def _publish_main(self, stored: StoredSidecar, updates: list[Update], held: HeldLocks) -> None:
        sidecar = stored.sidecar
        make_ours(self._tables, self._manifest.open(layout.MAIN_BRANCH), sidecar.operation_id, held.check)
        faults.hit("adopt.main_manifest")
        before = self._manifest.snapshot()
        snapshot = self._publish(before, sidecar.head, updates, held)
        faults.hit("adopt.published")
        barrier = Barrier(self._storage)
        version = snapshot.manifest_version
        record_commit(self._tables, sidecar.head, snapshot.on, version, barrier, held.check)
        barrier.sync()
        promote_schema(self._control, sidecar, held.check)
        faults.hit("adopt.promoted")

    def _publish(
        self, snapshot: Snapshot, head: GraphHead, updates: list[Update], held: HeldLocks
    ) -> Snapshot:
        """One version of `__manifest`, on top of the one that was looked at."""
        request = Publish(
            on=snapshot.on,
            head=head,
            updates=updates,
            expected_versions={key: entry.table_version for key, entry in snapshot.tables.items()},
        )
        return Publisher(self._manifest).publish(request, held.check)


def _with_versions(tables: list[AdoptedTable], updates: dict[str, list[Update]]) -> Iterator[AdoptedTable]:
    published = {(name, each.table_key): each.version for name, found in updates.items() for each in found}
    for each in tables:
        yield replace(each, version=published.get((each.branch, each.table_key), each.version))
