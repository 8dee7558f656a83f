"""Schema changes of a large type: against a one-row change, and against Lance's own `merge_columns`.

Adding, renaming and dropping a column move no row, so their cost must not follow the size of the
type. A default and a wider type write one column; the floor is what Lance takes to write it alone.
Everything is measured in one run, in CPU time (the minimum of some rounds): ratios survive a busy
machine, milliseconds do not.
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

BASE = "name: String @key age: I32? city: String? score: F64?"


def schema(properties: str) -> str:
    return f"node P {{ {properties} }}"


def cpu_ms(act: Callable[[], object]) -> float:
    start = time.process_time()
    act()
    return (time.process_time() - start) * 1000


def least(rounds: int, act: Callable[[], object]) -> float:
    return min(cpu_ms(act) for _ in range(rounds))


def fill(graph: Graph, root: Path, rows: int) -> None:
    numbers = range(rows)
    columns = {
        "name": [f"p{number:08}" for number in numbers],
        "age": pa.array([number % 90 for number in numbers], pa.int32()),
        "city": [f"city {number % 100}" for number in numbers],
        "score": [number / 7 for number in numbers],
    }
    pq.write_table(pa.table(columns), root / "all.parquet")
    graph.load([str(root / "all.parquet")], LoadMode.APPEND, type_name="P")


def floor_ms(graph: Graph, expression: str) -> float:
    """What Lance takes to write one more column of every fragment, without committing it."""
    entry = graph.snapshot().entry("node:P")
    dataset = graph._tables.open(entry.ref, entry.table_version).lance

    def write() -> None:
        for fragment in dataset.get_fragments():
            fragment.merge_columns({"floor": expression})

    return least(2, write)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        graph = Graph.init(str(root / "g"), schema(BASE), Settings(actor="bench"))
        fill(graph, root, given.rows)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        names = iter(range(1_000))
        write = least(5, lambda: graph.change(f'query q() {{ insert P {{ name: "new{next(names)}" }} }}'))
        print(f"{given.rows:,} rows; a one-row change {write:.1f} ms CPU")

        def apply(what: str, properties: str, against: float, word: str) -> None:
            taken = cpu_ms(lambda: graph.apply_schema(schema(properties)))
            print(f"{what:<24} {taken:8.1f} ms CPU, {taken / against:5.2f} x {word}")

        change = "a one-row change"
        apply("add a column", f"{BASE} note: String?", write, change)
        apply("rename it", f'{BASE} remark: String? @rename_from("note")', write, change)
        apply("drop it", BASE, write, change)
        constant, cast = floor_ms(graph, "'open'"), floor_ms(graph, "cast(age as bigint)")
        apply("a column with a default", f'{BASE} state: String? @default("open")', constant, "merge_columns")
        wider = BASE.replace("age: I32?", "age: I64?")
        apply("a wider type", f'{wider} state: String? @default("open")', cast, "merge_columns")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(f"memory beyond what the load had taken: {peak // 1024} MiB")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
