"""Many processes write to one graph at once, some are killed: nothing is lost, doubled or halved."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core.graph import Graph
from omnigraph_core.manifest.request import HeadChanged
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.settings import Settings
from omnigraph_core.storage import LockTimeout, flock
from omnigraph_core.tables.stage import stage_upsert
from tests.support import warm, writers
from tests.support.linearizable import ABSENT, Rows
from tests.support.many_writers import (
    FULL,
    SETTINGS,
    SMALL,
    Size,
    adds_and_reads,
    check_history,
    run_all,
)
from tests.support.paused import go_on, wait_until_stopped
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.records import PEOPLE
from tests.support.workers import Script, Worker, read_three
from tests.support.writers import WRITTEN, check_audits, check_whole, content, open_graph, write_three

FIRST = frozenset({"first"})
DEATH = "write.after_b=kill"


SIZES = [
    pytest.param(SMALL, 1, id="small"),
    *(
        pytest.param(FULL, seed, id=f"full-{seed}", marks=[pytest.mark.soak, pytest.mark.timeout(900)])
        for seed in range(1, 6)
    ),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "g"
    write_three(Graph.init(str(root), PEOPLE, SETTINGS), "first")
    return root


@pytest.mark.parametrize(("size", "seed"), SIZES)
def test_one_branch(size: Size, seed: int, root: Path, tmp_path: Path) -> None:
    workers = [
        Worker(root, tmp_path, f"w{number}", script, dies_at="" if number else DEATH)
        for number, script in enumerate(
            adds_and_reads(f"w{number}", "main", size.writes) for number in range(size.processes)
        )
    ]
    landed = run_all(workers, size.kills, random.Random(seed))
    assert landed > 0
    entries = [entry for worker in workers for entry in worker.entries()]
    # However many there are: a writer that has lost a race plans under the lock.
    assert [entry for entry in entries if entry.outcome == "busy"] == []
    assert sum(entry.action == "add" for entry in entries) == size.processes * size.writes
    check_history(root, entries, {"main": FIRST})


@pytest.mark.parametrize(("size", "seed"), SIZES)
def test_several_branches_that_come_and_go(size: Size, seed: int, root: Path, tmp_path: Path) -> None:
    """Writers on main and two lasting branches; two processes make, use and delete a third."""
    graph = open_graph(root, SETTINGS)
    graph.create_branch("dev")
    graph.create_branch("dev-two", "dev")
    chance = random.Random(seed)
    workers = []
    for number in range(size.processes):
        name = f"w{number}"
        if number % 3 == 2:
            script = churn(name, size.writes)
        else:
            branches = ["main", "dev", "dev-two"]
            script = [
                (action, branch, f"{branch}.{argument}" if argument else "")
                for branch in branches
                for action, _, argument in adds_and_reads(name, branch, (size.writes + 2) // 3)
            ]
            if number % 2:
                script.reverse()
        workers.append(Worker(root, tmp_path, name, script, dies_at="" if number else DEATH))
    assert run_all(workers, size.kills, chance) > 0
    entries = [entry for worker in workers for entry in worker.entries()]
    starts: dict[str, Rows] = {"main": FIRST, "dev": FIRST, "dev-two": FIRST, "churn": ABSENT}
    check_history(root, entries, starts)


def churn(name: str, writes: int) -> Script:
    script = []
    for number in range((writes + 1) // 2):
        script += [
            ("create", "churn", "first"),
            ("add", "churn", f"{name}.{number}.a"),
            ("read", "churn", ""),
            ("add", "churn", f"{name}.{number}.b"),
            ("delete", "churn", ""),
        ]
    return script


@contextmanager
def writer_inside_the_lock(
    root: Path, name: str, step: str = "write.after_b"
) -> Iterator[subprocess.Popen[str]]:
    """A writer that is stopped under the lock, between its tables' commits and its publish."""
    process = warm.Popen(
        [sys.executable, "-m", "tests.support.writers", str(root), "main", name],
        env=clean_environment(OMNIGRAPH_FAILPOINTS=f"{step}=stop"),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until_stopped(process)
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_stopped_writer_keeps_its_lock_and_finishes(root: Path) -> None:
    """Locally there is no expiry: others time out and are told who, and nobody recovers its write."""
    with writer_inside_the_lock(root, "stopped") as process:
        graph = open_graph(root, Settings(fsync=False, actor="bob", lock_timeout_s=0.5))
        began = time.monotonic()
        with pytest.raises(LockTimeout) as caught:
            write_three(graph, "other")
        assert time.monotonic() - began >= 0.5
        assert f"pid {process.pid}" in caught.value.message
        assert [each.actor_id for each in graph.pending()] == ["ann"]
        assert read_three(graph, "main") == {key: ["first"] for key in WRITTEN}
        go_on(process)
        output, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    graph = open_graph(root, SETTINGS)
    assert graph.head().commit_id == output.strip()  # type: ignore[union-attr]
    assert graph.recoveries() == []
    write_three(graph, "other")
    assert read_three(graph, "main") == {key: ["first", "other", "stopped"] for key in WRITTEN}
    check_whole(graph)


def test_a_writer_stopped_while_it_removes_its_sidecar_keeps_nobody_waiting_for_ever(root: Path) -> None:
    """It has the folder of all sidecars locked: who cannot remove his own leaves it to the next."""
    Graph.open(str(root), SETTINGS).create_branch("dev")
    with writer_inside_the_lock(root, "stopped", "control.delete.gone") as process:
        graph = open_graph(root, Settings(fsync=False, actor="bob", lock_timeout_s=0.2))
        (warning,) = write_three(graph, "other", "dev").warnings
        assert f"process {process.pid} is replacing a file in {root / '__recovery'}" in warning
        go_on(process)
        _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    graph = open_graph(root, SETTINGS)
    check_whole(graph)
    assert graph.pending() == []
    assert {branch: read_three(graph, branch) for branch in ("main", "dev")} == {
        "main": {key: ["first", "stopped"] for key in WRITTEN},
        "dev": {key: ["first", "other"] for key in WRITTEN},
    }


@pytest.mark.parametrize("moment", ["before staging", "after staging"])
def test_a_fork_that_goes_away_with_a_dead_writer_is_made_again(
    moment: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is published a fork belongs to whoever uses it; recovering one writer removes it for all."""
    graph = open_graph(root, SETTINGS)
    graph.create_branch("dev")
    recovered: list[str] = []

    def let_another_die() -> None:
        if recovered:
            return
        process = warm.run(
            [sys.executable, "-m", "tests.support.writers", str(root), "dev", "dead"],
            env=clean_environment(OMNIGRAPH_FAILPOINTS="write.after_a=kill"),
            cwd=REPOSITORY,
            check=False,
        )
        assert process.returncode == -signal.SIGKILL
        recovered.extend(each.recovery_kind for each in open_graph(root, SETTINGS).recoveries())

    def staged(*arguments: Any) -> Any:
        if moment == "before staging":
            let_another_die()
        done = stage_upsert(*arguments)
        let_another_die()
        return done

    monkeypatch.setattr(writers, "stage_upsert", staged)
    write_three(graph, "alive", "dev")
    assert recovered == ["RolledBack"]
    assert read_three(graph, "dev") == {key: ["alive", "first"] for key in WRITTEN}
    check_whole(open_graph(root, SETTINGS))


def test_without_the_lock_the_head_row_is_the_fence(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writers of different tables, and a file system whose locks do nothing: one of them is refused."""
    ours, theirs = open_graph(root, SETTINGS), open_graph(root, SETTINGS)
    monkeypatch.setattr(flock.fcntl, "flock", lambda *_: None)
    monkeypatch.setattr(theirs.door.sweeper, "sweep", lambda: None)
    monkeypatch.setattr(theirs.door.sweeper, "heal", lambda *_: None)
    publish = ours.door.publisher.publish
    between: list[str | None] = []

    def publish_late(*arguments: Any) -> Snapshot:
        if not between:
            monkeypatch.setattr(writers, "WRITTEN", ("node:Company",))
            between.append(write_three(theirs, "theirs").commit_id)
        return publish(*arguments)

    monkeypatch.setattr(ours.door.publisher, "publish", publish_late)
    monkeypatch.setattr(writers, "WRITTEN", ("node:Person", "edge:Knows"))
    with pytest.raises(HeadChanged) as caught:
        write_three(ours, "ours")
    assert caught.value.actual == between[0]
    assert "nothing was changed" in str(caught.value.hint)
    graph = open_graph(root, SETTINGS)
    check_whole(graph)
    check_audits(graph)
    assert between[0] in {each.commit_id for each in graph.log().history("main")}
    found = content(graph)
    assert found["node:Company"] == {"first", "theirs"}
    assert found["node:Person"] == found["edge:Knows"] == {"first"}
