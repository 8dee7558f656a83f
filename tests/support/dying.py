"""Processes that write and are killed at a failpoint."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from omnigraph_core.graph import Graph
from tests.support import warm
from tests.support.processes import REPOSITORY, clean_environment


def die(
    graph: Graph | str | Path,
    step: str,
    name: str = "second",
    branch: str = "main",
    more: tuple[str, ...] = (),
    **environment: str,
) -> None:
    """Let another process write as `tests.support.writers` does, and be killed at a step."""
    place = str(graph.location.path) if isinstance(graph, Graph) else str(graph)
    done = warm.run(
        [sys.executable, "-m", "tests.support.writers", place, branch, name, *more],
        env=clean_environment(OMNIGRAPH_FAILPOINTS=f"{step}=kill", **environment),
        cwd=REPOSITORY,
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
