"""The staging record on disk: what it says, and reading it back without trusting it.

It decides which files are deleted, so a record is either understood in full or left alone.
The store writes objects whole (`storage.control`): a record cut short is no trace of a
power cut but damage, and what it would have named are orphans for cleanup.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from omnigraph_core import layout
from omnigraph_core.errors import StorageError
from omnigraph_core.ids import now_us
from omnigraph_core.jsontext import parse_json
from omnigraph_core.manifest.branch import name_of
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
        return (json.dumps(content, ensure_ascii=False, indent=2) + "\n").encode()

    @classmethod
    def decode(cls, operation_id: str, data: bytes) -> StagingRecord:
        """Read a record back; one that is not entirely as expected is `StagingUnreadable`."""
        path = layout.staging_record(operation_id)
        try:
            return _from_json(operation_id, parse_json(data))
        except (ValueError, KeyError, TypeError) as error:
            raise StagingUnreadable(path, str(error) or repr(error)) from error


def listed_files(control: ControlStore, operation_id: str, lists: str | None) -> list[str]:
    """Every file that the lists of a record name: JSON arrays of paths below the graph root."""
    found: list[str] = []
    for name in control.list(lists) if lists is not None else ():
        path = f"{lists}/{name}"
        content = control.get(path)
        try:
            if content is not None:
                found += _paths(operation_id, parse_json(content.data))
        except (ValueError, TypeError) as error:
            raise StagingUnreadable(path, str(error)) from error
    return found


def _from_json(operation_id: str, content: Any) -> StagingRecord:
    if not isinstance(content, dict):
        raise ValueError("it is not an object")
    if content["schema_version"] != RECORD_VERSION:
        raise ValueError(f"version {content['schema_version']!r} is not known; upgrade omnigraph first")
    if content["operation_id"] != operation_id:
        raise ValueError(f"it belongs to operation {content['operation_id']!r}")
    if content["kind"] not in (INIT_KIND, LOAD_KIND, OPTIMIZE_KIND, SCHEMA_APPLY_KIND):
        raise ValueError(f"kind {content['kind']!r} is not known; upgrade omnigraph first")
    lists = _text(content, "lists")
    if lists is not None and not lists.startswith(f"{layout.staging_folder(operation_id)}/"):
        raise ValueError(f"its lists are outside its folder: {lists!r}")
    return StagingRecord(
        operation_id=operation_id,
        kind=content["kind"],
        branch=name_of(_text(content, "branch")),
        actor_id=_text(content, "actor_id"),
        paths=tuple(_paths(operation_id, content.get("paths", []))),
        pinned=tuple(_pin(entry) for entry in content.get("pinned", [])),
        made_from=_text(content, "made_from"),
        made_twin=_text(content, "made_twin"),
        lists=lists,
        started_at=int(content["started_at"]),
        revision=_text(content, "revision") or "",
    )


def _text(content: Mapping[str, Any], name: str) -> str | None:
    value = content.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is not a text: {value!r}")
    return value


def _pin(entry: Any) -> tuple[str, int]:
    key, version = entry["table_key"], entry["version"]
    if not isinstance(key, str) or type(version) is not int:
        raise ValueError(f"not a pinned version: {entry!r}")
    return key, version


def _paths(operation_id: str, paths: Any) -> Iterable[str]:
    """The paths, each of them a file of a table or the operation's own folder."""
    if not isinstance(paths, list):
        raise ValueError(f"not a list of paths: {paths!r}")
    for path in paths:
        if not isinstance(path, str) or ".." in path.split("/"):
            raise ValueError(f"not a path: {path!r}")
        if path != layout.staging_folder(operation_id) and _STAGED_FILE.fullmatch(path) is None:
            raise ValueError(f"{path!r} is no file that a write stages")
        yield path
