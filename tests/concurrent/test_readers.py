"""Readers beside writers: whole commits only, never backwards, never a failure."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path

import pytest

from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings, load_settings
from tests.support import warm
from tests.support.many_writers import FULL, SMALL, Size, adds_and_reads, check_history, run_all
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.records import PEOPLE
from tests.support.trees import fingerprint
from tests.support.workers import Worker, read_three
from tests.support.writers import WRITTEN, content, write_three

BRANCHES = ("main", "dev")
READERS = ("r1", "r2")


def watch(root: str, stop: Path, me: str) -> None:
    """Read all the time until told to stop; any failure ends the process. Says how many heads it has seen.

    One graph stays open (its caches move with the branch), and every few rounds another
    is opened, as a fresh command would.
    """
    kept = Graph.open(root, load_settings(), OpenMode.AS_IS)
    seen: dict[str, set[str]] = {branch: set() for branch in BRANCHES}
    heads: dict[str, set[str]] = {branch: set() for branch in BRANCHES}
    rounds = 0
    while not stop.exists() or rounds == 0:
        rounds += 1
        graph = kept if rounds % 4 else Graph.open(root, load_settings(), OpenMode.AS_IS)
        for branch in BRANCHES:
            found = read_three(graph, branch)
            keys = {tuple(each) for each in found.values()}
            assert len(keys) == 1, f"half a commit on {branch}: {found}"
            now = set(keys.pop())
            assert seen[branch] <= now, f"{branch} went back: {seen[branch] - now} vanished"
            seen[branch] = now
            heads[branch].add(graph.snapshot(branch).head.commit_id)  # type: ignore[union-attr]
        if rounds % 3 == 0:
            check_log(graph)
        stop.with_name(f"{me}-{len(heads['main'])}").touch()


def check_log(graph: Graph) -> None:
    """History has no hole at any time, and any commit in it can be read as it was."""
    log = graph.log()
    for branch in BRANCHES:
        history = log.history(branch)
        parents = [each.parent_commit_id for each in history]
        assert parents == [*(each.commit_id for each in history[1:]), None], (
            f"{branch}: a hole in the history"
        )
        old = random.choice(history)
        snapshot = graph.snapshot_of(old.commit_id)
        assert snapshot.head is not None
        assert snapshot.head.commit_id == old.commit_id
        counts = {snapshot.tables[key].row_count for key in WRITTEN}
        assert len(counts) == 1, f"half a commit at {old.commit_id}"


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(Size(processes=3, writes=SMALL.writes, kills=3), id="small"),
        pytest.param(FULL, id="full", marks=[pytest.mark.soak, pytest.mark.timeout(900)]),
    ],
)
def test_readers_beside_writers(size: Size, tmp_path: Path) -> None:
    root, stop = tmp_path / "g", tmp_path / "stop"
    settings = Settings(fsync=False, actor="tester")
    graph = Graph.init(str(root), PEOPLE, settings)
    write_three(graph, "first")
    graph.create_branch("dev")
    readers = [
        warm.Popen(
            [sys.executable, "-m", "tests.concurrent.test_readers", str(root), str(stop), name],
            env=clean_environment(),
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in READERS
    ]
    scripts = [
        adds_and_reads(f"w{number}", BRANCHES[number % 2], size.writes) for number in range(size.processes)
    ]
    # The first writer, on main, goes on when the readers have seen what it wrote.
    meetings = [
        [
            ("add", "main", f"met.{heads}"),
            *(("wait", "main", str(tmp_path / f"{name}-{heads}")) for name in READERS),
        ]
        for heads in (2, 3, 4)
    ]
    scripts[0] = [*chain.from_iterable(meetings), *scripts[0]]
    workers = [Worker(root, tmp_path, f"w{number}", script) for number, script in enumerate(scripts)]
    try:
        while not all((tmp_path / f"{name}-1").exists() for name in READERS):
            assert all(reader.poll() is None for reader in readers)
            time.sleep(0.01)
        run_all(workers, size.kills, random.Random(7))
    finally:
        stop.touch()
        ended = [(reader.communicate(timeout=240), reader.returncode) for reader in readers]
    for (_, errors), code in ended:
        assert code == 0, errors
    entries = [entry for worker in workers for entry in worker.entries()]
    first = frozenset({"first"})
    check_history(root, entries, {"main": first, "dev": first})


def test_reading_writes_nothing(tmp_path: Path) -> None:
    """Also when there is a dead writer's work to be recovered: that is for writers."""
    root = tmp_path / "g"
    graph = Graph.init(str(root), PEOPLE, Settings(fsync=False, actor="tester"))
    write_three(graph, "first")
    before = content(graph)
    dead = warm.run(
        [sys.executable, "-m", "tests.support.writers", str(root), "main", "second"],
        env=clean_environment(OMNIGRAPH_FAILPOINTS="write.after_b=kill"),
        cwd=REPOSITORY,
        check=False,
    )
    assert dead.returncode == -9
    files = fingerprint(root)
    reader = Graph.open(str(root), Settings(fsync=False), OpenMode.AS_IS)
    assert content(reader) == before
    assert len(reader.log().history("main")) == 2
    assert fingerprint(root) == files


if __name__ == "__main__":
    watch(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
