"""Two plain commands: one has looked a branch up by its name, and waits; the other gives the name away."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

import pytest

from omnigraph_core import layout
from omnigraph_core.graph import Graph
from tests.support.paused import Paused, started
from tests.support.processes import OMNIGRAPH
from tests.support.writers import check_log, check_whole

COMMANDS = {"delete": ("delete", "dev"), "rename": ("rename", "dev", "mine")}


def waits_for_refs(process: Paused) -> bool:
    """Has it come to the lock? It looks the branch up before."""
    found, lock = f"/proc/{process.process.pid}/fd", f"/{layout.LOCKS_DIR}/{layout.REFS_LOCK}."
    with suppress(OSError):
        return any(lock in os.readlink(f"{found}/{each}") for each in os.listdir(found))
    return False


def rename(graph: Graph) -> None:
    graph.rename_branch("dev", "theirs")


def rename_and_create(graph: Graph) -> None:
    rename(graph)
    graph.create_branch("dev")


@pytest.mark.parametrize("meanwhile", [rename, rename_and_create])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_branch_that_was_renamed_meanwhile_is_not_taken_for_the_one_of_the_name(
    command: str, meanwhile: Callable[[Graph], None], graph: Graph
) -> None:
    graph.create_branch("dev")
    refs = graph._storage.locks.lock(layout.REFS_LOCK)
    with started([OMNIGRAPH, "branch", *COMMANDS[command], "--store", graph.location.uri]) as process:
        with refs.acquire():
            process.until(lambda: waits_for_refs(process))
            process.process.send_signal(signal.SIGSTOP)
            process.until_stopped()
        meanwhile(graph)
        names = graph.branches()
        process.go_on()
        done = process.ended()
    assert (done.code, "made or renamed branch 'dev' in the meantime" in done.err) == (3, True), done
    assert graph.branches() == names
    assert "theirs" in names
    check_whole(graph)
    check_log(graph)
