"""Small changes to a large table: a one-row insert and an update by key, in process and synced.

The floor, in turn with them, is one row appended to a plain Lance dataset of the same rows
and flushed.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.door import Floor
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings

SCHEMA = "node Person { name: String @key age: I32? }"
INSERT = "query q($k: String) { insert Person { name: $k, age: 1 } }"
UPDATE = "query q($k: String) { update Person set { age: 2 } where name = $k }"
DELETE = "query q($k: String) { delete Person where name = $k }"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=40)
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        names = pa.array([f"person-{number:07d}" for number in range(arguments.rows)])
        ages = pa.array(np.arange(arguments.rows) % 90, pa.int32())
        pq.write_table(pa.table({"name": names, "age": ages}), folder / "Person.parquet")
        graph = Graph.init(str(folder / "g"), SCHEMA, Settings(actor="bench"))
        graph.load([str(folder / "Person.parquet")], LoadMode.APPEND)
        floor = Floor(folder, synced=True)
        random = np.random.default_rng(1)
        spent: dict[str, list[float]] = {}
        for number in range(arguments.rounds):
            old = f"person-{random.integers(arguments.rows):07d}"
            work: dict[str, Callable[[], object]] = {
                "one bare append": lambda n=number: floor.write(f"row{n}"),
                "insert": lambda n=number: graph.change(INSERT, params={"k": f"new{n}"}),
                "insert of an existing key": lambda k=old: graph.change(INSERT, params={"k": k}),
                "update by key": lambda k=old: graph.change(UPDATE, params={"k": k}),
                "delete by key": lambda k=old: graph.change(DELETE, params={"k": k}),
            }
            for what, do in work.items():
                start = time.perf_counter()
                do()
                spent.setdefault(what, []).append((time.perf_counter() - start) * 1000)
    base = statistics.median(spent["one bare append"])
    print(f"on {arguments.rows} rows, synced, {arguments.rounds} rounds")
    for what, times in spent.items():
        middle = statistics.median(times)
        worst = sorted(times)[int(len(times) * 0.9)]
        print(f"{what:<26} {middle:6.1f} ms (min {min(times):.1f}, p90 {worst:.1f}) {middle / base:5.1f} x")


if __name__ == "__main__":
    main()
