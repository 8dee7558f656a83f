"""Does a graph that cron writes to stay as fast and as small as its data asks for?

Many one-row commits, with `maintain` after every so many. After each `maintain`, a one-row change
and an open are measured in turn with those of a young graph of a few commits, in CPU time of the
process, so that the ratio survives a busy machine. The size on disk is compared with that of the
export as Parquet.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from omnigraph_core.graph import Graph
from omnigraph_core.records import dataclass
from omnigraph_core.schema.files import Format
from omnigraph_core.settings import Settings

SCHEMA = "node Person { name: String @key age: I32? note: String? }\nedge Knows: Person -> Person\n"
INSERT = (
    "query put($name: String, $age: I32, $note: String?) "
    "{ insert Person { name: $name, age: $age, note: $note } }"
)
SAMPLES = 20
YOUNG_COMMITS = 30


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a one-row change and of an open, in CPU milliseconds."""

    change_ms: float
    open_ms: float


def cpu_ms(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return (time.process_time() - start) * 1000


def size_of(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


class Bench:
    """One graph, and a number for every row that was put into it."""

    def __init__(self, root: Path, keep: int, note_bytes: int = 0) -> None:
        self.note_bytes = note_bytes
        self.settings = Settings(fsync=False, actor="bench")
        self.graph = Graph.init(str(root), SCHEMA, self.settings)
        self.root, self.keep, self.commits = root, keep, 0

    def put(self) -> None:
        name = f"p{self.commits:06d}"
        note = secrets.token_urlsafe(self.note_bytes)[: self.note_bytes] or None
        self.graph.change(INSERT, params={"name": name, "age": self.commits, "note": note})
        self.commits += 1

    def open(self) -> None:
        graph = Graph.open(str(self.root), self.settings)
        graph.snapshot()

    def parquet_bytes(self, folder: Path) -> int:
        """Of `omnigraph export --format parquet`."""
        files = self.graph.at().export_files(folder / f"export-{self.commits}", Format.PARQUET)
        return sum(file.stat().st_size for file in files)


def measured(folder: Path, bench: Bench) -> tuple[Cost, Cost]:
    """Of the graph, and of a young one beside it."""
    young = Bench(folder / f"young-{bench.commits}", bench.keep, bench.note_bytes)
    for _ in range(YOUNG_COMMITS):
        young.put()
    both = (bench, young)
    changes: list[list[float]] = [[], []]
    opens: list[list[float]] = [[], []]
    for _ in range(SAMPLES):
        for place, each in enumerate(both):
            changes[place].append(cpu_ms(each.put))
            opens[place].append(cpu_ms(each.open))
    shutil.rmtree(young.root)
    old, new = (
        Cost(statistics.median(change), statistics.median(opened))
        for change, opened in zip(changes, opens, strict=True)
    )
    return old, new


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=20_000)
    parser.add_argument("--every", type=int, default=1_000, help="maintain after so many commits")
    parser.add_argument("--keep", type=int, default=10)
    parser.add_argument("--note-bytes", type=int, default=0, help="of random text in every row")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="omnigraph-maintenance-"))
    try:
        bench = Bench(folder / "g", options.keep, options.note_bytes)
        titles = ("change", "ratio", "open", "ratio")
        print(
            f"{'commits':>8}",
            *(f"{title:>9}" for title in titles),
            f"{'bytes':>12} {'Parquet':>10} {'maintain':>9}",
        )
        while bench.commits < options.commits:
            for _ in range(options.every):
                bench.put()
            spent = cpu_ms(lambda: bench.graph.maintain(keep=options.keep, grace_s=0.0))
            size, parquet = size_of(bench.root), bench.parquet_bytes(folder)
            show(bench.commits, *measured(folder, bench), size, parquet, spent)
        bench.graph.maintain(keep=options.keep, grace_s=0.0)
        report(bench, bench.parquet_bytes(folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def report(bench: Bench, parquet: int) -> None:
    disk = size_of(bench.root)
    print(f"disk {disk:,} bytes with --keep {bench.keep}; Parquet {parquet:,}: {disk / parquet:.2f} x")
    bench.graph.cleanup(keep=1, grace_s=0.0, force=True)
    bench.graph.cleanup(keep=1, grace_s=0.0, force=True)
    alone = size_of(bench.root)
    print(f"disk {alone:,} bytes with one commit kept: {alone / parquet:.2f} x; {disk - alone:,} are pinned")
    for name in sorted(each.name for each in bench.root.iterdir() if each.is_dir()):
        print(f"  {name:<32}{size_of(bench.root / name):>12,}")


def show(commits: int, old: Cost, young: Cost, size: int, parquet: int, spent_ms: float) -> None:
    print(
        f"{commits:>8} {old.change_ms:7.1f}ms {old.change_ms / young.change_ms:8.2f}x "
        f"{old.open_ms:7.1f}ms {old.open_ms / young.open_ms:8.2f}x "
        f"{size:>12,} {parquet:>10,} {spent_ms:7.0f}ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
