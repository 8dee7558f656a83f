"""The sidecar of an adoption: from before its first change until after its last.

It is there for three. The original refuses a graph with a sidecar of a version that it does not know,
so it sees nothing half adopted. The next `adopt` finds that one has begun, and repeats every step. And
once main has its head row the graph is ours: then recovery finishes what is left, like that of any
write whose publish has landed.

Until main has its head row nobody but `adopt` acts on it, because no other command may write.
"""

from __future__ import annotations

from omnigraph_core import layout
from omnigraph_core.catalog.files import Catalog
from omnigraph_core.ids import new_ulid, now_us
from omnigraph_core.manifest.branch import MAIN
from omnigraph_core.manifest.commit import Commit
from omnigraph_core.manifest.rows import GraphHead, Outcome
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.storage import ControlStore
from omnigraph_core.write.actors import Signature
from omnigraph_core.write.plan import NewSchema, WriterKind
from omnigraph_core.write.sidecar import StoredSidecar, create_sidecar, read_stored, replace_sidecar
from omnigraph_core.write.sidecar_record import Sidecar, SidecarUnreadable


def is_adoption(control: ControlStore, name: str) -> bool:
    """Is this file of the recovery directory the record of an adoption?"""
    if not name.endswith(".json"):
        return False
    try:
        found = read_stored(control, name.removesuffix(".json"))
    except SidecarUnreadable:
        return False
    return found is None or found.sidecar.writer_kind == WriterKind.ADOPT


def begun(control: ControlStore) -> StoredSidecar | None:
    """The record of an adoption that has begun and not ended."""
    for name in sorted(control.list(layout.RECOVERY_DIR)):
        if name.endswith(".json") and is_adoption(control, name):
            return read_stored(control, name.removesuffix(".json"))
    return None


def begin(
    control: ControlStore, main: Snapshot, catalog: Catalog, by: Signature, token: int
) -> StoredSidecar:
    """Write the record, in the place of one that is there: nobody is acting on that, we hold all locks."""
    earlier = begun(control)
    operation_id = new_ulid() if earlier is None else earlier.sidecar.operation_id
    sidecar = _sidecar(operation_id, main, catalog, by, token)
    if earlier is None:
        return create_sidecar(control, sidecar)
    return replace_sidecar(control, earlier, sidecar)


def _sidecar(operation_id: str, main: Snapshot, catalog: Catalog, by: Signature, token: int) -> Sidecar:
    parent = main.head
    commit = Commit(
        commit_id=new_ulid(),
        parent_commit_id=parent.commit_id if parent else None,
        merged_parent_commit_id=None,
        actor_id=by.actor,
        created_at=max(now_us(), parent.created_at + 1 if parent else 0),
        operation=WriterKind.ADOPT.operation,
        schema_hash=catalog.schema_hash,
        message=by.message,
    )
    return Sidecar(
        operation_id=operation_id,
        started_at=now_us(),
        on=MAIN,
        actor_id=by.actor,
        writer_kind=WriterKind.ADOPT.value,
        lock_token=token,
        tables=(),
        registrations=(),
        tombstones=(),
        head=GraphHead(commit, operation_id, Outcome.APPLIED, token),
        base_head=parent.commit_id if parent else None,
        base_token=None,
        recovery_commit_id=new_ulid(),
        makes_commit=True,
        base_manifest_version=main.manifest_version,
        schema=NewSchema(catalog.schema_hash, catalog.source),
    )
