"""The difference of 50 changed rows in a million: against a one-row change, and against reading everything.

All three are measured in one run, in CPU time (the minimum of several rounds), so the ratios survive
a busy machine; the milliseconds do not.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from omnigraph_core.diff.equality import differ
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings

SCHEMA = "node P { name: String @key age: I64? city: String? score: F64? }"


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


def load(graph: Graph, path: Path, rows: pa.Table) -> None:
    pq.write_table(rows, path)
    graph.load([str(path)], LoadMode.MERGE, type="P")


def cpu_ms(rounds: int, act: Callable[[int], object]) -> float:
    """The least CPU time of several rounds."""
    best = float("inf")
    for number in range(rounds):
        start = time.process_time()
        act(number)
        best = min(best, (time.process_time() - start) * 1000)
    return best


def changed(graph: Graph, a: str, b: str) -> int:
    return sum(each.counts().total for each in graph.diff(a, b).table_diffs())


def changed_by_reading_all(graph: Graph, a: str, b: str) -> int:
    """Both states whole, joined by id, column by column."""
    tables = []
    for ref in (a, b):
        entry = graph.snapshot_of(ref).entry("node:P")
        tables.append(graph._tables.open(entry.ref, entry.table_version).read())
    old, new = tables
    ids = new.column("id").combine_chunks()
    places = pc.index_in(old.column("id"), value_set=ids)
    gone = len(places) - pc.sum(pc.is_valid(places)).as_py()
    kept, now = old.filter(pc.is_valid(places)), new.take(places.drop_null())
    differing = differ(kept.column("age"), now.column("age"))
    for name in ("city", "score", "name"):
        differing |= differ(kept.column(name), now.column(name))
    return int(gone + differing.sum() + new.num_rows - now.num_rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
    try:
        graph = Graph.init(str(root / "g"), SCHEMA, Settings(actor="bench"))
        load(graph, root / "all.parquet", people(0, given.rows, 30))
        spread = people(0, given.rows, 31).take(list(range(0, given.rows, given.rows // 30))[:30])
        load(graph, root / "some.parquet", pa.concat_tables([spread, people(given.rows, 10, 1)]))
        names = ", ".join(f'"p{number:07}"' for number in range(1, 11))
        graph.change("query q() { " + "".join(f"delete P where name = {n} " for n in names.split(", ")) + "}")
        assert changed(graph, "main~2", "main") == 50
        assert changed_by_reading_all(graph, "main~2", "main") == 50
        base, head = (graph.commit(ref).commit_id for ref in ("main~2", "main"))
        diff = cpu_ms(given.rounds, lambda _: changed(graph, base, head))
        full = cpu_ms(2, lambda _: changed_by_reading_all(graph, base, head))
        write = cpu_ms(
            given.rounds, lambda i: graph.change(f'query q() {{ insert P {{ name: "new {i}" }} }}')
        )
        log = cpu_ms(given.rounds, lambda _: (graph.at(base), graph.at(head)))
        print(f"rows {given.rows:,}: diff of 50 {diff:.1f} ms CPU, of it resolving two commit ids {log:.1f}")
        print(f"one-row change, synced: {write:.1f} ms CPU; diff / change {diff / write:.2f} x")
        print(f"reading and comparing everything: {full:.0f} ms CPU; full / diff {full / diff:.0f} x")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
