"""Blame: what a step costs, against a one-row change, and what commits cost that changed something else.

A step is a change of the entity that blame has to look at. Measured in CPU time, the minimum of
several rounds, all in one run; so the ratios survive a busy machine, and the milliseconds do not.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from benchmarks.diff import SCHEMA, cpu_ms, load, people
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings


def change(graph: Graph, text: str, branch: str = "main") -> None:
    graph.change(f"query q() {{ {text} }}", branch=branch)


def measured(graph: Graph, name: str, rounds: int) -> float:
    """Blame by a graph that is open already, and keeps what a process keeps."""
    return cpu_ms(rounds, lambda _: graph.blame("P", name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--others", type=int, default=100, help="commits that change other rows")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        graph = Graph.init(str(root / "g"), SCHEMA, Settings(actor="bench"))
        load(graph, root / "all.parquet", people(0, given.rows, 30))
        change(graph, 'insert P { name: "still", age: 1 }')
        change(graph, 'insert P { name: "moving", age: 0 }')
        graph.optimize()
        few = measured(graph, "still", given.rounds)
        for number in range(given.steps):
            change(graph, f'update P set {{ age: {number + 1} }} where name = "moving"')
        for number in range(given.others):
            change(graph, f'update P set {{ age: {number} }} where name = "p{number:07}"')
        write = cpu_ms(
            given.rounds, lambda i: change(graph, f'update P set {{ age: {i} }} where name = "p0000999"')
        )
        still, moving = (measured(graph, name, given.rounds) for name in ("still", "moving"))
        origins = {each.property: each.commit for each in graph.blame("P", "moving").origins}
        assert len({commit.commit_id for commit in origins.values()}) == 2
        step = (moving - still) / given.steps
        print(f"rows {given.rows:,}; one-row change, synced: {write:.1f} ms CPU")
        print(f"a step {step:.2f} ms CPU, {step / write:.2f} x a change; {given.steps} steps {moving:.1f} ms")
        print(
            f"no step {few:.1f} ms, after {given.steps + given.others} commits of other rows {still:.1f} ms;"
            f" {(still - few) / (given.steps + given.others):.3f} ms a commit"
        )
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
