"""A cleanup that is killed at any step: nothing that is kept is lost, and the next one finishes it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support import warm
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.readable import contents, fresh, ids_of, person_versions
from tests.support.records import PEOPLE
from tests.support.writers import check_whole, content, write_three

STEPS = ["cleanup.decided", "cleanup.recorded", "cleanup.collected", "tables.fork_ref_deleted"]


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_every_step(step: str, tmp_path: Path) -> None:
    graph = Graph.init(str(tmp_path / "g"), PEOPLE, Settings(fsync=False, actor="ann"))
    for number in range(4):
        write_three(graph, f"p{number}")
    graph.create_branch("lazy", "main~2")
    graph.create_branch("gone")
    write_three(graph, "lost", "gone")
    # The branch goes as if its delete had died: its forks are left.
    ref = graph.location.path / "__manifest/_refs/branches/gone.json"
    ref.unlink()
    before, lazy, ids = contents(graph), content(graph, "lazy"), ids_of(graph)
    arguments = [sys.executable, "-m", "omnigraph_cli", "cleanup", str(graph.location.path)]
    killed = warm.run(
        [*arguments, "--keep", "1", "--force", "--grace", "0s"],
        env=clean_environment(OMNIGRAPH_FAILPOINTS=f"{step}=kill"),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
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
    check_whole(graph)
