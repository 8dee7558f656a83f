"""Creating a graph: all of it or nothing, in a place that is empty or was ours before.

The order is the guarantee. A staging record is written first and removed last; the
first version of `__manifest` is what makes it a graph. So a root with a record but
without a readable manifest is an init that died, and may be cleared by the holder of
the refs lock.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence

from omnigraph_core import faults, layout
from omnigraph_core.catalog.files import write_schema_files
from omnigraph_core.errors import ConflictError, OmnigraphError, RefusedError
from omnigraph_core.history.commits import create_commit_tables
from omnigraph_core.ids import new_ulid, now_us
from omnigraph_core.manifest.commit import Commit, Operation
from omnigraph_core.manifest.create import GENESIS_VERSION, create_manifest
from omnigraph_core.manifest.request import Registration, Update
from omnigraph_core.manifest.rows import GraphHead, Outcome, VersionMetadata
from omnigraph_core.manifest.seal import sealed
from omnigraph_core.progress import Progress, ProgressEvent
from omnigraph_core.schema import EdgeType, NodeType, Schema
from omnigraph_core.schema.compiled import schema_hash
from omnigraph_core.storage import ControlStore, Lock, Storage
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.create import create_table
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.durability import manifest_path, sync_version
from omnigraph_core.tables.refs import TableRef, control_table
from omnigraph_core.tables.torn import is_torn, versions_on_disk
from omnigraph_core.write.root import RootState, init_records, inspect_root
from omnigraph_core.write.staging_record import INIT_KIND, StagingRecord


class GraphExists(ConflictError):
    """There is a graph already."""


def init_graph(
    storage: Storage,
    tables: Tables,
    source: str,
    schema: Schema,
    *,
    actor: str,
    message: str | None,
    takes_over: bool = False,
    progress: Progress,
) -> GraphHead:
    """Make the graph. On a failure before it exists, the place is as it was before.

    With `takes_over`, orphaned schema files are written over, or gone after a failure.
    """
    _refuse_taken(storage, inspect_root(storage.control), takes_over=takes_over)
    operation_id = new_ulid()
    lock = storage.locks.lock(layout.REFS_LOCK, doing="init", operation_id=operation_id)
    with _made_directories_undone_on_failure(storage), lock.acquire():
        _settle_unfinished(storage, tables, lock.check, takes_over=takes_over)
        head = _genesis_head(operation_id, schema, actor, message, lock.token)
        lock.check()
        try:
            _write_record(storage.control, operation_id, actor)
            _create_everything(storage, tables, source, schema, head, lock.check, progress)
        except BaseException:
            _undo(storage, tables, lock)
            raise
        _forget_record(storage, operation_id)
    return head


def finish_init(storage: Storage, tables: Tables, guard: Guard) -> None:
    """Acknowledge, for an init that died after it had made its graph. Under the refs lock, which it held.

    It may have died before its syncs: the record goes only when all of it is safe.
    """
    unfinished = init_records(storage.control)
    if unfinished and manifest_is_whole(tables):
        if storage.location.is_local:
            storage.syncer.sync_tree(storage.location.path)
        for operation_id in unfinished:
            guard()
            _forget_record(storage, operation_id)


def _forget_record(storage: Storage, operation_id: str) -> None:
    """Remove the record of an init that has made its graph; synced, so that it stays removed."""
    storage.control.delete(layout.staging_record(operation_id))
    if storage.location.is_local:
        storage.syncer.barrier(dirs=[storage.location.path / layout.STAGING_DIR])


def _undo(storage: Storage, tables: Tables, lock: Lock) -> None:
    """Remove what a failed init made, unless it is a graph by now, or perhaps another's.

    From the second manifest version on others may be using it. Without the lock,
    another init may have cleared our leftovers and made a graph in this place.
    """
    with contextlib.suppress(OmnigraphError, OSError):
        if manifest_is_whole(tables):
            return
        # On object storage a request of ours may still land; the record says whose it is.
        _clear(storage.control, lock.check, keep_record=not storage.location.is_local)
        if storage.location.is_local:
            # Still under the lock: a rival that waits for it finds the file gone and starts anew.
            shutil.rmtree(storage.location.path / layout.LOCKS_DIR, ignore_errors=True)


def _create_everything(
    storage: Storage,
    tables: Tables,
    source: str,
    schema: Schema,
    head: GraphHead,
    guard: Guard,
    progress: Progress,
) -> None:
    faults.hit("init.recorded")
    updates = _create_tables(tables, list(schema.types()), head, guard, progress)
    faults.hit("init.tables_created")
    write_schema_files(storage.control, source, schema, guard)
    guard()
    create_commit_tables(tables, head, GENESIS_VERSION)
    faults.hit("init.files_written")
    if storage.location.is_local:
        storage.syncer.sync_tree(storage.location.path)
    registrations = [Registration(update.table_key, _path_of(update.table_key)) for update in updates]
    guard()
    created = create_manifest(tables, registrations, updates, head, guard)
    faults.hit("init.made")
    sync_version(tables, created, None)
    first = tables.open(control_table(layout.MANIFEST), 1)
    sync_version(tables, first, created)
    if storage.location.is_local:
        storage.syncer.barrier(dirs=[storage.location.path / layout.MANIFEST, storage.location.path])
    faults.hit("init.synced")


def _create_tables(
    tables: Tables,
    types: Sequence[NodeType | EdgeType],
    head: GraphHead,
    guard: Guard,
    progress: Progress,
) -> list[Update]:
    from omnigraph_core.schema.arrow import table_schema

    updates: list[Update] = []
    for done, entity in enumerate(types, 1):
        key = layout.table_key(entity.kind, entity.name)
        ref = TableRef(key, _path_of(key))
        guard()
        table = create_table(tables, ref, table_schema(entity), head.operation_id)
        metadata = VersionMetadata(
            manifest_path=manifest_path(ref, table.version),
            manifest_size=tables.storage.control.size(manifest_path(ref, table.version)),
            naming_scheme="V2",
            commit_id=head.commit_id,
        )
        updates.append(Update(key, table.version, None, 0, metadata))
        progress(ProgressEvent("create tables", done, len(types), "tables"))
    return updates


def _path_of(table_key: str) -> str:
    return layout.table_path(*layout.split_table_key(table_key))


def _genesis_head(
    operation_id: str, schema: Schema, actor: str, message: str | None, lock_token: int
) -> GraphHead:
    commit = Commit(
        commit_id=new_ulid(),
        parent_commit_id=None,
        merged_parent_commit_id=None,
        actor_id=actor,
        created_at=now_us(),
        operation=Operation.INIT,
        schema_hash=schema_hash(schema),
        message=message,
    )
    return GraphHead(sealed(commit, None), operation_id, Outcome.APPLIED, lock_token)


def _refuse_taken(storage: Storage, state: RootState, *, takes_over: bool) -> None:
    uri = storage.location.uri
    if state is RootState.GRAPH:
        raise GraphExists(f"graph already initialized at {uri}")
    if state is RootState.ORPHANED and not takes_over:
        raise RefusedError(
            f"{uri} has the schema files of an init that died, and nothing else",
            hint="give another directory, or take this one over",
            field="force",
        )
    if state is RootState.FOREIGN:
        raise RefusedError(
            f"{uri} is not empty and is not an OmniGraph graph",
            hint="give a new or an empty directory",
        )


def _settle_unfinished(storage: Storage, tables: Tables, guard: Guard, *, takes_over: bool) -> None:
    """Under the lock: clear an init that died, or acknowledge one that had only its record left."""
    if inspect_root(storage.control) is RootState.UNFINISHED:
        if manifest_is_whole(tables):
            finish_init(storage, tables, guard)
        else:
            _clear(storage.control, guard)
    _refuse_taken(storage, inspect_root(storage.control), takes_over=takes_over)


def manifest_is_whole(tables: Tables) -> bool:
    """Did an init get as far as making the graph exist?

    A graph that was ever published to exists, whatever became of its newest version.
    A doubt (a file that cannot be read) is an error, never a no: a no may be followed by
    clearing the place.
    """
    ref = control_table(layout.MANIFEST)
    newest = next(iter(versions_on_disk(tables, ref)), 0)
    if newest != GENESIS_VERSION:
        return newest > GENESIS_VERSION
    return not is_torn(tables, ref, GENESIS_VERSION)


def _write_record(control: ControlStore, operation_id: str, actor: str) -> None:
    record = StagingRecord(operation_id, INIT_KIND, layout.MAIN_BRANCH, actor)
    control.create(record.path, record.encode())


def _clear(control: ControlStore, guard: Guard, *, keep_record: bool = False) -> None:
    """Remove everything init makes; the record goes last, because it says that this may be done.

    A process that sleeps here past its lease finds out before the next deletion: another may have
    cleared the place, and made a graph in it.
    """
    for name in (layout.MANIFEST, *sorted(_MADE)):
        if control.exists(name):
            control.delete(name, guard)
        else:
            control.delete_prefix(name, guard)
    if not keep_record:
        control.delete_prefix(layout.STAGING_DIR, guard)


# Beside the manifest, which goes first.
_MADE = layout.ROOT_NAMES - {layout.MANIFEST, layout.LOCKS_DIR, layout.STAGING_DIR}


@contextlib.contextmanager
def _made_directories_undone_on_failure(storage: Storage) -> Iterator[None]:
    """Remove the directories this init had to create, when it fails and they are empty again."""
    if not storage.location.is_local:
        yield
        return
    root = storage.location.path
    missing = [folder for folder in (root, *root.parents) if not folder.exists()]
    try:
        yield
    except BaseException:
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
