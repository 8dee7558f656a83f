"""Snapshots: what a branch looked like at one manifest version.

`ManifestState` is the reduction of manifest rows; `Snapshot` is what readers get of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from omnigraph_core.errors import NotFoundError, StorageError
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.rows import (
    TYPE_HEAD,
    TYPE_TABLE,
    TYPE_TOMBSTONE,
    TYPE_VERSION,
    GraphHead,
    Repeated,
    VersionMetadata,
    generation_of,
)
from omnigraph_core.manifest.seal import TableState
from omnigraph_core.records import dataclass
from omnigraph_core.tables.fence import RowPlace
from omnigraph_core.tables.refs import TableRef

if TYPE_CHECKING:
    import pyarrow as pa

# All a reduction needs. Filtering on object_type would be slower than reading it.
STATE_COLUMNS = (
    "object_type",
    "location",
    "metadata",
    "table_key",
    "table_version",
    "table_branch",
    "row_count",
)


@dataclass(frozen=True, slots=True)
class SubTableEntry:
    """One table as a snapshot pins it. `table_branch` names the lineage that owns the data."""

    table_key: str
    table_path: str
    table_version: int
    table_branch: str | None
    row_count: int
    metadata: VersionMetadata

    @property
    def ref(self) -> TableRef:
        return TableRef(self.table_key, self.table_path, self.table_branch)


def table_state(entry: SubTableEntry) -> TableState:
    """What the digest of a state is made of."""
    return (entry.table_key, entry.table_path, entry.table_branch, entry.table_version, entry.row_count)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every table of the graph at one instant of one branch; reads hold one for their whole run."""

    on: Branch
    manifest_version: int
    tables: Mapping[str, SubTableEntry]
    head: GraphHead | None
    called: str | None = None
    """The name of the branch, if it was renamed."""

    @property
    def branch(self) -> str:
        return self.on.name

    @property
    def shown_branch(self) -> str:
        """What people call the branch."""
        return self.called or self.branch

    def foreign_tables(self) -> list[str]:
        """Tables of which the Rust original published a version after the graph was adopted.

        Every publish of ours names its commit in the rows of its versions, and an adoption publishes
        every table that a branch owns. So a row without a commit is a later one of the original's.
        """
        if self.head is None or self.head.is_original:
            return []
        own = (each for each in self.tables.values() if each.table_branch == self.on.lineage)
        return [each.table_key for each in own if each.metadata.commit_id is None]

    def entry(self, table_key: str) -> SubTableEntry:
        try:
            return self.tables[table_key]
        except KeyError:
            raise NotFoundError(f"there is no table '{table_key}' on branch '{self.branch}'") from None


@dataclass(frozen=True, slots=True)
class VersionRow:
    """The newest `table_version` row of a key."""

    version: int
    branch: str | None
    row_count: int
    metadata: VersionMetadata


@dataclass(frozen=True, slots=True)
class ManifestState:
    """The reduction of all rows up to one manifest version.

    Rows only ever get added or superseded by a row with the same key and a higher
    version, so a state plus the rows of newer fragments is the newer state.
    """

    manifest_version: int
    fragment_ids: frozenset[int]
    locations: Mapping[str, str]
    versions: Mapping[str, VersionRow]
    tombstones: Mapping[str, int]
    head: GraphHead | None
    repeated: Mapping[str, Repeated] = MappingProxyType({})
    """The keys that were registered more than once. Versions and tombstones of an earlier
    registration are of another table that had the name; they do not count."""
    head_at: RowPlace | None = None
    """Where the head row is, if the rows were read with their places."""

    def advanced(self, manifest_version: int, fragment_ids: frozenset[int], rows: pa.Table) -> ManifestState:
        """This state with newer rows on top."""
        added = _reduce(rows, self.repeated)
        anew = {key for key, now in added.repeated.items() if now != self.repeated.get(key)}
        versions = {key: row for key, row in self.versions.items() if key not in anew}
        for key, row in added.versions.items():
            if key not in versions or row.version >= versions[key].version:
                versions[key] = row
        tombstones = {key: version for key, version in self.tombstones.items() if key not in anew}
        for key, version in added.tombstones.items():
            tombstones[key] = max(version, tombstones.get(key, 0))
        if rows.num_rows and added.head is None and (self.head or _is_ours(added)):
            raise StorageError("__manifest is damaged: its graph_head row is gone")
        return ManifestState(
            manifest_version=manifest_version,
            fragment_ids=fragment_ids,
            locations={**self.locations, **added.locations},
            versions=versions,
            tombstones=tombstones,
            head=added.head or self.head,
            repeated=added.repeated,
            head_at=added.head_at if added.head else self.head_at,
        )

    def published(
        self, manifest_version: int, fragment_ids: frozenset[int], rows: pa.Table, head_at: RowPlace
    ) -> ManifestState:
        """This state after a publish of these rows, with the head row first and all others new.

        Most are two rows: a head, and a version that follows the one that is known.
        """
        head, *others = rows.to_pylist()
        if any(row["object_type"] != TYPE_VERSION or row["table_key"] in self.repeated for row in others):
            return replace(self.advanced(manifest_version, fragment_ids, rows), head_at=head_at)
        return replace(
            self,
            manifest_version=manifest_version,
            fragment_ids=fragment_ids,
            versions={**self.versions, **{row["table_key"]: _version_row(row) for row in others}},
            head=GraphHead.from_json(head["metadata"]),
            head_at=head_at,
        )

    def generation(self, table_key: str) -> int:
        """How often the key was registered; 0 for one that never was."""
        if table_key not in self.locations:
            return 0
        return self.repeated[table_key].generation if table_key in self.repeated else 1

    @property
    def paths(self) -> dict[str, str]:
        """Every place where this branch ever had a table, with a key it had: dropped ones, too."""
        earlier = {path: key for key, found in self.repeated.items() for path in found.earlier}
        return earlier | {path: key for key, path in self.locations.items()}

    def has_no_row_of(self, table_key: str, version: int) -> bool:
        """Is it certain that this version of the table was never published here?"""
        known = self.versions.get(table_key)
        return table_key not in self.repeated and (known is None or version > known.version)

    def current_version(self, table_key: str) -> int:
        """What a publish compares with: the version that is visible, 0 if none is."""
        return self.versions[table_key].version if self.is_live(table_key) else 0

    def is_live(self, table_key: str) -> bool:
        row = self.versions.get(table_key)
        return row is not None and row.version > self.tombstones.get(table_key, 0)

    def snapshot(self, branch: Branch) -> Snapshot:
        tables = {key: self._entry(key) for key in sorted(self.versions) if self.is_live(key)}
        return Snapshot(branch, self.manifest_version, MappingProxyType(tables), self.head)

    def _entry(self, table_key: str) -> SubTableEntry:
        row = self.versions[table_key]
        location = self.locations.get(table_key)
        if location is None:
            raise StorageError(f"__manifest: table '{table_key}' has versions but was never registered")
        return SubTableEntry(table_key, location, row.version, row.branch, row.row_count, row.metadata)


class RowsReappeared(StorageError):
    """Two rows of one object are visible, where each publish replaces the one before."""

    def __init__(self, object_type: str) -> None:
        super().__init__(
            f"__manifest is damaged: rows of type '{object_type}' that were replaced are visible again",
            hint="a file in __manifest/_deletions is lost or changed; restore it from a backup",
        )


EMPTY_STATE = ManifestState(0, frozenset(), {}, {}, {}, None)


def _reduce(rows: pa.Table, known: Mapping[str, Repeated]) -> ManifestState:
    """Reduce rows set-wise; only one row a table ever becomes a Python object.

    But for keys that were registered more than once: of theirs, every row has to be looked at.
    `known` are those so far.
    """
    import pyarrow.compute as pc

    kinds = rows.column("object_type")
    registered = rows.filter(pc.equal(kinds, TYPE_TABLE))
    heads = rows.filter(pc.equal(kinds, TYPE_HEAD))
    keys, places = (registered.column(name).to_pylist() for name in ("table_key", "location"))
    locations = dict(zip(keys, places, strict=True))
    if heads.num_rows > 1 or len(locations) < len(keys):
        raise RowsReappeared(TYPE_HEAD if heads.num_rows > 1 else TYPE_TABLE)
    repeated = {**known, **_repeated(registered)}
    versions, tombstones = (
        _current(rows.filter(pc.equal(kinds, kind)), repeated) for kind in (TYPE_VERSION, TYPE_TOMBSTONE)
    )
    return ManifestState(
        manifest_version=0,
        fragment_ids=frozenset(),
        locations=locations,
        versions={row["table_key"]: _version_row(row) for row in _newest_per_key(versions)},
        tombstones={row["table_key"]: row["table_version"] for row in _newest_per_key(tombstones)},
        head=GraphHead.from_json(heads.column("metadata")[-1].as_py()) if heads.num_rows else None,
        repeated=repeated,
        head_at=_place(heads),
    )


def _version_row(row: Mapping[str, Any]) -> VersionRow:
    return VersionRow(
        version=row["table_version"],
        branch=row["table_branch"],
        row_count=row["row_count"],
        metadata=VersionMetadata.from_json(row["metadata"]),
    )


def _place(heads: pa.Table) -> RowPlace | None:
    if not heads.num_rows or "_rowaddr" not in heads.column_names:
        return None
    return RowPlace(heads.column("_rowaddr")[0].as_py(), heads.column("_rowid")[0].as_py())


def _repeated(registered: pa.Table) -> dict[str, Repeated]:
    """The keys among these `table` rows that were registered before."""
    again = registered.filter(registered.column("metadata").is_valid())
    pairs = zip(again.column("table_key").to_pylist(), again.column("metadata").to_pylist(), strict=True)
    return {key: Repeated.from_json(metadata) for key, metadata in pairs}


def _current(rows: pa.Table, repeated: Mapping[str, Repeated]) -> pa.Table:
    """The rows without those of an earlier generation of their key."""
    import pyarrow as pa

    if not repeated or not rows.num_rows:
        return rows
    keys, metadata = (rows.column(name).to_pylist() for name in ("table_key", "metadata"))
    counts = [
        key not in repeated or generation_of(text) == repeated[key].generation
        for key, text in zip(keys, metadata, strict=True)
    ]
    return rows.filter(pa.array(counts, pa.bool_()))


def _is_ours(state: ManifestState) -> bool:
    """Did a publish with a head row write any of these rows? Other writers of the format know none."""
    return any(row.metadata.commit_id for row in state.versions.values())


def _newest_per_key(rows: pa.Table) -> list[dict[str, Any]]:
    """The row with the highest table_version of each table_key.

    In Arrow from end to end: giving it a NumPy array makes it load all of `numpy.ma`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if rows.num_rows == 0:
        return []
    order = pc.sort_indices(rows, sort_keys=[("table_key", "ascending"), ("table_version", "ascending")])
    keys = rows.column("table_key").combine_chunks().take(order)
    is_other = pc.not_equal(keys[:-1], keys[1:])
    versions = rows.column("table_version").combine_chunks().take(order)
    if pc.any(pc.and_not(pc.equal(versions[:-1], versions[1:]), is_other)).as_py():
        raise RowsReappeared(rows.column("object_type")[0].as_py())
    is_last = pa.concat_arrays([is_other, pa.array([True])])
    newest: list[dict[str, Any]] = rows.take(order.filter(is_last)).to_pylist()
    return newest
