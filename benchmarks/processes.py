"""Writes per second of 1, 2, 4 and 8 processes, all on one branch, and each on a branch of its own.

Every process opens the graph, makes a first commit, waits for the others, then makes one-row
commits, synced, for a few seconds. The ratio to a single process says what sharing a branch costs: its
writers take turns, so one branch cannot be faster than one process; own branches share
the disk, the processors and the actor table.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.door import SCHEMA, write
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings

PROCESSES = (1, 2, 4, 8)


def work(root: str, branch: str, name: str, seconds: float) -> None:
    """One writer: says `ready`, starts when told to, prints how many commits it made, its CPU time, and
    when its last one was done: how long processes take to exit is not what is measured."""
    settings = Settings(actor=name, lock_timeout_s=600.0)
    graph = Graph.open(root, settings, OpenMode.READ_WRITE)
    write(graph, ["node:N0"], f"{name}-first", branch)
    print("ready", flush=True)
    sys.stdin.readline()
    done, end, cpu = 0, time.monotonic() + seconds, time.process_time()
    while time.monotonic() < end:
        write(graph, ["node:N0"], f"{name}-{done}", branch)
        done += 1
    print(done, time.process_time() - cpu, time.monotonic(), flush=True)


def measure(root: str, branches: list[str], seconds: float) -> tuple[float, float]:
    """Commits per second of one process for each entry of `branches`, together; CPU ms of a commit."""
    command = [sys.executable, "-m", "benchmarks.processes", "--worker", root]
    workers = [
        subprocess.Popen(
            [*command, branch, f"w{number}-{len(branches)}-{branch}", "--seconds", str(seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number, branch in enumerate(branches)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    start = time.monotonic()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    told = [worker.communicate()[0].split() for worker in workers]
    done, cpu = sum(int(each[0]) for each in told), sum(float(each[1]) for each in told)
    return done / (max(float(each[2]) for each in told) - start), cpu / done * 1000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=6.0)
    options.add_argument("--processes", type=int, nargs="+", default=PROCESSES)
    options.add_argument("--worker", nargs=3, metavar=("ROOT", "BRANCH", "NAME"))
    arguments = options.parse_args()
    if arguments.worker:
        work(*arguments.worker, arguments.seconds)
        return
    alone = alone_cpu = 0.0
    for where in ("one branch", "own branches"):
        for count in arguments.processes:
            with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
                root = str(Path(folder) / "g")
                graph = Graph.init(root, SCHEMA, Settings(actor="bench"))
                branches = ["main"] * count
                if where == "own branches":
                    branches = [f"b{number}" for number in range(count)]
                    for branch in branches:
                        graph.create_branch(branch)
                rate, cpu = measure(root, branches, arguments.seconds)
                alone, alone_cpu = alone or rate, alone_cpu or cpu
                print(
                    f"{count} on {where:<13} {rate:6.1f} commits/s, {rate / alone:4.2f} x one process; "
                    f"of processors {cpu:5.1f} ms a commit, {cpu / alone_cpu:4.2f} x",
                    flush=True,
                )


if __name__ == "__main__":
    main()
