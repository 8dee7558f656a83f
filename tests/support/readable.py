"""What can still be read of a graph, whatever cleanup has removed."""

from __future__ import annotations

from contextlib import suppress

from omnigraph_core.graph import Graph
from omnigraph_core.history.removed import CommitRemoved
from omnigraph_core.history.travel import CommitGone, snapshot_at
from omnigraph_core.settings import Settings
from omnigraph_core.tables.torn import versions_on_disk

SETTINGS = Settings(fsync=False, actor="ann")
PERSON = "node:Person"


def contents(graph: Graph) -> dict[str, dict[str, list[object]]]:
    """Everything that can be read: all rows of all tables at every commit, by its id."""
    found = {}
    for commit in graph.log().commits.values():
        with suppress(CommitRemoved, CommitGone):
            snapshot = snapshot_at(graph.door.manifest, commit)
            found[commit.commit_id] = {
                key: graph.door.tables.open(entry.ref, entry.table_version).read().to_pylist()
                for key, entry in snapshot.tables.items()
            }
    return found


def fresh(graph: Graph) -> Graph:
    """As another process sees it."""
    return Graph.open(str(graph.location.path), SETTINGS)


def ids_of(graph: Graph, branch: str = "main") -> list[str]:
    return [commit.commit_id for commit in graph.log().history(branch)]


def person_versions(graph: Graph, branch: str | None = None) -> list[int]:
    return versions_on_disk(graph.door.tables, graph.snapshot().entry(PERSON).ref.on(branch))
