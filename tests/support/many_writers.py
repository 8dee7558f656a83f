"""Many workers on one graph, some of them killed, and everything that must hold afterwards."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.linearizable import ABSENT, Rows, check, table_step
from tests.support.workers import LOCK_TIMEOUT_S, Entry, Script, Worker, read_three, start_together
from tests.support.writers import WRITTEN, check_audits, check_whole, open_graph

SETTINGS = Settings(fsync=False, actor="tester", lock_timeout_s=LOCK_TIMEOUT_S)


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    processes: int
    writes: int
    kills: int


SMALL = Size(processes=6, writes=7, kills=4)


FULL = Size(processes=8, writes=25, kills=24)


def run_all(workers: list[Worker], kills: int, chance: random.Random) -> int:
    """Let the workers run to their end, killing and restarting some; returns how many were killed at work:
    those that die at a failpoint for certain, the others if they are met there. Who waits for something is
    spared: what it was killed in would not be done again."""
    start_together(workers)
    landed = 0
    for worker in workers:
        if worker.dies_at:
            assert worker.process.wait() == -signal.SIGKILL
            landed += 1
            worker.restart()
    for _ in range(kills):
        alive = [worker for worker in workers if worker.process.poll() is None and not worker.waits]
        if not alive:
            break
        victim = chance.choice(alive)
        _wait_until_at_work(victim)
        time.sleep(chance.uniform(0.0, 0.05))
        victim.process.send_signal(signal.SIGKILL)
        victim.process.wait()
        landed += any(entry.outcome is None for entry in victim.entries()[-1:])
        victim.restart()
    for worker in workers:
        _, errors = worker.process.communicate(timeout=600)
        assert worker.process.returncode == 0, errors
    return landed


def _wait_until_at_work(worker: Worker) -> None:
    """Until it has begun a call and not ended it, or has no more to do."""
    while worker.process.poll() is None and all(entry.outcome is not None for entry in worker.entries()[-1:]):
        time.sleep(0.001)


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
    calls = [entry for entry in entries if entry.action != "wait"]
    slow = [entry for entry in calls if entry.returned and entry.returned - entry.called > LOCK_TIMEOUT_S]
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
