"""`__original.json`: what a graph was before it was adopted.

The original's commits do not name their schema. What was found out about it when the graph was adopted
is kept here: per branch, the manifest versions from which on it had which schema, by our hash. The
schemas themselves are in `__schema/`, like all others. So are the identities of the branches: nothing else
says that they were there, should the ref of one be lost. The file is written before the first head row
and never changes afterwards; it goes with no cleanup.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

from omnigraph_core import layout
from omnigraph_core.errors import StorageError
from omnigraph_core.fields import WHOLE_MAX
from omnigraph_core.history.sealed import seal, unseal
from omnigraph_core.jsontext import parse_json
from omnigraph_core.records import dataclass
from omnigraph_core.storage import ControlStore, ObjectExists
from omnigraph_core.tables.fork_refs import is_identity

RECORD_VERSION = 1

Run = tuple[int, str | None]
"""A manifest version, and the schema from there on; None if nobody can tell."""


class OriginalRecordDamaged(StorageError):
    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{layout.ORIGINAL_RECORD} cannot be read: {reason}",
            hint="restore it from a backup; only commits from before the adoption need it",
        )


@dataclass(frozen=True, slots=True)
class OriginalRecord:
    """The schemas of the commits that the original made."""

    schemas: Mapping[str, Sequence[Run]]
    branches: Mapping[str, str] = field(default_factory=dict)
    """Their identities, by name; empty in a record of an older OmniGraph."""

    def knows(self, branch: str, manifest_version: int) -> bool:
        """Did a branch of this name have a commit of the original at this version, or before?"""
        runs = self.schemas.get(branch, ())
        return bool(runs) and runs[0][0] <= manifest_version

    def schema_at(self, branch: str, manifest_version: int) -> str | None:
        """The hash of the schema that a branch had then; None if nobody could tell."""
        runs = self.schemas[branch]
        return runs[bisect_right([start for start, _ in runs], manifest_version) - 1][1]

    def encode(self) -> bytes:
        schemas = {name: [list(run) for run in runs] for name, runs in self.schemas.items()}
        content = {"schema_version": RECORD_VERSION, "schemas": schemas, "branches": dict(self.branches)}
        return seal(content)


def keep_record(control: ControlStore, record: OriginalRecord) -> None:
    """Write the record unless it is there: an adoption that was repeated finds out the same."""
    with suppress(ObjectExists):
        control.create(layout.ORIGINAL_RECORD, record.encode())


def read_record(control: ControlStore) -> OriginalRecord | None:
    """The record; None in a graph that was never adopted."""
    found = control.get(layout.ORIGINAL_RECORD)
    if found is None:
        return None
    try:
        unseal(found.data, RECORD_VERSION)
        content = parse_json(found.data)
        schemas, branches = content.get("schemas"), content.get("branches", {})
        if not isinstance(schemas, dict):
            raise ValueError("schemas is not an object")
        if not isinstance(branches, dict) or not all(map(_is_identity, branches.values())):
            raise ValueError("branches is not an object of identities")
        return OriginalRecord({name: _runs(name, runs) for name, runs in schemas.items()}, branches)
    except ValueError as error:
        raise OriginalRecordDamaged(str(error)) from error


def _is_identity(found: object) -> bool:
    return isinstance(found, str) and is_identity(found)


def _runs(branch: str, found: object) -> list[Run]:
    """Versions in ascending order, each with a hash or null."""
    runs: list[Any] = found if isinstance(found, list) else [None]
    if not all(isinstance(run, list) and len(run) == 2 for run in runs):
        raise ValueError(f"the runs of '{branch}' are not pairs")
    starts, hashes = [run[0] for run in runs], [run[1] for run in runs]
    if any(type(start) is not int or not 0 <= start <= WHOLE_MAX for start in starts):
        raise ValueError(f"a run of '{branch}' does not begin at a version")
    if starts != sorted(starts) or not all(each is None or isinstance(each, str) for each in hashes):
        raise ValueError(f"the runs of '{branch}' are not in order, or one has no schema")
    return list(zip(starts, hashes, strict=True))
