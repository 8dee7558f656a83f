"""The sidecar on disk: what it says, and reading it back without trusting it.

It decides which versions are published or undone and which tables are removed, so it is understood
in full or left alone. `sidecar` has its life.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from omnigraph_core import layout
from omnigraph_core.errors import StorageError
from omnigraph_core.fields import Fields
from omnigraph_core.history.recoveries import TableOutcome
from omnigraph_core.history.sealed import seal, unseal
from omnigraph_core.jsontext import parse_json
from omnigraph_core.manifest.branch import Branch, branch_name, name_of
from omnigraph_core.manifest.request import Publish, Registration, Tombstone, Update
from omnigraph_core.manifest.rows import GraphHead, VersionMetadata
from omnigraph_core.patterns import pattern
from omnigraph_core.records import dataclass, fields_of
from omnigraph_core.tables.durability import manifest_path
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.staged import StagedFile
from omnigraph_core.write.plan import ForkOrigin, NewSchema, WriterKind
from omnigraph_core.write.staging_record import is_staged_file

SIDECAR_VERSION = 2
_FIRST_VERSION = 1
"""It says the same. The Rust original would take it for its own, roll the write back and remove the
file; it refuses version 2 before it touches anything."""

_SCHEMA_HASH = pattern(r"sha256:[0-9a-f]{64}")


class SidecarUnreadable(StorageError):
    """A sidecar this OmniGraph cannot act on; it stays where it is, and writes to its branch stop."""

    def __init__(self, path: str, reason: str, claims: Branch | None = None) -> None:
        super().__init__(
            f"{path} cannot be read as a recovery sidecar: {reason}",
            hint="inspect the file; writes are refused until it is repaired or removed",
        )
        self.path = path
        self.claims = claims
        """The branch it says it is of, if it says that much. It may be wrong there, too."""

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


def encode(sidecar: Sidecar) -> bytes:
    """JSON in the seeds' shape; on main, branches are null."""
    content: dict[str, Any] = {
        "schema_version": SIDECAR_VERSION,
        **fields_of(sidecar),
        "started_at": str(sidecar.started_at),
        "branch": sidecar.on.lineage,
        "branch_identity": sidecar.on.identity,
        "head": sidecar.head.to_fields(),
        "merge_source_commit_id": sidecar.head.merged_parent_commit_id,
        "additional_registrations": [
            {**fields_of(entry), "table_branch": None} for entry in sidecar.registrations
        ],
        "tombstones": [
            {"table_key": entry.table_key, "tombstone_version": entry.version} for entry in sidecar.tombstones
        ],
    }
    del content["registrations"], content["on"]
    return seal(content, indent=None)


def decode(path: str, data: bytes) -> Sidecar:
    """Read a sidecar back; anything unexpected is refused loudly, and the file left alone."""
    try:
        return _sidecar(path, unseal(data, _version(data), always=False))
    except ValueError as error:
        raise SidecarUnreadable(path, str(error), _claimed_branch(data)) from error


def _version(data: bytes) -> int:
    """The version that is to be understood."""
    found = parse_json(data)
    is_first = isinstance(found, dict) and found.get("schema_version") == _FIRST_VERSION
    return _FIRST_VERSION if is_first else SIDECAR_VERSION


def _claimed_branch(data: bytes) -> Branch | None:
    try:
        found = parse_json(data)
        content = Fields(found)
        lineage = _optional_line(content, "branch")
        identity = content.optional_text("branch_identity")
    except ValueError:
        return None
    says = "branch" in found and "branch_identity" in found
    return Branch(name_of(lineage), identity) if says else None


def _sidecar(path: str, content: Fields) -> Sidecar:
    operation_id = content.ulid("operation_id")
    if layout.sidecar(operation_id) != path:
        raise content.refuse("operation_id", "that of its file")
    lineage = _optional_line(content, "branch")
    head = GraphHead.from_record(content.object("head"))
    if content.optional_text("merge_source_commit_id") != head.merged_parent_commit_id:
        raise content.refuse("merge_source_commit_id", "that of its head row")
    kind = content.text("writer_kind")
    if kind not in list(WriterKind):
        raise content.refuse("writer_kind", "a kind of write that is known; upgrade omnigraph first")
    schema, decision = content.optional_object("schema"), content.optional_object("decision")
    sidecar = Sidecar(
        operation_id=operation_id,
        started_at=_time(content),
        on=Branch(name_of(lineage), content.optional_text("branch_identity")),
        actor_id=content.optional_text("actor_id"),
        writer_kind=kind,
        lock_token=content.whole("lock_token"),
        tables=tuple(_table(each, kind) for each in content.objects("tables")),
        registrations=tuple(_registration(each) for each in content.objects("additional_registrations")),
        tombstones=tuple(_tombstone(each) for each in content.objects("tombstones")),
        head=head,
        base_head=content.optional_text("base_head"),
        base_token=content.optional_whole("base_token"),
        recovery_commit_id=content.ulid("recovery_commit_id"),
        makes_commit=content.flag("makes_commit"),
        base_manifest_version=content.optional_whole("base_manifest_version"),
        schema=None if schema is None else _schema(schema),
        settled=content.flag("settled", default=False),
        decision=None if decision is None else _decision(decision),
    )
    content.end()
    return sidecar


def _table(content: Fields, writer_kind: str) -> SidecarTable:
    key, path = _key_and_path(content)
    fork = content.optional_object("fork")
    table = SidecarTable(
        table_key=key,
        table_path=path,
        table_branch=_optional_line(content, "table_branch"),
        expected_version=content.whole("expected_version"),
        post_commit_pin=content.whole("post_commit_pin"),
        published_version=content.whole("published_version"),
        row_count=content.whole("row_count"),
        transactions=content.texts("transactions"),
        files=tuple(_file(each, path) for each in content.objects("files")),
        fork=None if fork is None else _fork(fork),
        renamed_from=None if content.optional_text("renamed_from") is None else _key(content, "renamed_from"),
    )
    content.end()
    moved = table.post_commit_pin - table.expected_version
    if moved != len(table.transactions) and (writer_kind != WriterKind.LATE_WRITER or moved < 0):
        raise content.refuse("post_commit_pin", "the version that its transactions lead to")
    return table


def _file(content: Fields, table_path: str) -> StagedFile:
    path = content.text("path")
    if not path.startswith(f"{table_path}/") or not is_staged_file(path):
        raise content.refuse("path", "a file of its table")
    file = StagedFile(path, content.whole("size"), content.optional_text("digest"))
    content.end()
    return file


def _fork(content: Fields) -> ForkOrigin:
    fork = ForkOrigin(_optional_line(content, "parent_branch"), content.whole("parent_version"))
    content.end()
    return fork


def _registration(content: Fields) -> Registration:
    key, path = _key_and_path(content)
    if content.optional_text("table_branch") is not None:
        raise content.refuse("table_branch", "null")
    found = Registration(key, path, content.whole("replaces", default=0))
    content.end()
    return found


def _tombstone(content: Fields) -> Tombstone:
    found = Tombstone(_key(content, "table_key"), content.whole("tombstone_version"))
    content.end()
    return found


def _schema(content: Fields) -> NewSchema:
    found = NewSchema(content.text("schema_hash"), content.text("source"))
    if _SCHEMA_HASH.fullmatch(found.schema_hash) is None:
        raise content.refuse("schema_hash", "the hash of a schema")
    content.end()
    return found


def _decision(content: Fields) -> Decision:
    outcomes = tuple(_outcome(each) for each in content.objects("outcomes"))
    found = Decision(DecisionKind(content.text("kind")), outcomes, content.whole("lock_token", default=0))
    content.end()
    return found


def _outcome(content: Fields) -> TableOutcome:
    found = TableOutcome.from_record(content)
    content.end()
    return found


def _key_and_path(content: Fields) -> tuple[str, str]:
    """A table of this graph: never a folder of tables, nor anything outside."""
    key, path = _key(content, "table_key"), content.text("table_path")
    if not layout.is_table_path(layout.split_table_key(key)[0], path):
        raise content.refuse("table_path", "the place of a table")
    return key, path


def _key(content: Fields, name: str) -> str:
    key = content.text(name)
    layout.split_table_key(key)
    return key


def _optional_line(content: Fields, name: str) -> str | None:
    return None if content.optional_text(name) is None else branch_name(content, name)


def _time(content: Fields) -> int:
    """In the seeds' shape a time is a text."""
    text = content.text("started_at")
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise content.refuse("started_at", "a time")
    return int(text)
