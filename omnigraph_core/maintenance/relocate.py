"""`relocate`: the branches of a moved or copied graph refer to its new place."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core import layout
from omnigraph_core.history.commits import commits_ref
from omnigraph_core.maintenance.lineages import dataset_refs
from omnigraph_core.manifest.reader import Manifest, manifest_ref
from omnigraph_core.storage import HeldLocks
from omnigraph_core.tables.refs import TableRef
from omnigraph_core.tables.relocation import relocate_forks
from omnigraph_core.write.ref_repair import repair_refs


def relocate(manifest: Manifest) -> int:
    """Rewrite what the forks say of their place; returns how many files changed.

    Nobody may be writing: the locks of all branches are held for as long as it takes.
    """
    branches = [layout.MAIN_BRANCH, *(found.name for found in manifest.branch_refs())]
    locks = [layout.REFS_LOCK, *map(layout.branch_lock, branches)]
    with manifest.tables.storage.locks.lock_all(locks, doing="relocate") as held:
        changed = 0
        for ref in _datasets(manifest, held):
            changed += relocate_forks(manifest.tables, ref, held.check)
    return changed


def _datasets(manifest: Manifest, held: HeldLocks) -> Iterator[TableRef]:
    """Every dataset that may have forks; the manifest first, so that it can be read for the rest."""
    yield manifest_ref(layout.MAIN_BRANCH)
    yield commits_ref(layout.MAIN_BRANCH)
    repair_refs(manifest, held.check)
    yield from dataset_refs(manifest)
