"""Staging records: "these files are being written, leave them alone".

A write that stages more than a moment keeps `__staging/<operation>.json` under a lock
of its own. A record whose lock can be taken belongs to a dead process, and its files
may go; until then cleanup spares them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from omnigraph_core import faults, layout
from omnigraph_core.ids import now_us
from omnigraph_core.jsontext import parse_json
from omnigraph_core.records import dataclass
from omnigraph_core.storage import Storage


@dataclass(frozen=True, slots=True)
class StagingRecord:
    """What a long write is preparing; `paths` are files or prefixes below the graph root."""

    operation_id: str
    kind: str
    branch: str
    actor_id: str | None
    paths: tuple[str, ...]
    pinned: tuple[tuple[str, int], ...]
    """Table keys with the versions this write reads; cleanup keeps them."""
    made_from: str | None = None
    """The commit at which this write is about to start the branch, or has started it."""
    made_branch: str | None = None
    """Identity of the branch it has made."""
    lists: str | None = None
    """A folder of lists of files, one list for each process that writes for this record."""

    def encode(self) -> bytes:
        content = {
            "schema_version": 1,
            "operation_id": self.operation_id,
            "kind": self.kind,
            "branch": self.branch,
            "actor_id": self.actor_id,
            "started_at": str(now_us()),
            "paths": list(self.paths),
            "pinned": [{"table_key": key, "version": version} for key, version in self.pinned],
            "made_from": self.made_from,
            "made_branch": self.made_branch,
            "lists": self.lists,
        }
        return (json.dumps(content, ensure_ascii=False, indent=2) + "\n").encode()


def staging_lock(operation_id: str) -> str:
    return f"staging.{operation_id}"


@contextmanager
def staging(storage: Storage, record: StagingRecord) -> Iterator[None]:
    """Keep the record while the block runs, under its own lock.

    When the block fails the record stays, and so do the files it names: the lock is free
    then, and the next sweep removes both.
    """
    name = staging_lock(record.operation_id)
    with storage.locks.lock(name, doing=record.kind, operation_id=record.operation_id).acquire():
        storage.control.create(layout.staging_record(record.operation_id), record.encode())
        faults.hit("staging.recorded")
        yield
        storage.control.delete(layout.staging_record(record.operation_id))
    storage.locks.forget(name)


def amend(storage: Storage, record: StagingRecord) -> None:
    """Replace a record that is being kept by what has become known since."""
    storage.control.put(layout.staging_record(record.operation_id), record.encode())


ForgetBranch = Callable[[str, str, str | None], None]
"""Told name, start and (if it is known) identity of a branch made for a write that died."""


def sweep_staging(storage: Storage, forget_branch: ForgetBranch) -> list[str]:
    """Remove what dead writers left; returns their operation ids."""
    swept: list[str] = []
    for name in storage.control.list(layout.STAGING_DIR):
        operation_id = name.removesuffix(".json")
        lock = storage.locks.lock(staging_lock(operation_id), doing="sweep staging")
        if not lock.try_acquire():
            continue
        with lock:
            content = _content(storage, operation_id)
            if content.get("lists"):
                _remove_paths(storage, listed_files(storage, str(content["lists"])))
            _remove_paths(storage, [str(path) for path in content.get("paths", [])])
            if content.get("made_from"):
                forget_branch(str(content["branch"]), content["made_from"], content.get("made_branch"))
            storage.control.delete(layout.staging_record(operation_id))
        storage.locks.forget(staging_lock(operation_id))
        swept.append(operation_id)
    return swept


def listed_files(storage: Storage, folder: str) -> list[str]:
    """Every file that the lists in a folder name: JSON arrays of paths below the graph root."""
    found: list[str] = []
    for name in storage.control.list(folder):
        content = storage.control.get(f"{folder}/{name}")
        if content is not None:
            found += [str(path) for path in parse_json(content.data)]
    return found


def _content(storage: Storage, operation_id: str) -> dict[str, Any]:
    """A record as far as it can be read; one that was cut short names nothing."""
    found = storage.control.get(layout.staging_record(operation_id))
    try:
        content = parse_json(found.data) if found is not None else None
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _remove_paths(storage: Storage, paths: Iterable[str]) -> None:
    for path in paths:
        if storage.control.exists(path):
            storage.control.delete(path)
        else:
            storage.control.delete_prefix(path)
