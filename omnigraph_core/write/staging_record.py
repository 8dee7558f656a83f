"""The staging record on disk: what it says, and reading it back without trusting it.

It decides which files are deleted, so a record is either understood in full or left alone.
The store writes objects whole (`storage.control`): a record cut short is no trace of a
power cut but damage, and what it would have named are orphans for cleanup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from omnigraph_core import layout
from omnigraph_core.errors import StorageError
from omnigraph_core.fields import Fields
from omnigraph_core.history.sealed import seal, unseal
from omnigraph_core.ids import now_us
from omnigraph_core.jsontext import parse_json
from omnigraph_core.manifest.branch import branch_name
from omnigraph_core.patterns import pattern
from omnigraph_core.records import dataclass
from omnigraph_core.storage import ControlStore

INIT_KIND = "Init"
LOAD_KIND = "Load"
OPTIMIZE_KIND = "Optimize"
SCHEMA_APPLY_KIND = "SchemaApply"
RECORD_VERSION = 1

# A file inside a table or one of its forks: never a table, a fork or a folder of them.
_STAGED_FILE = pattern(
    rf"(?:{layout.NODES_DIR}|{layout.EDGES_DIR})/[0-9a-f]{{16}}/(?:tree/.+/)?(?:data|_deletions|_indices)/.+"
)


class StagingUnreadable(StorageError):
    """A staging record that this OmniGraph cannot act on; it stays where it is."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(
            f"{path} cannot be read as a staging record: {reason}",
            hint="inspect the file; until it is repaired or removed, what it names stays as well",
        )
        self.path = path

    def details(self) -> Mapping[str, object]:
        return {"path": self.path}


@dataclass(frozen=True, slots=True)
class StagingRecord:
    """What a long write is preparing; `paths` are files, or its own folder, below the graph root."""

    operation_id: str
    kind: str
    branch: str
    actor_id: str | None
    paths: tuple[str, ...] = ()
    pinned: tuple[tuple[str, int], ...] = ()
    """Table keys with the versions this write reads; cleanup keeps them."""
    made_from: str | None = None
    """The commit at which this write is about to start the branch, or has started it."""
    made_twin: str | None = None
    """Identity of the twin it made for that branch: the branch is its own while it has this twin."""
    lists: str | None = None
    """A folder of lists of files, one list for each process that writes for this record."""
    started_at: int = field(default_factory=now_us)
    revision: str = ""
    """Another one in every version of the record, because an e-tag may be a hash of the bytes."""

    @property
    def path(self) -> str:
        return layout.staging_record(self.operation_id)

    def encode(self) -> bytes:
        content = {
            "schema_version": RECORD_VERSION,
            "operation_id": self.operation_id,
            "kind": self.kind,
            "branch": self.branch,
            "actor_id": self.actor_id,
            "started_at": str(self.started_at),
            "revision": self.revision,
            "paths": list(self.paths),
            "pinned": [{"table_key": key, "version": version} for key, version in self.pinned],
            "made_from": self.made_from,
            "made_twin": self.made_twin,
            "lists": self.lists,
        }
        return seal(content)

    @classmethod
    def decode(cls, operation_id: str, data: bytes) -> StagingRecord:
        """Read a record back; one that is not entirely as expected is `StagingUnreadable`."""
        path = layout.staging_record(operation_id)
        try:
            return _from_json(operation_id, unseal(data, RECORD_VERSION, always=False))
        except ValueError as error:
            raise StagingUnreadable(path, str(error)) from error


def listed_files(control: ControlStore, operation_id: str, lists: str | None) -> list[str]:
    """Every file that the lists of a record name: JSON arrays of paths below the graph root."""
    found: list[str] = []
    for name in control.list(lists) if lists is not None else ():
        path = f"{lists}/{name}"
        content = control.get(path)
        try:
            if content is not None:
                listed = parse_json(content.data)
                if not isinstance(listed, list):
                    raise ValueError("it is not a list of paths")
                found += [_checked(operation_id, each) for each in listed]
        except ValueError as error:
            raise StagingUnreadable(path, str(error)) from error
    return found


def is_staged_file(path: str) -> bool:
    """Is it a file inside a table or one of its forks: never a table, a fork or a folder of them?"""
    parts = path.split("/")
    return _STAGED_FILE.fullmatch(path) is not None and not {"", ".", ".."} & set(parts)


def _from_json(operation_id: str, content: Fields) -> StagingRecord:
    if content.ulid("operation_id") != operation_id:
        raise content.refuse("operation_id", "that of its file")
    kind = content.text("kind")
    if kind not in (INIT_KIND, LOAD_KIND, OPTIMIZE_KIND, SCHEMA_APPLY_KIND):
        raise content.refuse("kind", "known; upgrade omnigraph first")
    lists = content.optional_text("lists")
    if lists is not None and not lists.startswith(f"{layout.staging_folder(operation_id)}/"):
        raise content.refuse("lists", "inside its folder")
    record = StagingRecord(
        operation_id=operation_id,
        kind=kind,
        branch=branch_name(content, "branch"),
        actor_id=content.optional_text("actor_id"),
        paths=tuple(_checked(operation_id, path) for path in content.texts("paths")),
        pinned=tuple(_pin(entry) for entry in content.objects("pinned")),
        made_from=content.optional_text("made_from"),
        made_twin=content.optional_text("made_twin"),
        lists=lists,
        started_at=content.moment_as_text("started_at"),
        revision=content.optional_text("revision") or "",
    )
    content.end()
    return record


def _pin(entry: Fields) -> tuple[str, int]:
    found = entry.text("table_key"), entry.whole("version")
    entry.end()
    return found


def _checked(operation_id: str, path: Any) -> str:
    """The path, if it is a file of a table or the operation's own folder."""
    if not isinstance(path, str):
        raise ValueError(f"not a path: {path!r:.80}")
    if path != layout.staging_folder(operation_id) and not is_staged_file(path):
        raise ValueError(f"{path!r} is not a file that a write stages")
    return path
