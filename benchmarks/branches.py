"""Branch create against a one-row change: at 8 and at 84 types, and as branches become many.

Neither the number of tables nor that of branches may matter. Both are measured in turn, in one run:
in CPU time (the minimum of the last rounds), which survives a busy machine, and on the clock.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings

# So many of the last rounds count.
ROUNDS = 20


def schema(nodes: int, edges: int) -> str:
    lines = [f"node N{i} {{ k: String @key }}" for i in range(nodes)]
    lines += [f"edge E{i}: N{i % nodes} -> N{i * 3 % nodes}" for i in range(edges)]
    return "\n".join(lines)


class Spent:
    """Milliseconds of the last rounds."""

    def __init__(self) -> None:
        self.cpu: list[float] = []
        self.wall: list[float] = []

    def measure(self, act: Callable[[], object]) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        act()
        self.cpu = [*self.cpu, (time.process_time() - cpu) * 1000][-ROUNDS:]
        self.wall = [*self.wall, (time.perf_counter() - wall) * 1000][-ROUNDS:]


def measure(root: Path, types: int, shape: tuple[int, int], branches: int) -> None:
    """Create so many branches; a change in turn with each of those that count."""
    graph = Graph.init(str(root), schema(*shape), Settings(actor="bench"))
    created, changed = Spent(), Spent()
    for number in range(branches):
        created.measure(lambda number=number: graph.create_branch(f"b{number:04}"))  # type: ignore[misc]
        if number >= branches - ROUNDS:
            change = f'query q() {{ insert N0 {{ k: "k{number}" }} }}'
            changed.measure(lambda change=change: graph.change(change))  # type: ignore[misc]
    cpu, wall = min(created.cpu), statistics.median(created.wall)
    print(
        f"{types:>2} types, {branches:>4} branches: create {cpu:.1f} ms of processors, "
        f"{cpu / min(changed.cpu):.2f} x a one-row change; on the clock {wall:.1f} ms, "
        f"{wall / statistics.median(changed.wall):.2f} x",
        flush=True,
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--branches", type=int, default=1000, help="how many to end with")
    given = options.parse_args()
    root = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        measure(root / "few", 8, (4, 4), 2 * ROUNDS)
        measure(root / "many", 84, (17, 67), 2 * ROUNDS)
        measure(root / "branches", 8, (4, 4), given.branches)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
