"""The newest operations of a young graph and of one with a history, against a one-row change.

Measured in CPU time, the minimum of several rounds, each by a graph that is opened anew; all in one
run, so the ratios survive a busy machine, and the milliseconds do not.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from benchmarks.diff import SCHEMA, cpu_ms
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings

SHOWN = 10


def change(graph: Graph, number: int) -> None:
    graph.change(f'query q() {{ insert P {{ name: "p{number}", age: {number} }} }}')


def newest(place: str, rounds: int) -> float:
    return cpu_ms(rounds, lambda _: Graph.open(place, Settings(actor="bench")).operations(SHOWN))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        place = str(root / "g")
        graph = Graph.init(place, SCHEMA, Settings(actor="bench", fsync=False))
        for number in range(SHOWN):
            change(graph, number)
        young = newest(place, given.rounds)
        for number in range(SHOWN, given.commits):
            change(graph, number)
        old = newest(place, given.rounds)
        write = cpu_ms(given.rounds, lambda number: change(graph, given.commits + number))
        print(
            f"op log --limit {SHOWN}: {young:.1f} ms CPU at {SHOWN} commits, {old:.1f} at {given.commits:,}"
        )
        print(f"{old / young:.2f} x a young graph's, {old / write:.2f} x a one-row change ({write:.1f} ms)")
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
