"""The commits of the original: which schema each had, and which can be read no more.

Its own cleanup counts from HEAD and knows no branches, so versions that commits name may be gone. Such
commits are entered into the record of what cleanup has removed. They stay listed, and nobody takes
them for a state or a base.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_core.catalog.files import Catalog, keep_schema
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.history.log import GraphCommit, read_branch_log
from omnigraph_core.history.removed import Floor, read_removals, write_removals
from omnigraph_core.ids import now_us
from omnigraph_core.maintenance.adoption.found import LostCommit
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.original.heads import OriginalHeads
from omnigraph_core.original.reconstruct import SchemaNotKnown
from omnigraph_core.original.record import OriginalRecord, Run, keep_record
from omnigraph_core.records import dataclass
from omnigraph_core.schema import Schema
from omnigraph_core.schema.render import render
from omnigraph_core.storage import ControlStore
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.torn import versions_on_disk


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of the original's commits, by the branch they were made on."""

    schemas: Mapping[str, list[Run]]
    lost: Mapping[Branch, dict[int, LostCommit]]
    versions: Mapping[Branch, set[int]]
    branches: Mapping[str, str]
    """The identities of all but main, by name."""

    @property
    def lost_commits(self) -> tuple[LostCommit, ...]:
        return tuple(each for of_branch in self.lost.values() for each in of_branch.values())


class _Versions:
    """Which versions of which lineages are on disk; each is listed once."""

    def __init__(self, manifest: Manifest) -> None:
        self._tables = manifest.tables
        self._known: dict[TableRef, set[int]] = {}

    def has(self, ref: TableRef, version: int) -> bool:
        if ref not in self._known:
            self._known[ref] = set(versions_on_disk(self._tables, ref))
        return version in self._known[ref]


def read_past(manifest: Manifest, heads: OriginalHeads, branches: list[str]) -> Past:
    """Look at every commit of these branches, on the branch it was made on."""
    on_disk = _Versions(manifest)
    schemas: dict[str, list[Run]] = {}
    lost: dict[Branch, dict[int, LostCommit]] = {}
    versions: dict[Branch, set[int]] = {}
    identities: dict[str, str] = {}
    for name in branches:
        on = manifest.branch(name)
        if on.identity is not None:
            identities[name] = on.identity
        log = read_branch_log(manifest.tables, manifest, name)
        mine = [each for each in log.commits.values() if each.branch == name and each.operation is None]
        for commit in sorted(mine, key=lambda each: each.manifest_version):
            versions.setdefault(on, set()).add(commit.manifest_version)
            found = _look(manifest, heads, on, commit, on_disk)
            if isinstance(found, LostCommit):
                lost.setdefault(on, {})[commit.manifest_version] = found
            _extend(schemas.setdefault(name, []), commit.manifest_version, found)
    return Past(schemas, lost, versions, identities)


def _look(
    manifest: Manifest, heads: OriginalHeads, on: Branch, commit: GraphCommit, on_disk: _Versions
) -> str | LostCommit | None:
    """The hash of its schema; None if nobody can tell that, and a lost commit if it cannot be read."""
    try:
        snapshot = heads.plain_snapshot(on, commit.manifest_version)
        for entry in snapshot.tables.values():
            if not on_disk.has(entry.ref, entry.table_version):
                reason = f"version {entry.table_version} of '{entry.table_key}' is gone"
                return LostCommit(commit.commit_id, reason)
        return heads.hash_of(snapshot)
    except SchemaNotKnown:
        return None
    except OmnigraphError as problem:
        return LostCommit(commit.commit_id, str(problem))


def _extend(runs: list[Run], version: int, found: str | LostCommit | None) -> None:
    hash_ = None if isinstance(found, LostCommit) else found
    if not runs or runs[-1][1] != hash_:
        runs.append((version, hash_))


def keep_past(
    control: ControlStore, past: Past, known: Mapping[str, Schema], catalog: Catalog, by: str
) -> None:
    """Make it last, before the first head row: the schemas, which commit had which, what is lost."""
    for schema_hash, schema in known.items():
        source = catalog.source if schema_hash == catalog.schema_hash else render(schema)
        keep_schema(control, source, schema)
    keep_record(control, OriginalRecord(past.schemas, past.branches))
    floors = [_floor(on, past, by) for on in past.lost]
    if floors:
        write_removals(control, floors, read_removals(control))


def _floor(on: Branch, past: Past, by: str) -> Floor:
    gone = past.lost[on]
    floor = max(gone) + 1
    kept = tuple(sorted(each for each in past.versions[on] if each < floor and each not in gone))
    return Floor(on, floor, kept, now_us(), by)
