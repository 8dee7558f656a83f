"""Branch create and delete at 8 and at 84 types: it must not grow with the number of tables."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path

from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings


def schema(nodes: int, edges: int) -> str:
    lines = [f"node N{i} {{ k: String @key }}" for i in range(nodes)]
    lines += [f"edge E{i}: N{i % nodes} -> N{i * 3 % nodes}" for i in range(edges)]
    return "\n".join(lines)


def main() -> None:
    root = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        graphs = {
            types: Graph.init(str(root / f"g{types}"), schema(*shape), Settings(actor="bench"))
            for types, shape in ((8, (4, 4)), (84, (17, 67)))
        }
        times: dict[int, list[float]] = {types: [] for types in graphs}
        for number in range(30):
            for types, graph in graphs.items():
                start = time.perf_counter()
                graph.create_branch(f"b{number}")
                times[types].append((time.perf_counter() - start) * 1000)
        for types, spent in times.items():
            print(f"branch create, synced, {types:>2} types: {statistics.median(spent):.1f} ms")
        print(f"84 types / 8 types: {statistics.median(times[84]) / statistics.median(times[8]):.2f} x")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
