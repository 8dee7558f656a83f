"""A cleanup that is killed at any step: nothing that is kept is lost, and the next one finishes it."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from omnigraph_core.tables.stage import stage_append
from tests.support import warm
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.readable import contents, fresh, ids_of, person_versions
from tests.support.records import PEOPLE
from tests.support.writers import check_whole, content, open_graph, rows_for, write_three

STEPS = [
    "branch.given_up",
    "cleanup.decided",
    "cleanup.recorded",
    "cleanup.collected",
    "tables.fork_ref_deleted",
    "cleanup.fork_removed",
    "cleanup.temporary_removed",
    "cleanup.staged_removed",
]
OPTIMIZE_STEPS = {
    "optimize.staged": 0,
    "write.after_a": 1,
    "write.table_committed.1": 1,
    "write.published": 2,
    "optimize.manifest_rewritten": 1,
    "optimize.logs_rewritten": 1,
}
"""How many commits there are more after recovery: the optimize, or its rollback, or it and its completion."""


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_every_step(step: str, tmp_path: Path) -> None:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, Settings(fsync=False, actor="ann"))
    for number in range(4):
        write_three(graph, f"p{number}")
    graph.create_branch("lazy", "main~2")
    graph.create_branch("gone")
    write_three(graph, "lost", "gone")
    graph.delete_branch("gone")
    leftovers = leave_behind(graph)
    before, lazy, ids = contents(graph), content(graph, "lazy"), ids_of(graph)
    arguments = [sys.executable, "-m", "omnigraph_cli", "cleanup", str(graph.location.path)]
    run_killed([*arguments, "--keep", "1", "--force", "--grace", "0s"], step)
    after = contents(fresh(graph))
    assert {ids[0], ids[2]} <= after.keys()
    assert after.items() <= before.items()
    assert content(fresh(graph), "lazy") == lazy
    write_three(graph, "meanwhile")
    assert graph.cleanup(keep=1, grace_s=0.0, force=True).has_failed is False
    left = contents(fresh(graph))
    assert left.keys() == {ids_of(graph)[0], ids[2]}
    assert left[ids[2]] == before[ids[2]]
    # The version that the leftover fork was made from goes once the fork is gone.
    graph.cleanup(keep=1, grace_s=0.0, force=True)
    assert len(person_versions(graph)) == 2
    assert not (graph.location.path / graph.snapshot().entry("node:Person").table_path / "tree").exists()
    assert not any(path.exists() for path in leftovers)
    check_whole(graph)


def run_killed(arguments: list[str], step: str) -> None:
    killed = warm.run(
        arguments,
        env=clean_environment(OMNIGRAPH_FAILPOINTS=f"{step}=kill"),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr


def leave_behind(graph: Graph) -> list[Path]:
    """A half-written object, and files staged days ago by a writer that died before its sidecar."""
    entry = graph.snapshot().entry("node:Person")
    table = graph.door.tables.open(entry.ref, entry.table_version)
    staged = stage_append(graph.door.storage, table, rows_for(table, "ghost"), "01GHOST")
    half = graph.location.path / ".og-tmp.0123456789abcdef"
    half.write_bytes(b"half")
    then = time.time() - 200_000
    for path in graph.location.path.rglob("*"):
        os.utime(path, (then, then))
    return [half, *(graph.location.path / file.path for file in staged.files)]


@pytest.mark.parametrize("step", OPTIMIZE_STEPS)
def test_optimize_killed_at_every_step(step: str, tmp_path: Path) -> None:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, Settings(fsync=False, actor="ann"))
    for number in range(6):
        write_three(graph, f"p{number}")
    before, now = contents(graph), content(graph)
    run_killed([sys.executable, "-m", "omnigraph_cli", "optimize", str(graph.location.path)], step)
    graph = open_graph(graph.location.path, graph.settings)
    write_three(graph, "meanwhile")
    after = contents(fresh(graph))
    assert {commit_id: after[commit_id] for commit_id in before} == before
    assert len(after) == len(before) + OPTIMIZE_STEPS[step] + 1
    assert {key: ids - {"meanwhile"} for key, ids in content(graph).items()} == now
    check_whole(graph)
    graph.optimize()
    assert graph.door.tables.open(graph.snapshot().entry("node:Person").ref).count_fragments() == 1
    check_whole(graph)
