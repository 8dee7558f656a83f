"""Whose graph is it? The original's are read as they are, and written to by nobody but it, until adopted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph_core.catalog.files import Catalog
from omnigraph_core.errors import RefusedError
from omnigraph_core.manifest.reader import Manifest
from omnigraph_core.manifest.rows import GraphHead
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.tables.dataset import Tables

if TYPE_CHECKING:
    from omnigraph_core.original.heads import OriginalHeads


class OriginalGraph(RefusedError):
    """A graph of the Rust original, which only `adopt` may write to."""

    def __init__(self) -> None:
        super().__init__(
            "this is a graph of the Rust original: it can be read as it is, but not written to",
            hint="`omnigraph adopt` makes it a graph of this OmniGraph, with its history and branches",
        )

    def details(self) -> Mapping[str, object]:
        return {"made_by": "original"}


def refuse_original(manifest: Manifest) -> None:
    """Raise unless the graph is ours to write to."""
    if manifest.is_original():
        raise OriginalGraph


class OriginalWrote(RefusedError):
    """The original went on writing to a graph that was adopted."""

    def __init__(self, branch: str, tables: list[str]) -> None:
        super().__init__(
            f"the Rust original has written to branch '{branch}' after the graph was adopted: "
            f"{', '.join(tables)}",
            hint="stop it; nothing is built upon what it wrote. `omnigraph export` has the rows as they are, "
            "and earlier commits can be read",
        )
        self.branch, self.tables = branch, tables

    def details(self) -> Mapping[str, object]:
        return {"branch": self.branch, "tables": self.tables}


def refuse_later_writes(snapshot: Snapshot) -> None:
    """Raise if a branch of an adopted graph has versions that the original published since."""
    if found := snapshot.foreign_tables():
        raise OriginalWrote(snapshot.branch, found)


class HeadsIfNeeded:
    """`OriginalHeads`, which most processes never ask for."""

    def __init__(self, tables: Tables, keep: Callable[[Catalog], None]) -> None:
        self._tables, self._keep = tables, keep

    def head_of(self, snapshot: Snapshot) -> GraphHead | None:
        return self._heads.head_of(snapshot)

    @cached_property
    def _heads(self) -> OriginalHeads:
        from omnigraph_core.original.heads import OriginalHeads

        return OriginalHeads(self._tables, self._keep)
