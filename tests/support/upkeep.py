"""Writers of rows and of schemas, a merging agent, maintainers: processes that may be killed at any time.

Runnable: `python -m tests.support.upkeep ROLE ROOT NAME COUNT JOURNAL`.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from omnigraph_core.errors import BusyError, ConflictError, NotFoundError, RefusedError, StorageError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings
from tests.support.restarted import Process, acknowledged
from tests.support.sleepers import apply_another
from tests.support.writers import open_graph, write_three

SETTINGS = Settings(fsync=False, actor="tester", lock_timeout_s=300.0)
KEEP = 3
GRACE_S = 5.0
# A plan older than the grace may find that what it read is gone; that is said, and it is made again.
LATE = (BusyError, ConflictError, NotFoundError, StorageError)
TRIES = 20


def write(graph: Graph, name: str, number: int) -> str:
    key = f"{name}-{number}"
    write_three(graph, key)
    return key


def merge(graph: Graph, name: str, number: int) -> str:
    """A branch, two writes on it, into main, gone."""
    key, branch = f"{name}-{number}", f"{name}-{number}-{os.getpid()}"
    if branch not in graph.branches():
        graph.create_branch(branch)
    write_three(graph, f"{key}-first", branch)
    write_three(graph, key, branch)
    graph.merge(branch, into="main")
    graph.delete_branch(branch)
    return key


def maintain(graph: Graph, name: str, number: int) -> str:
    done = graph.maintain(keep=KEEP, grace_s=GRACE_S)
    failed = [table.error for table in done.cleaned.tables if table.error] if done.cleaned else []
    assert not failed, failed
    return f"{name}-{number}"


def load(graph: Graph, name: str, number: int) -> str:
    """Five hundred people, the last of whom is told of; loaded again if the schema changed meanwhile."""
    key, records = f"{name}-{number}", graph.location.path.parent / f"{name}.jsonl"
    names = [*(f"{key}-{person}" for person in range(500)), key]
    people = [{"type": "Person", "data": {"name": each}} for each in names]
    records.write_text("".join(json.dumps(person) + "\n" for person in people))
    graph.load([str(records)], LoadMode.MERGE)
    return key


def apply(graph: Graph, name: str, number: int) -> str:
    """What another has renamed meanwhile is no longer there to be renamed: then it looks again."""
    while True:
        with suppress(RefusedError):
            apply_another(graph, "main", f"{name}_{number}_{os.getpid()}")
            return f"{name}-{number}"


def optimize(graph: Graph, name: str, number: int) -> str:
    graph.optimize()
    return f"{name}-{number}"


ROLES = {
    "write": write,
    "merge": merge,
    "maintain": maintain,
    "load": load,
    "apply": apply,
    "optimize": optimize,
}


def run(role: str, root: str, name: str, count: int, journal: Path) -> None:
    done = len(acknowledged(journal))
    for number in range(done, count):
        for left in reversed(range(TRIES)):
            graph = open_graph(root, SETTINGS)
            try:
                key = ROLES[role](graph, name, number)
                break
            except LATE:
                if not left:
                    raise
        with journal.open("a") as lines:
            lines.write(f"{key}\n")


def process(role: str, root: Path, name: str, count: int) -> Process:
    return Process("tests.support.upkeep", root, name, [role, str(root), name, str(count)])


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5]))
