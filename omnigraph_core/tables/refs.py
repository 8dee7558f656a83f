"""Which dataset, and which Lance branch of it."""

from __future__ import annotations

from dataclasses import replace

from omnigraph_core.records import dataclass


@dataclass(frozen=True, slots=True)
class TableRef:
    """One lineage of versions: a dataset under the graph root, on one Lance branch.

    `key` is how messages and manifest rows name it (`node:Person`, `__manifest`);
    `path` is relative to the graph root; `branch` None is Lance's main.
    """

    key: str
    path: str
    branch: str | None = None

    @property
    def directory(self) -> str:
        """Where this lineage keeps its versions and new files, relative to the graph root."""
        return self.path if self.branch is None else f"{self.path}/tree/{self.branch}"

    def on(self, branch: str | None) -> TableRef:
        return replace(self, branch=branch)


def control_table(path: str, branch: str | None = None) -> TableRef:
    """The ref of one of our own bookkeeping datasets, which have no table key."""
    return TableRef(key=path, path=path, branch=branch)
