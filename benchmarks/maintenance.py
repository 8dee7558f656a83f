"""Does a graph that cron writes to stay as fast and as small as its data asks for?

Many one-row commits, with `maintain` after every so many. Compared within the same run, in CPU time
of the process: a one-row change and an open of the graph at the beginning and after each
`maintain`; and the size on disk with that of the same rows exported as Parquet.
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
from omnigraph_core.records import dataclass
from omnigraph_core.settings import Settings

SCHEMA = "node Person { name: String @key age: I32? }\nedge Knows: Person -> Person\n"
INSERT = "query put($name: String, $age: I32) { insert Person { name: $name, age: $age } }"
SAMPLES = 20


@dataclass(frozen=True, slots=True)
class Point:
    """What things cost after so many commits, in CPU milliseconds."""

    commits: int
    change_ms: float
    open_ms: float
    bytes: int
    versions: int


def cpu_ms(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return (time.process_time() - start) * 1000


def size_of(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


class Bench:
    """One graph, and a number for every row that was put into it."""

    def __init__(self, root: Path, keep: int) -> None:
        self.settings = Settings(fsync=False, actor="bench")
        self.graph = Graph.init(str(root), SCHEMA, self.settings)
        self.root, self.keep, self.commits = root, keep, 0

    def put(self) -> None:
        name = f"p{self.commits:06d}"
        self.graph.change(INSERT, params={"name": name, "age": self.commits})
        self.commits += 1

    def open(self) -> None:
        graph = Graph.open(str(self.root), self.settings)
        graph.snapshot()

    def measure(self) -> Point:
        changes = [cpu_ms(self.put) for _ in range(SAMPLES)]
        opens = [cpu_ms(self.open) for _ in range(SAMPLES)]
        versions = len(list((self.root / "__manifest" / "_versions").glob("*.manifest")))
        return Point(
            self.commits, statistics.median(changes), statistics.median(opens), size_of(self.root), versions
        )

    def parquet_bytes(self, folder: Path) -> int:
        import pyarrow as pa
        import pyarrow.parquet as pq

        total = 0
        for key, entry in self.graph.snapshot().tables.items():
            rows: pa.Table = self.graph.door.tables.open(entry.ref, entry.table_version).read()
            file = folder / f"{key.replace(':', '-')}.parquet"
            pq.write_table(rows, file)
            total += file.stat().st_size
        return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=20_000)
    parser.add_argument("--every", type=int, default=1_000, help="maintain after so many commits")
    parser.add_argument("--keep", type=int, default=10)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-maintenance-"))
    try:
        bench = Bench(folder / "g", options.keep)
        for _ in range(SAMPLES):
            bench.put()
        first = bench.measure()
        print(f"{'commits':>8} {'change':>9} {'open':>9} {'bytes':>12} {'versions':>9} {'maintain':>9}")
        show(first, first, 0.0)
        while bench.commits < options.commits:
            while bench.commits % options.every:
                bench.put()
            spent = cpu_ms(lambda: bench.graph.maintain(keep=options.keep, grace_s=0.0))
            show(last := bench.measure(), first, spent)
        bench.graph.maintain(keep=options.keep, grace_s=0.0)
        parquet, disk = bench.parquet_bytes(folder), size_of(bench.root)
        change, opened = last.change_ms / first.change_ms, last.open_ms / first.open_ms
        print(f"change {change:.2f} x the first, open {opened:.2f} x")
        print(f"disk {disk:,} bytes with --keep {options.keep}, Parquet {parquet:,}: {disk / parquet:.2f} x")
        bench.graph.cleanup(keep=1, grace_s=0.0, force=True)
        alone = size_of(bench.root)
        print(f"disk {alone:,} bytes with one commit kept: {alone / parquet:.2f} x")
        for name in sorted(each.name for each in bench.root.iterdir() if each.is_dir()):
            print(f"  {name:<32}{size_of(bench.root / name):>12,}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def show(point: Point, first: Point, maintained_ms: float) -> None:
    print(
        f"{point.commits:>8} {point.change_ms:7.1f}ms {point.open_ms:7.1f}ms {point.bytes:>12,} "
        f"{point.versions:>9} {maintained_ms:7.0f}ms  {point.change_ms / first.change_ms:.2f} x "
        f"{point.open_ms / first.open_ms:.2f} x",
        flush=True,
    )


if __name__ == "__main__":
    main()
