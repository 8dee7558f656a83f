"""Many processes write to one graph at once, some are killed: nothing is lost, doubled or halved."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from omnigraph_core import layout
from omnigraph_core.graph import Graph
from omnigraph_core.history.recoveries import RECOVERY_ACTOR
from omnigraph_core.manifest.publisher import HeadChanged
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.settings import Settings
from omnigraph_core.storage import LockTimeout, flock
from omnigraph_core.tables.stage import stage_upsert
from tests import writers
from tests.concurrent.linearizable import ABSENT, Rows, check, table_step
from tests.concurrent.workers import LOCK_TIMEOUT_S, Entry, Script, Worker, read_three, start_together
from tests.conftest import PEOPLE, REPOSITORY, clean_environment
from tests.writers import WRITTEN, check_whole, content, open_graph, write_three

SETTINGS = Settings(fsync=False, actor="tester", lock_timeout_s=LOCK_TIMEOUT_S)
FIRST = frozenset({"first"})


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    processes: int
    writes: int
    kills: int


SMALL = Size(processes=6, writes=7, kills=4)
FULL = Size(processes=8, writes=25, kills=24)
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


def run_all(workers: list[Worker], kills: int, chance: random.Random) -> int:
    """Let the workers run to their end, killing and restarting some; returns how many were killed at work."""
    start_together(workers)
    landed = 0
    for _ in range(kills):
        time.sleep(chance.uniform(0.02, 0.35))
        alive = [worker for worker in workers if worker.process.poll() is None]
        if not alive:
            break
        victim = chance.choice(alive)
        victim.process.send_signal(signal.SIGKILL)
        victim.process.wait()
        landed += any(entry.outcome is None for entry in victim.entries()[-1:])
        victim.restart()
    for worker in workers:
        _, errors = worker.process.communicate(timeout=600)
        assert worker.process.returncode == 0, errors
    return landed


def check_history(root: Path, entries: list[Entry], starts: dict[str, Rows]) -> None:
    """Everything that must hold afterwards; `starts` says what each branch held, if it was there."""
    graph = open_graph(root, SETTINGS)
    assert graph.pending() == []
    check_whole(graph)
    check_calls(entries)
    final = {branch: read_three(graph, branch) for branch in graph.branches()}
    check_commits(graph, entries, final)
    check_audits(graph)
    check_linearizable(entries, final, starts)


def check_calls(entries: list[Entry]) -> None:
    """No call failed in a way it should not, none waited longer than a lock may be waited for."""
    expected = {"done", "busy", "replaced", "exists", ABSENT, None}
    strange = [entry for entry in entries if entry.outcome not in expected]
    assert not strange, "\n".join(
        f"{each.action} {each.outcome} {each.value.get('trace')}" for each in strange
    )
    slow = [entry for entry in entries if entry.returned and entry.returned - entry.called > LOCK_TIMEOUT_S]
    assert not slow
    waited = [
        each for each in entries if each.outcome == "busy" and "times in a row" not in each.value["error"]
    ]
    assert not waited, "no lock is ever held for long here"


def check_commits(graph: Graph, entries: list[Entry], final: dict[str, dict[str, list[str]]]) -> None:
    """Every acknowledged write is a commit of its branch; a key is there once, for one commit."""
    log = graph.log()
    for branch, tables in final.items():
        keys = {tuple(found) for found in tables.values()}
        assert len(keys) == 1, f"half a commit on {branch}: {tables}"
        history = log.history(branch)
        messages = Counter(each.message for each in history if each.message)
        assert messages == {f"write {key}": 1 for key in keys.pop()}, branch
    stable = [each for each in entries if each.branch in final and each.branch != "churn"]
    for entry in stable:
        if entry.action == "add" and entry.outcome == "done":
            commit = log.commits.get(entry.value["commit"])
            assert commit is not None, f"acknowledged, not listed: {entry}"
            assert (commit.message, commit.branch) == (f"write {entry.argument}", entry.branch)
            assert entry.argument in final[entry.branch][WRITTEN[0]]


def check_audits(graph: Graph) -> None:
    """One audit row for each commit by recovery, and the other way round."""
    by_recovery = [each for each in graph.log().commits.values() if each.actor_id == RECOVERY_ACTOR]
    audits = graph.recoveries()
    assert sorted(each.commit_id for each in by_recovery) == sorted(each.graph_commit_id for each in audits)
    assert len({each.operation_id for each in audits}) == len(audits)


def check_linearizable(
    entries: list[Entry], final: dict[str, dict[str, list[str]]], starts: dict[str, Rows]
) -> None:
    """Table by table and branch by branch, with what is there in the end as the last read."""
    end = max(entry.returned or entry.called for entry in entries) + 1
    for branch, start in starts.items():
        there = final.get(branch)
        last = Entry(
            "end", "read", branch, "", end, end + 1, "done" if there else ABSENT, {"keys": there or {}}
        )
        of_branch = [*(each for each in entries if each.branch == branch), last]
        for table in WRITTEN:
            calls = [call for entry in of_branch if (call := entry.to_call(table)) is not None]
            seen = set().union(*(call.result for call in calls if isinstance(call.result, frozenset)))
            # A killed write that no read ever saw explains nothing here: branches keep their rows.
            if branch != "churn":
                calls = [each for each in calls if each.returned is not None or each.argument in seen]
            verdict = check(calls, table_step, start)
            assert verdict.linearizable, (
                f"{table} on {branch}: {len(verdict.order)} of {len(calls)} calls explained, ending with "
                f"{verdict.order[-3:]}"
            )


def adds_and_reads(name: str, branch: str, writes: int) -> Script:
    """Every other write is followed by a read."""
    script = []
    for number in range(writes):
        script.append(("add", branch, f"{name}.{number}"))
        if number % 2:
            script.append(("read", branch, ""))
    return script


@pytest.mark.parametrize(("size", "seed"), SIZES)
def test_one_branch(size: Size, seed: int, root: Path, tmp_path: Path) -> None:
    workers = [
        Worker(root, tmp_path, f"w{number}", adds_and_reads(f"w{number}", "main", size.writes))
        for number in range(size.processes)
    ]
    landed = run_all(workers, size.kills, random.Random(seed))
    assert landed > 0
    entries = [entry for worker in workers for entry in worker.entries()]
    # However many there are: from its third attempt on, a writer plans under the lock.
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
        workers.append(Worker(root, tmp_path, name, script))
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
def writer_inside_the_lock(root: Path, name: str, milliseconds: int) -> Iterator[subprocess.Popen[str]]:
    """A writer that dawdles between its tables' commits and its publish, holding the lock."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.writers", str(root), "main", name],
        env=clean_environment(OMNIGRAPH_FAILPOINTS=f"write.after_b=sleep:{milliseconds}"),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        recovery = root / layout.RECOVERY_DIR
        while not (recovery.is_dir() and any(each.suffix == ".json" for each in recovery.iterdir())):
            assert process.poll() is None, process.communicate()
            time.sleep(0.005)
        yield process
    finally:
        process.kill()
        process.wait()


def test_a_stopped_writer_keeps_its_lock_and_finishes(root: Path) -> None:
    """Locally there is no expiry: others time out and are told who, and nobody recovers its write."""
    with writer_inside_the_lock(root, "stopped", 300) as process:
        process.send_signal(signal.SIGSTOP)
        graph = open_graph(root, Settings(fsync=False, actor="bob", lock_timeout_s=0.5))
        began = time.monotonic()
        with pytest.raises(LockTimeout) as caught:
            write_three(graph, "other")
        assert 0.5 <= time.monotonic() - began < 5
        assert f"pid {process.pid}" in caught.value.message
        assert [each.actor_id for each in graph.pending()] == ["ann"]
        assert read_three(graph, "main") == {key: ["first"] for key in WRITTEN}
        process.send_signal(signal.SIGCONT)
        output, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    graph = open_graph(root, SETTINGS)
    assert graph.head().commit_id == output.strip()  # type: ignore[union-attr]
    assert graph.recoveries() == []
    write_three(graph, "other")
    assert read_three(graph, "main") == {key: ["first", "other", "stopped"] for key in WRITTEN}
    check_whole(graph)


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
        process = subprocess.run(
            [sys.executable, "-m", "tests.writers", str(root), "dev", "dead"],
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
