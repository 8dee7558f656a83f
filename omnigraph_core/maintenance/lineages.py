"""Every line of versions that a graph has on disk: its datasets, their forks, and when each version came."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_core import layout
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.records import dataclass
from omnigraph_core.tables.collect import VersionTimes, version_times
from omnigraph_core.tables.dataset import Tables
from omnigraph_core.tables.fork_refs import Fork, ForkRef, list_refs
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.transactions import transaction_times

Lineage = tuple[str, str | None]
"""Path of a dataset, and the Lance branch of it."""

CONTROL_DATASETS = (layout.MANIFEST, layout.COMMITS, layout.COMMIT_ACTORS, layout.RECOVERIES)


@dataclass(frozen=True, slots=True)
class Place:
    """A dataset as it was found."""

    ref: TableRef
    refs: Mapping[str, ForkRef]
    """The ref files of its forks, by name."""
    forks: Mapping[str, Fork]
    times: Mapping[str | None, VersionTimes]
    """Of its main line and of every fork."""
    transactions: Mapping[str | None, Mapping[str, float]]
    """Likewise: the files of transactions, and when each was written."""

    @property
    def path(self) -> str:
        return self.ref.path

    @property
    def is_control(self) -> bool:
        return self.path in CONTROL_DATASETS


def look_at(tables: Tables, ref: TableRef) -> Place:
    """One dataset; `RefDamaged` if nobody can tell which forks it has."""
    refs = {found.name: found for found in list_refs(tables, ref)}
    forks = {name: fork for name, found in refs.items() if (fork := found.fork_or_none()) is not None}
    lines = [None, *forks]
    times = {name: version_times(tables, ref.on(name)) for name in lines}
    return Place(ref, refs, forks, times, {name: transaction_times(tables, ref.on(name)) for name in lines})


def dataset_refs(manifest: Manifest) -> list[TableRef]:
    """Every dataset below the root: the manifest first, then the logs, then tables by path.

    Found on disk, because a table of a deleted branch is known to nobody else.
    """
    keys = {
        path: key
        for branch in (layout.MAIN_BRANCH, *sorted(manifest.branches()))
        for path, key in manifest.paths(branch).items()
    }
    control = manifest.tables.storage.control
    found = {
        "/".join(path.split("/")[:2])
        for folder in (layout.NODES_DIR, layout.EDGES_DIR)
        for path in control.list_prefix(folder)
        if path.count("/") >= 2
    }
    logs = [TableRef(path, path) for path in CONTROL_DATASETS]
    return [*logs, *(TableRef(keys.get(path, path), path) for path in sorted(found))]
