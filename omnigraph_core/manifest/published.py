"""Every version of every table that a branch ever published, with the commit that published it.

A publish adds rows and leaves those of older versions in place, and a new branch starts with the rows
of the one it was made from. So the newest manifest of a branch knows which commit made which
version, all the way back along first parents, also where cleanup has removed the commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph_core.manifest.rows import TYPE_TABLE, TYPE_VERSION, VersionMetadata
from omnigraph_core.records import dataclass
from omnigraph_core.tables.dataset import Table
from omnigraph_core.tables.refs import TableRef

_COLUMNS = ("object_type", "location", "metadata", "table_key", "table_version", "table_branch", "row_count")


@dataclass(frozen=True, slots=True)
class Published:
    """One version of one table. A write that makes no commit (of an index) is under the commit before it."""

    table_key: str
    table_path: str
    table_version: int
    table_branch: str | None
    row_count: int
    commit_id: str | None
    generation: int
    """Of the table key. Rows of a new dataset replace those that an earlier one had for the same numbers."""

    @property
    def ref(self) -> TableRef:
        return TableRef(self.table_key, self.table_path, self.table_branch)


def read_published(manifest: Table) -> tuple[Published, ...]:
    """All of them, in no order."""
    rows = manifest.read(_COLUMNS).to_pylist()
    locations = {row["table_key"]: row["location"] for row in rows if row["object_type"] == TYPE_TABLE}
    return tuple(_published(row, locations) for row in rows if row["object_type"] == TYPE_VERSION)


def _published(row: Mapping[str, Any], locations: Mapping[str, str]) -> Published:
    key, branch = row["table_key"], row["table_branch"]
    metadata = VersionMetadata.from_json(row["metadata"])
    return Published(
        table_key=key,
        table_path=_path(metadata.manifest_path, branch) or locations[key],
        table_version=row["table_version"],
        table_branch=branch,
        row_count=row["row_count"],
        commit_id=metadata.commit_id,
        generation=metadata.generation,
    )


def _path(manifest_path: str, branch: str | None) -> str:
    """The place of the dataset, which the row says: its key may have been given to another one since."""
    directory = manifest_path.partition("/_versions/")[0]
    return directory if branch is None else directory.removesuffix(f"/tree/{branch}")
