"""Topology indexes: derived from the tables, so that damage to one costs time and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from time import time

from omnigraph_core import layout
from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding, Severity, counted_files, warning
from omnigraph_core.maintenance.limits import UNREFERENCED_GRACE_S
from omnigraph_core.topology.store import TopologyStore


def check_topology(seen: Examination) -> Iterator[Finding]:
    """Files that are missing or short, and those that no index has any more."""
    store = TopologyStore(seen.storage)
    sizes = {name: each.size for name, each in store.files().items()}
    for record in store.records():
        for file in (file for part in record.parts for file in part.files):
            if sizes.get(file.name) != file.size:
                text = "a part of a topology index is missing or not whole; queries do without it"
                yield warning(
                    "topology-damaged", layout.topology_file(file.name), text, "omnigraph index build"
                )
    files = store.files()
    left = [name for name in store.superseded() if name in files]
    if left:
        size = sum(files[name].size for name in left)
        text = f"no topology index needs {counted_files(left, size)}"
        is_old = all(time() - files[name].written_s > UNREFERENCED_GRACE_S for name in left)
        severity = Severity.WARNING if is_old else Severity.NOTE
        yield Finding("topology-left", severity, layout.TOPOLOGY_DIR, text, "omnigraph maintain")


def check_topology_contents(seen: Examination) -> Iterator[Finding]:
    """Whether the arrays are those that were written; reads all of them."""
    store = TopologyStore(seen.storage)
    for record in store.records():
        for file in (file for part in record.parts for file in part.files):
            if not store.is_sound(file):
                text = "a part of a topology index is not what was written"
                where = layout.topology_file(file.name)
                yield warning("topology-damaged", where, text, "omnigraph index build")
