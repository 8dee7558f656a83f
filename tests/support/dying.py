"""Writers that die at a failpoint: processes that are killed, or a write of this one that is broken off."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from omnigraph_core import faults
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


class Died(BaseException):
    """What ends a writer as a kill would: nobody handles it."""


def die_here(write: Callable[[], object], step: str) -> None:
    """Let a write of this process go as far as a step, and leave everything as it is there."""

    def hit(name: str) -> None:
        if name == step:
            raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faults, "hit", hit)
        with pytest.raises(Died):
            write()
