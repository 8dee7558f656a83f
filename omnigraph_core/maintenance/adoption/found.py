"""What adopting a graph finds, does, and reports."""

from __future__ import annotations

from omnigraph_core.records import dataclass


@dataclass(frozen=True, slots=True)
class AdoptedTable:
    """One table on the branch that owns it."""

    branch: str
    table_key: str
    published_version: int
    version: int
    """What is published from now on; in a plan the same as before."""
    drift: int = 0
    """How many versions above the published one were never published. They are put back."""
    empty_blobs: int = 0
    """Rows with an empty blob, which the original writes for null."""
    indexes: tuple[str, ...] = ()
    """Indexes that are replaced or dropped, by name."""
    problem: str | None = None
    """Why it cannot be read. It stays as it is."""


@dataclass(frozen=True, slots=True)
class AdoptedBranch:
    """One branch and the commit it is at."""

    name: str
    head: str | None
    is_moved: bool = False
    """Does it refer to another place than the graph's? That is mended."""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class LostCommit:
    """A commit that stays listed and cannot be read."""

    commit_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Adopted:
    """What there was and what became of it. Without a commit it is a plan, or there was nothing to do."""

    branches: tuple[AdoptedBranch, ...] = ()
    tables: tuple[AdoptedTable, ...] = ()
    lost: tuple[LostCommit, ...] = ()
    commit_id: str | None = None
    is_original: bool = True
    """False if the graph was ours already."""
