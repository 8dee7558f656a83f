"""Which deleted branches can still be brought back after a cleanup, and what that takes.

A branch that was deleted within the grace stays, and one that a tag names a commit of, or that
has a commit which later merges start from; so do those it was made from, whose files it reads.
Of such a branch nothing is removed at all. What it reads of others it names in its manifest,
row by row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from omnigraph_core import layout
from omnigraph_core.history.deleted import DeletedBranch
from omnigraph_core.maintenance.lineages import Lineage
from omnigraph_core.manifest.branch import Branch
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.manifest.rows import TYPE_VERSION


def spared(
    deleted: Sequence[DeletedBranch], needed: Collection[Branch], now_us: int, grace_s: float
) -> list[DeletedBranch]:
    """Of the deleted branches, those that stay: the needed ones, whatever their age."""
    chosen = [
        each for each in deleted if (now_us - each.deleted_at) / 1_000_000 < grace_s or each.on in needed
    ]
    above = {identity for each in chosen for identity in each.fork.ancestors}
    return [each for each in deleted if each in chosen or each.fork.identity in above]


def versions_read_by(manifest: Manifest, branch: DeletedBranch) -> Iterator[tuple[Lineage, int]]:
    """Every version of another lineage that any commit of it may name.

    A key may have been of several tables, and a table may have had several keys: the version is
    kept of every table that the branch ever had.
    """
    yield (layout.MANIFEST, branch.fork.parent), branch.fork.parent_version
    paths = manifest.paths_of(branch.on)
    rows = manifest.open(branch.name).read(
        ["table_version", "table_branch"], f"object_type = '{TYPE_VERSION}'"
    )
    found = {(row["table_branch"], row["table_version"]) for row in rows.to_pylist()}
    for lineage, version in found:
        if lineage != branch.name:
            yield from (((path, lineage), version) for path in paths)
