"""The sidecar: a redo record of one write, on disk from before its first commit until its end.

`__recovery/<operation_id>.json` in the seeds' shape, with what it takes to decide by
identity and to repeat the publish exactly: transaction ids, staged files, the head row,
the branch's identity. A process that can take the branch's lock and finds one has found a
write whose process is dead (or its own).

Its life: created by the writer, replaced once by the recovery that decides about it,
removed by the writer in phase D or by recovery. On object storage each of these may be
tried by a process that slept past its lease, or land late. So every step names the e-tag
of the bytes it follows, and the loser stops. A file that is back after its removal (a
late request, a power cut: removals are not synced) is recognised by the history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from omnigraph_core import layout
from omnigraph_core.errors import BusyError, InternalError
from omnigraph_core.ids import new_ulid, now_us
from omnigraph_core.manifest.rows import GraphHead
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.storage import ControlStore, ObjectChanged, Storage
from omnigraph_core.storage.inside import ForeignEntry
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Table
from omnigraph_core.write.pending import pending_operations
from omnigraph_core.write.plan import TableWrite, WritePlan, WriterKind
from omnigraph_core.write.sidecar_record import (
    Decision,
    Sidecar,
    SidecarTable,
    SidecarUnreadable,
    decode,
    encode,
)


class SidecarTaken(BusyError):
    """Another process has decided about a sidecar, or removed it, since we read it."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was settled by another process in the meantime", hint="try again")
        self.path = path

    def details(self) -> Mapping[str, object]:
        return {"path": self.path}


@dataclass(frozen=True, slots=True)
class StoredSidecar:
    """A sidecar and the e-tag of the very bytes it was read from, or written as."""

    sidecar: Sidecar
    e_tag: str


def describe(plan: WritePlan, head: GraphHead, recovery_commit_id: str) -> Sidecar:
    """The sidecar of a plan that is about to be committed under `head`."""
    base = plan.base.head
    return Sidecar(
        operation_id=plan.operation_id,
        started_at=now_us(),
        on=plan.base.on,
        actor_id=plan.actor,
        writer_kind=plan.kind.value,
        lock_token=head.lock_token,
        tables=tuple(
            SidecarTable(
                table_key=table.ref.key,
                table_path=table.ref.path,
                table_branch=table.ref.branch,
                expected_version=table.base_version,
                post_commit_pin=table.final_version,
                published_version=table.published_version,
                row_count=table.row_count,
                transactions=tuple(write.transaction_uuid for write in table.staged),
                files=tuple(file for write in table.staged for file in write.files),
                fork=table.fork,
                renamed_from=table.renamed_from,
            )
            for table in plan.tables
        ),
        registrations=tuple(plan.registrations),
        tombstones=tuple(plan.tombstones),
        head=head,
        base_head=base.commit_id if base else None,
        base_token=base.lock_token if base else None,
        recovery_commit_id=recovery_commit_id,
        makes_commit=plan.makes_commit,
        base_manifest_version=plan.base.manifest_version,
        schema=plan.schema,
    )


def describe_late_write(current: Snapshot, table: TableWrite, head: Table, lock_token: int) -> Sidecar:
    """A sidecar for versions of ours above the base of `table` whose own sidecar is gone.

    It can only be rolled back.

    It names no transactions, so nothing it finds can look like a finished write.
    """
    if current.head is None:
        raise InternalError("a branch without a head row cannot be recovered")
    pinned = SidecarTable(
        table_key=table.renamed_from or head.ref.key,
        table_path=head.ref.path,
        table_branch=head.ref.branch,
        expected_version=table.base_version,
        post_commit_pin=head.version,
        published_version=table.published_version,
        row_count=0,
        transactions=(),
        files=(),
        fork=table.fork,
    )
    operation_id = new_ulid()
    return Sidecar(
        operation_id=operation_id,
        started_at=now_us(),
        on=current.on,
        actor_id=None,
        writer_kind=WriterKind.LATE_WRITER.value,
        lock_token=lock_token,
        tables=(pinned,),
        registrations=(),
        tombstones=(),
        head=replace(current.head.with_commit(commit_id=new_ulid()), operation_id=operation_id),
        base_head=current.head.commit_id,
        base_token=current.head.lock_token,
        recovery_commit_id=new_ulid(),
        makes_commit=True,
        base_manifest_version=current.manifest_version,
    )


def read_sidecar(control: ControlStore, operation_id: str) -> Sidecar | None:
    """The sidecar, or None when it is gone: its writer finished, or a recovery settled it."""
    stored = read_stored(control, operation_id)
    return None if stored is None or stored.sidecar.settled else stored.sidecar


def read_stored(control: ControlStore, operation_id: str) -> StoredSidecar | None:
    """The same for a process that acts on it, with its e-tag; also one that only has to be deleted."""
    path = layout.sidecar(operation_id)
    try:
        found = control.get(path)
    except ForeignEntry as error:
        raise SidecarUnreadable(path, str(error)) from error
    return None if found is None else StoredSidecar(decode(path, found.data), found.e_tag)


def read_pending(control: ControlStore) -> list[Sidecar]:
    """Those of all writes that have begun and not ended."""
    found = (read_sidecar(control, each) for each in pending_operations(control))
    return [sidecar for sidecar in found if sidecar is not None]


def read_all(control: ControlStore) -> tuple[list[Sidecar], list[SidecarUnreadable]]:
    """The same with those that cannot be read, for people who look and do nothing about them."""
    readable: list[Sidecar] = []
    unreadable: list[SidecarUnreadable] = []
    for each in pending_operations(control):
        try:
            found = read_sidecar(control, each)
        except SidecarUnreadable as error:
            unreadable.append(error)
        else:
            readable += [] if found is None else [found]
    return readable, unreadable


def create_sidecar(control: ControlStore, sidecar: Sidecar) -> StoredSidecar:
    return StoredSidecar(sidecar, control.create(sidecar.path, encode(sidecar)))


def replace_sidecar(control: ControlStore, stored: StoredSidecar, sidecar: Sidecar) -> StoredSidecar:
    """Put another sidecar of the same operation in its place; `SidecarTaken` if it is not what was read."""
    return StoredSidecar(sidecar, _replaced(control, stored, sidecar))


def write_decision(
    control: ControlStore, stored: StoredSidecar, decision: Decision, guard: Guard
) -> StoredSidecar:
    """Record what recovery is about to do, unless another process has come first."""
    decided = replace(stored.sidecar, decision=decision)
    guard()
    return StoredSidecar(decided, _replaced(control, stored, decided))


def forget_sidecar(storage: Storage, stored: StoredSidecar, guard: Guard) -> None:
    """Delete exactly this sidecar; SidecarTaken when it is another one by now, or none.

    A request to delete cannot be conditional on object storage, and may land late. So the
    file is marked as settled first, which is: from then on it does not matter who deletes it.
    """
    control, path = storage.control, stored.sidecar.path
    guard()
    if storage.location.is_local:
        found = control.get(path)
        if found is None or found.e_tag != stored.e_tag:
            raise SidecarTaken(path)
    else:
        _replaced(control, stored, replace(stored.sidecar, settled=True))
    control.delete(path)


def _replaced(control: ControlStore, stored: StoredSidecar, sidecar: Sidecar) -> str:
    try:
        return control.replace(sidecar.path, encode(sidecar), stored.e_tag)
    except ObjectChanged as error:
        raise SidecarTaken(sidecar.path) from error
