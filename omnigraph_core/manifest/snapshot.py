"""Snapshots: what a branch looked like at one manifest version.

`ManifestState` is the reduction of manifest rows; `Snapshot` is what readers get of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from omnigraph_core.errors import NotFoundError, StorageError
from omnigraph_core.manifest.rows import (
    TYPE_HEAD,
    TYPE_TABLE,
    TYPE_TOMBSTONE,
    TYPE_VERSION,
    GraphHead,
    VersionMetadata,
)
from omnigraph_core.records import dataclass
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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every table of the graph at one instant of one branch; reads hold one for their whole run."""

    branch: str
    branch_identity: str | None
    manifest_version: int
    tables: Mapping[str, SubTableEntry]
    head: GraphHead | None

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

    def advanced(self, manifest_version: int, fragment_ids: frozenset[int], rows: pa.Table) -> ManifestState:
        """This state with newer rows on top."""
        added = _reduce(rows)
        versions = dict(self.versions)
        for key, row in added.versions.items():
            if key not in versions or row.version >= versions[key].version:
                versions[key] = row
        tombstones = dict(self.tombstones)
        for key, version in added.tombstones.items():
            tombstones[key] = max(version, tombstones.get(key, 0))
        return ManifestState(
            manifest_version=manifest_version,
            fragment_ids=fragment_ids,
            locations={**self.locations, **added.locations},
            versions=versions,
            tombstones=tombstones,
            head=added.head or self.head,
        )

    def current_version(self, table_key: str) -> int:
        """What a publish compares with: the version that is visible, 0 if none is."""
        return self.versions[table_key].version if self.is_live(table_key) else 0

    def is_live(self, table_key: str) -> bool:
        row = self.versions.get(table_key)
        return row is not None and row.version > self.tombstones.get(table_key, 0)

    def snapshot(self, branch: str, branch_identity: str | None) -> Snapshot:
        tables = {key: self._entry(key) for key in sorted(self.versions) if self.is_live(key)}
        return Snapshot(branch, branch_identity, self.manifest_version, MappingProxyType(tables), self.head)

    def _entry(self, table_key: str) -> SubTableEntry:
        row = self.versions[table_key]
        location = self.locations.get(table_key)
        if location is None:
            raise StorageError(f"__manifest: table '{table_key}' has versions but was never registered")
        return SubTableEntry(table_key, location, row.version, row.branch, row.row_count, row.metadata)


EMPTY_STATE = ManifestState(0, frozenset(), {}, {}, {}, None)


def _reduce(rows: pa.Table) -> ManifestState:
    """Reduce rows set-wise; only one row a table ever becomes a Python object."""
    import pyarrow.compute as pc

    kinds = rows.column("object_type")
    registered = rows.filter(pc.equal(kinds, TYPE_TABLE))
    tombstones = rows.filter(pc.equal(kinds, TYPE_TOMBSTONE))
    heads = rows.filter(pc.equal(kinds, TYPE_HEAD))
    return ManifestState(
        manifest_version=0,
        fragment_ids=frozenset(),
        locations=dict(
            zip(
                registered.column("table_key").to_pylist(),
                registered.column("location").to_pylist(),
                strict=True,
            )
        ),
        versions={
            row["table_key"]: VersionRow(
                version=row["table_version"],
                branch=row["table_branch"],
                row_count=row["row_count"],
                metadata=VersionMetadata.from_json(row["metadata"]),
            )
            for row in _newest_per_key(rows.filter(pc.equal(kinds, TYPE_VERSION)))
        },
        tombstones={row["table_key"]: row["table_version"] for row in _newest_per_key(tombstones)},
        head=GraphHead.from_json(heads.column("metadata")[-1].as_py()) if heads.num_rows else None,
    )


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
    is_last = pa.concat_arrays([pc.not_equal(keys[:-1], keys[1:]), pa.array([True])])
    newest: list[dict[str, Any]] = rows.take(order.filter(is_last)).to_pylist()
    return newest
