"""Removing versions of a lineage, exactly those that are named, and the files that only they use.

Lance decides about files: what any version that stays refers to stays, and so does what a fork was
made from. Files that no version refers to are spared for seven days, because somebody may be
about to commit them. HEAD is never removed. Other lineages are not touched.

Lance knows of no reader, no branch that inherits a version without a fork, no staged write:
which versions may go is for the caller to know (`maintenance/keep.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

from omnigraph_core.errors import StorageError
from omnigraph_core.records import dataclass
from omnigraph_core.tables.commit import Guard
from omnigraph_core.tables.dataset import Table, Tables
from omnigraph_core.tables.durability import version_of
from omnigraph_core.tables.failures import lance_failures
from omnigraph_core.tables.refs import TableRef

_DETACHED_PREFIX = "d"
_SUFFIX = ".manifest"


@dataclass(frozen=True, slots=True)
class Collected:
    """What went, or would go."""

    versions: int = 0
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class VersionTimes:
    """When the versions of a lineage were written, by the clock of the store."""

    written: Mapping[int, float]
    detached: Mapping[str, float]
    """Paths of manifests that belong to no line of versions: previews of writes."""

    def superseded_at(self) -> dict[int, float]:
        """Of every version but the newest: when the next one was written."""
        numbers = sorted(self.written)
        return {version: self.written[after] for version, after in pairwise(numbers)}


def version_times(tables: Tables, ref: TableRef) -> VersionTimes:
    """One listing."""
    folder = f"{ref.directory}/_versions"
    written: dict[int, float] = {}
    detached: dict[str, float] = {}
    for name, when in tables.storage.control.written_at(folder).items():
        version = version_of(name)
        if version is not None:
            written[version] = when
        elif _is_detached(name):
            detached[f"{folder}/{name}"] = when
    return VersionTimes(written, detached)


def _is_detached(name: str) -> bool:
    number = name.removeprefix(_DETACHED_PREFIX).removesuffix(_SUFFIX)
    return name == f"{_DETACHED_PREFIX}{number}{_SUFFIX}" and number.isdecimal()


def collect_versions(tables: Tables, ref: TableRef, versions: Collection[int], guard: Guard) -> Collected:
    """Remove these versions, in one call; killed half-way, doing it again finishes it."""
    head = tables.open(ref)
    chosen = _below(head, versions)
    if not chosen:
        return Collected()
    tables.refuse_links_below(ref.directory)
    guard()
    with lance_failures(ref, "removing old versions of"):
        stats = head.lance.cleanup_old_versions(versions=chosen, error_if_tagged_old_versions=False)
    if stats.failed_deletes:
        raise StorageError(
            f"table '{ref.key}': {stats.failed_deletes} files of old versions could not be removed",
            hint="run `omnigraph cleanup` again",
        )
    return _counted(stats)


def explain_versions(tables: Tables, ref: TableRef, versions: Collection[int]) -> Collected:
    """What `collect_versions` would remove."""
    head = tables.open(ref)
    chosen = _below(head, versions)
    if not chosen:
        return Collected()
    with lance_failures(ref, "looking at old versions of"):
        found = head.lance.explain_cleanup_old_versions(versions=chosen, error_if_tagged_old_versions=False)
    return _counted(found.stats)


def _below(head: Table, versions: Collection[int]) -> list[int]:
    """An empty list is an error to Lance; HEAD it would pass over without a word."""
    return sorted(version for version in versions if version < head.version)


def _counted(stats: Any) -> Collected:
    files = (
        stats.data_files_removed
        + stats.transaction_files_removed
        + stats.index_files_removed
        + stats.deletion_files_removed
        + stats.old_versions
    )
    return Collected(stats.old_versions, files, stats.bytes_removed)
