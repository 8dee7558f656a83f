"""The sidecar: a redo record of one write, on disk from before its first commit until its end.

`__recovery/<operation_id>.json` in the seeds' shape, with what it takes to decide by
identity and to repeat the publish exactly: transaction ids, staged files, the head row,
the branch's identity. Whoever can take the branch's lock and finds one has found a
write whose process is dead (or its own).
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from omnigraph_core import layout
from omnigraph_core.errors import InternalError, StorageError
from omnigraph_core.history.recoveries import TableOutcome
from omnigraph_core.ids import new_ulid, now_us
from omnigraph_core.jsontext import parse_json
from omnigraph_core.manifest.publisher import Publish, Registration, Tombstone, Update
from omnigraph_core.manifest.rows import GraphHead, VersionMetadata
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.records import dataclass
from omnigraph_core.storage import ControlStore
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import StagedFile
from omnigraph_core.write.plan import ForkOrigin, WritePlan

SIDECAR_VERSION = 1


class SidecarUnreadable(StorageError):
    """A sidecar this OmniGraph cannot act on; it stays where it is, and writes stop."""


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

    @property
    def ref(self) -> TableRef:
        return TableRef(self.table_key, self.table_path, self.table_branch)


@dataclass(frozen=True, slots=True)
class Decision:
    """What recovery found and is about to do, recorded before it acts.

    A second recovery after a crash of the first does not decide anew, and audits what
    the first one found.
    """

    kind: str
    outcomes: tuple[TableOutcome, ...]


@dataclass(frozen=True, slots=True)
class Sidecar:
    """Everything recovery needs to finish or to undo a write without its writer."""

    operation_id: str
    started_at: int
    branch: str
    branch_identity: str | None
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
    decision: Decision | None = None

    @property
    def path(self) -> str:
        return layout.sidecar(self.operation_id)

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
        expected |= {entry.table_key: 0 for entry in self.registrations}
        return Publish(
            branch=self.branch,
            head=head or self.head,
            registrations=self.registrations,
            updates=updates,
            tombstones=self.tombstones,
            expected_versions=expected,
            expected_head=self.base_head,
            expected_token=self.base_token,
            branch_identity=self.branch_identity,
        )


def describe(plan: WritePlan, head: GraphHead, recovery_commit_id: str) -> Sidecar:
    """The sidecar of a plan that is about to be committed under `head`."""
    base = plan.base.head
    return Sidecar(
        operation_id=plan.operation_id,
        started_at=now_us(),
        branch=plan.branch,
        branch_identity=plan.base.branch_identity,
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
    )


def describe_late_write(current: Snapshot, head: Table, published: int, lock_token: int) -> Sidecar:
    """A sidecar for versions of ours whose own sidecar is gone: it can only be rolled back.

    It names no transactions, so nothing it finds can look like a finished write.
    """
    if current.head is None:
        raise InternalError("a branch without a head row cannot be recovered")
    pinned = SidecarTable(
        table_key=head.ref.key,
        table_path=head.ref.path,
        table_branch=head.ref.branch,
        expected_version=published,
        post_commit_pin=head.version,
        published_version=published,
        row_count=0,
        transactions=(),
        files=(),
        fork=None,
    )
    operation_id = new_ulid()
    return Sidecar(
        operation_id=operation_id,
        started_at=now_us(),
        branch=current.branch,
        branch_identity=current.branch_identity,
        actor_id=None,
        writer_kind="LateWriter",
        lock_token=lock_token,
        tables=(pinned,),
        registrations=(),
        tombstones=(),
        head=replace(current.head, commit_id=new_ulid(), operation_id=operation_id),
        base_head=current.head.commit_id,
        base_token=current.head.lock_token,
        recovery_commit_id=new_ulid(),
        makes_commit=True,
    )


def encode(sidecar: Sidecar) -> bytes:
    """JSON in the seeds' shape; on main, branches are null."""
    content: dict[str, Any] = {
        "schema_version": SIDECAR_VERSION,
        **asdict(sidecar),
        "started_at": str(sidecar.started_at),
        "branch": None if sidecar.branch == layout.MAIN_BRANCH else sidecar.branch,
        "merge_source_commit_id": sidecar.head.merged_parent_commit_id,
        "additional_registrations": [
            {"table_key": entry.table_key, "table_path": entry.table_path, "table_branch": None}
            for entry in sidecar.registrations
        ],
        "tombstones": [
            {"table_key": entry.table_key, "tombstone_version": entry.version} for entry in sidecar.tombstones
        ],
    }
    del content["registrations"]
    return (json.dumps(content, ensure_ascii=False, indent=2) + "\n").encode()


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
            hint="look at the file; writes are refused until it is repaired or removed",
        ) from error


def _from_json(content: dict[str, Any]) -> Sidecar:
    return Sidecar(
        operation_id=content["operation_id"],
        started_at=int(content["started_at"]),
        branch=content["branch"] or layout.MAIN_BRANCH,
        branch_identity=content["branch_identity"],
        actor_id=content["actor_id"],
        writer_kind=content["writer_kind"],
        lock_token=content["lock_token"],
        tables=tuple(_table_from_json(entry) for entry in content["tables"]),
        registrations=tuple(
            Registration(entry["table_key"], entry["table_path"])
            for entry in content["additional_registrations"]
        ),
        tombstones=tuple(
            Tombstone(entry["table_key"], entry["tombstone_version"]) for entry in content["tombstones"]
        ),
        head=GraphHead(**content["head"]),
        base_head=content["base_head"],
        base_token=content["base_token"],
        recovery_commit_id=content["recovery_commit_id"],
        makes_commit=content["makes_commit"],
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
        files=tuple(StagedFile(file["path"], file["size"]) for file in entry["files"]),
        fork=ForkOrigin(**entry["fork"]) if entry["fork"] else None,
    )


def _decision_from_json(content: dict[str, Any]) -> Decision:
    return Decision(content["kind"], tuple(TableOutcome(**entry) for entry in content["outcomes"]))


def read_sidecar(control: ControlStore, operation_id: str) -> Sidecar | None:
    """The sidecar, or None when it is gone: its writer finished, or somebody recovered it."""
    path = layout.sidecar(operation_id)
    found = control.get(path)
    return None if found is None else decode(path, found.data)


def write_decision(control: ControlStore, sidecar: Sidecar, decision: Decision) -> Sidecar:
    """Record what recovery is about to do."""
    decided = replace(sidecar, decision=decision)
    control.put(sidecar.path, encode(decided))
    return decided
