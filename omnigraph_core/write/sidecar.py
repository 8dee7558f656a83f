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

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from enum import StrEnum
from typing import Any

from omnigraph_core import layout
from omnigraph_core.errors import BusyError, InternalError, StorageError
from omnigraph_core.history.recoveries import TableOutcome
from omnigraph_core.ids import new_ulid, now_us
from omnigraph_core.jsontext import parse_json
from omnigraph_core.manifest.branch import Branch, name_of
from omnigraph_core.manifest.publisher import Publish, Registration, Tombstone, Update
from omnigraph_core.manifest.rows import GraphHead, VersionMetadata
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.storage import ControlStore, ObjectChanged, Storage
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import StagedFile
from omnigraph_core.write.pending import pending_operations
from omnigraph_core.write.plan import ForkOrigin, NewSchema, TableWrite, WritePlan, WriterKind

SIDECAR_VERSION = 1


class SidecarUnreadable(StorageError):
    """A sidecar this OmniGraph cannot act on; it stays where it is, and writes stop."""


class SidecarTaken(BusyError):
    """Another process has decided about a sidecar, or removed it, since we read it."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was settled by another process in the meantime", hint="try again")
        self.path = path

    def details(self) -> Mapping[str, object]:
        return {"path": self.path}


@dataclass(frozen=True, slots=True)
class SidecarTable:
    """One pinned table: where it was, and the transactions that were to move it."""

    table_key: str
    table_path: str
    table_branch: str | None
    expected_version: int
    post_commit_pin: int
    published_version: int
    row_count: int
    transactions: tuple[str, ...]
    files: tuple[StagedFile, ...]
    fork: ForkOrigin | None
    renamed_from: str | None = None

    @property
    def ref(self) -> TableRef:
        return TableRef(self.table_key, self.table_path, self.table_branch)

    @property
    def stays(self) -> bool:
        """Does the table only get another key? Then its lineage is none of this write's business."""
        return not self.transactions and self.post_commit_pin == self.expected_version


class DecisionKind(StrEnum):
    """What recovery does about a write; the text is part of the sidecar format."""

    PUBLISHED = "published"
    ROLL_FORWARD = "roll_forward"
    ROLL_BACK = "roll_back"


@dataclass(frozen=True, slots=True)
class Decision:
    """What recovery found and is about to do, recorded before it acts.

    A second recovery after a crash of the first does not decide anew, and audits what
    the first one found.
    """

    kind: DecisionKind
    outcomes: tuple[TableOutcome, ...]
    lock_token: int = 0
    """Of the recovery that decided. It makes the bytes unique, which object storage tells versions by."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """Everything recovery needs to finish or to undo a write without its writer."""

    operation_id: str
    started_at: int
    on: Branch
    actor_id: str | None
    writer_kind: str
    lock_token: int
    tables: tuple[SidecarTable, ...]
    registrations: tuple[Registration, ...]
    tombstones: tuple[Tombstone, ...]
    head: GraphHead
    base_head: str | None
    base_token: int | None
    recovery_commit_id: str
    makes_commit: bool
    base_manifest_version: int | None = None
    """What the write was to follow in `__manifest`; None in sidecars of older writers."""
    schema: NewSchema | None = None
    """What the branch's schema was to become."""
    decision: Decision | None = None
    settled: bool = False
    """Nothing is left to do but to delete the file, which anybody may do at any time."""

    @property
    def branch(self) -> str:
        return self.on.name

    @property
    def path(self) -> str:
        return layout.sidecar(self.operation_id)

    @property
    def recorded_as(self) -> str:
        """The commit that recovery makes: the write's own when it is rolled forward."""
        forward = self.decision is not None and self.decision.kind is DecisionKind.ROLL_FORWARD
        return self.head.commit_id if forward and self.makes_commit else self.recovery_commit_id

    def to_publish(self, head: GraphHead | None = None) -> Publish:
        """The publish this write was to make, exactly."""
        updates = [
            Update(
                table.table_key,
                table.post_commit_pin,
                table.table_branch,
                table.row_count,
                VersionMetadata(manifest_path(table.ref, table.post_commit_pin), naming_scheme="V2"),
            )
            for table in self.tables
        ]
        expected = {table.table_key: table.published_version for table in self.tables}
        expected |= {entry.table_key: entry.version - 1 for entry in self.tombstones}
        expected |= {entry.table_key: entry.replaces for entry in self.registrations}
        return Publish(
            on=self.on,
            head=head or self.head,
            registrations=self.registrations,
            updates=updates,
            tombstones=self.tombstones,
            expected_versions=expected,
            expected_head=self.base_head,
            expected_token=self.base_token,
        )


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


def encode(sidecar: Sidecar) -> bytes:
    """JSON in the seeds' shape; on main, branches are null."""
    content: dict[str, Any] = {
        "schema_version": SIDECAR_VERSION,
        **asdict(sidecar),
        "started_at": str(sidecar.started_at),
        "branch": sidecar.on.lineage,
        "branch_identity": sidecar.on.identity,
        "head": sidecar.head.to_fields(),
        "merge_source_commit_id": sidecar.head.merged_parent_commit_id,
        "additional_registrations": [
            {**asdict(entry), "table_branch": None} for entry in sidecar.registrations
        ],
        "tombstones": [
            {"table_key": entry.table_key, "tombstone_version": entry.version} for entry in sidecar.tombstones
        ],
    }
    del content["registrations"], content["on"]
    return (json.dumps(content, ensure_ascii=False) + "\n").encode()


def decode(path: str, data: bytes) -> Sidecar:
    """Read a sidecar back; anything unexpected is refused loudly, and the file left alone."""
    try:
        content = parse_json(data)
        if content["schema_version"] != SIDECAR_VERSION:
            raise SidecarUnreadable(
                f"{path} has sidecar version {content['schema_version']}, this OmniGraph knows "
                f"{SIDECAR_VERSION}",
                hint="upgrade omnigraph first",
            )
        return _from_json(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SidecarUnreadable(
            f"{path} cannot be read as a recovery sidecar: {error!r}",
            hint="inspect the file; writes are refused until it is repaired or removed",
        ) from error


def _from_json(content: dict[str, Any]) -> Sidecar:
    return Sidecar(
        operation_id=content["operation_id"],
        started_at=int(content["started_at"]),
        on=Branch(name_of(content["branch"]), content["branch_identity"]),
        actor_id=content["actor_id"],
        writer_kind=content["writer_kind"],
        lock_token=content["lock_token"],
        tables=tuple(_table_from_json(entry) for entry in content["tables"]),
        registrations=tuple(
            Registration(entry["table_key"], entry["table_path"], entry.get("replaces", 0))
            for entry in content["additional_registrations"]
        ),
        tombstones=tuple(
            Tombstone(entry["table_key"], entry["tombstone_version"]) for entry in content["tombstones"]
        ),
        head=GraphHead.from_fields(content["head"]),
        base_head=content["base_head"],
        base_token=content["base_token"],
        recovery_commit_id=content["recovery_commit_id"],
        makes_commit=content["makes_commit"],
        base_manifest_version=content.get("base_manifest_version"),
        schema=NewSchema(**content["schema"]) if content.get("schema") else None,
        settled=content.get("settled", False),
        decision=_decision_from_json(content["decision"]) if content.get("decision") else None,
    )


def _table_from_json(entry: dict[str, Any]) -> SidecarTable:
    return SidecarTable(
        table_key=entry["table_key"],
        table_path=entry["table_path"],
        table_branch=entry["table_branch"],
        expected_version=entry["expected_version"],
        post_commit_pin=entry["post_commit_pin"],
        published_version=entry["published_version"],
        row_count=entry["row_count"],
        transactions=tuple(entry["transactions"]),
        files=tuple(StagedFile(file["path"], file["size"], file.get("digest")) for file in entry["files"]),
        fork=ForkOrigin(**entry["fork"]) if entry["fork"] else None,
        renamed_from=entry.get("renamed_from"),
    )


def _decision_from_json(content: dict[str, Any]) -> Decision:
    return Decision(
        kind=DecisionKind(content["kind"]),
        outcomes=tuple(TableOutcome(**entry) for entry in content["outcomes"]),
        lock_token=content.get("lock_token", 0),
    )


def read_sidecar(control: ControlStore, operation_id: str) -> Sidecar | None:
    """The sidecar, or None when it is gone: its writer finished, or a recovery settled it."""
    stored = read_stored(control, operation_id)
    return None if stored is None or stored.sidecar.settled else stored.sidecar


def read_stored(control: ControlStore, operation_id: str) -> StoredSidecar | None:
    """The same for a process that acts on it, with its e-tag; also one that only has to be deleted."""
    path = layout.sidecar(operation_id)
    found = control.get(path)
    return None if found is None else StoredSidecar(decode(path, found.data), found.e_tag)


def read_pending(control: ControlStore) -> list[Sidecar]:
    """Those of all writes that have begun and not ended."""
    found = (read_sidecar(control, each) for each in pending_operations(control))
    return [sidecar for sidecar in found if sidecar is not None]


def create_sidecar(control: ControlStore, sidecar: Sidecar) -> StoredSidecar:
    return StoredSidecar(sidecar, control.create(sidecar.path, encode(sidecar)))


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
