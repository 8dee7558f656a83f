"""Schema changes of a large type: against a one-row change, and against Lance's own `merge_columns`.

Adding, renaming and dropping a column move no row, so their cost must not follow the size of the
type. A default and a wider type write one column; the floor is what Lance takes to write it alone.
Everything is measured in one run, in CPU time (the minimum of some rounds): ratios survive a busy
machine, milliseconds do not. Another process loads the rows, so the peak of memory is that of the
schema changes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings

ROUNDS = 3
KEY = "name: String @key city: String? score: F64?"
BASE = f"{KEY} a0: I32? a1: I32? a2: I32?"


def schema(properties: str) -> str:
    return f"node P {{ {properties} }}"


def cpu_ms(act: Callable[[], object]) -> float:
    start = time.process_time()
    act()
    return (time.process_time() - start) * 1000


def least(rounds: int, act: Callable[[], object]) -> float:
    return min(cpu_ms(act) for _ in range(rounds))


def fill(root: Path, rows: int) -> None:
    graph = Graph.init(str(root / "g"), schema(BASE), Settings(actor="bench"))
    numbers = range(rows)
    ages = pa.array([number % 90 for number in numbers], pa.int32())
    columns = {
        "name": [f"p{number:08}" for number in numbers],
        "city": [f"city {number % 100}" for number in numbers],
        "score": [number / 7 for number in numbers],
        **{f"a{number}": ages for number in range(ROUNDS)},
    }
    pq.write_table(pa.table(columns), root / "all.parquet")
    graph.load([str(root / "all.parquet")], LoadMode.APPEND, type="P")


def floor_ms(graph: Graph, expression: str) -> float:
    """What Lance takes to write one more column of every fragment, without committing it."""
    entry = graph.snapshot().entry("node:P")
    dataset = graph._tables.open(entry.ref, entry.table_version).lance

    def write() -> None:
        for fragment in dataset.get_fragments():
            fragment.merge_columns({"floor": expression})

    return least(ROUNDS, write)


def _ages(widened: int) -> str:
    return " ".join(f"a{each}: {'I64' if each <= widened else 'I32'}?" for each in range(ROUNDS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        loader = multiprocessing.get_context("spawn").Process(target=fill, args=(root, given.rows))
        loader.start()
        loader.join()
        graph = Graph.open(str(root / "g"), Settings(actor="bench"))
        names = iter(range(1_000))
        write = least(5, lambda: graph.change(f'query q() {{ insert P {{ name: "new{next(names)}" }} }}'))
        print(f"{given.rows:,} rows; a one-row change {write:.1f} ms CPU")

        def measure(what: str, steps: list[str], against: float, word: str) -> None:
            taken = min(cpu_ms(partial(graph.apply_schema, schema(each))) for each in steps)
            print(f"{what:<24} {taken:8.1f} ms CPU, {taken / against:5.2f} x {word}")

        change, rounds = "a one-row change", range(ROUNDS)
        extra = [" ".join(f"n{each}: String?" for each in range(number + 1)) for number in rounds]
        renamed = [
            " ".join(
                f'm{each}: String? @rename_from("n{each}")' if each <= number else f"n{each}: String?"
                for each in rounds
            )
            for number in rounds
        ]
        kept = [" ".join(f"m{each}: String?" for each in rounds if each > number) for number in rounds]
        measure("add a column", [f"{BASE} {each}" for each in extra], write, change)
        measure("rename it", [f"{BASE} {each}" for each in renamed], write, change)
        measure("drop it", [f"{BASE} {each}" for each in kept], write, change)
        constant, cast = floor_ms(graph, "'open'"), floor_ms(graph, "cast(a0 as bigint)")
        states = [" ".join(f'd{each}: String? @default("open")' for each in range(n + 1)) for n in rounds]
        filled = [f"{BASE} {each}" for each in states]
        measure("a column with a default", filled, constant, f"merge_columns ({constant:.0f} ms)")
        wide = [f"{KEY} {_ages(number)} {states[-1]}" for number in rounds]
        measure("a wider type", wide, cast, f"merge_columns ({cast:.0f} ms)")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"at most {peak} MiB of memory")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
