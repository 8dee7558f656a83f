"""Merges: 50 + 50 changed rows in each of several types, against a one-row change; and one large merge.

Everything is measured in one run, in CPU time (the minimum of several rounds), so the ratios survive
a busy machine; the milliseconds do not. The large merge is measured by its peak of memory, too.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings

CHANGED = 50


def schema(types: int) -> str:
    return "".join(
        f"node P{number} {{ name: String @key age: I64? city: String? score: F64? }}\n"
        for number in range(types)
    )


def people(first: int, count: int, age: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "name": [f"p{number:07}" for number in numbers],
            "age": pa.array([age] * count, pa.int64()),
            "city": [f"city {number % 100}" for number in numbers],
            "score": [number / 7 for number in numbers],
        }
    )


def load(graph: Graph, path: Path, type_name: str, rows: pa.Table, branch: str) -> None:
    pq.write_table(rows, path)
    graph.load([str(path)], LoadMode.MERGE, type=type_name, branch=branch)


def cpu_ms(act: Callable[[], object]) -> float:
    start = time.process_time()
    act()
    return (time.process_time() - start) * 1000


def small_merges(place: Path, types: int, rows: int, rounds: int) -> None:
    graph = Graph.init(str(place / "small"), schema(types), Settings(actor="ann"))
    for number in range(types):
        load(graph, place / "rows.parquet", f"P{number}", people(0, rows, 1), "main")
    graph.create_branch("dev")
    merges, changes = [], []
    for turn in range(1, rounds + 1):
        for number in range(types):
            half = rows // 2
            load(graph, place / "rows.parquet", f"P{number}", people(0, CHANGED, -turn), "main")
            load(graph, place / "rows.parquet", f"P{number}", people(half, CHANGED, -turn), "dev")
        merges.append(cpu_ms(lambda: graph.merge("dev")))
        graph.merge("main", "dev")
        change = f'query q() {{ update P0 set {{ age: {turn} }} where name = "p0000007" }}'
        changes.append(cpu_ms(lambda change=change: graph.change(change)))  # type: ignore[misc]
        graph.merge("main", "dev")
    merged, changed = min(merges), min(changes)
    print(f"{types} types x {rows} rows, {CHANGED} + {CHANGED} changed in each")
    print(f"merge {merged:.0f} ms, one-row change {changed:.0f} ms, ratio {merged / changed:.1f}")


def large_merge(place: Path, rows: int) -> None:
    graph = Graph.init(str(place / "large"), schema(1), Settings(actor="ann"))
    load(graph, place / "rows.parquet", "P0", people(0, rows, 1), "main")
    graph.create_branch("dev")
    load(graph, place / "rows.parquet", "P0", people(0, rows, 2), "dev")
    graph.change("query q() { update P0 set { score: 0.5 } where name = 'p0000007' }".replace("'", '"'))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    spent = cpu_ms(lambda: graph.merge("dev"))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"merge of {rows} changed rows: {spent / 1000:.1f} s, peak {before} MiB before, {after} MiB after")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--types", type=int, default=8)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--large", type=int, default=1_000_000)
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="bench-merge-"))
    try:
        small_merges(place, given.types, given.rows, given.rounds)
        large_merge(place, given.large)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
