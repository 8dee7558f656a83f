"""What one write through the door costs: in process, synced and not, by phase, as history grows.

The floor is what any writer on Lance pays: write one row, commit it, and (synced) flush the
files. It is measured in the same run, in turn with the door, so the ratio survives a noisy
machine; the milliseconds do not.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from omnigraph_core.graph import Graph
from omnigraph_core.ids import new_ulid
from omnigraph_core.manifest.publisher import Publisher
from omnigraph_core.settings import Settings
from omnigraph_core.tables.durability import Barrier
from omnigraph_core.tables.keys import find_keys
from omnigraph_core.tables.stage import stage_append
from omnigraph_core.write import door as door_module
from omnigraph_core.write import phases as phases_module
from omnigraph_core.write.attempt import Attempt
from omnigraph_core.write.plan import WritePlan, WriterKind

SCHEMA = "\n".join(f"node N{i} {{ name: String @key age: I32? }}" for i in range(8))


class Clock:
    """Milliseconds per phase, by wrapping the functions that are the phases."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.spent[name].append((time.perf_counter() - start) * 1000)

    def wrap(self, owner: Any, attribute: str, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, attribute)

        def timed(*arguments: Any, **keywords: Any) -> Any:
            with self.phase(name):
                return original(*arguments, **keywords)

        setattr(owner, attribute, timed)

    def table(self) -> str:
        rows = [f"  {name:<16}{statistics.median(times):7.2f}" for name, times in self.spent.items()]
        return "\n".join(rows)


def write(graph: Graph, keys: list[str], name: str, branch: str = "main") -> None:
    """Insert one row into each table, in one commit."""

    def build(attempt: Attempt) -> WritePlan:
        operation_id = new_ulid()
        tables = []
        for key in keys:
            writable = graph.door.open_for_write(attempt, key)
            table = writable.table
            row = pa.Table.from_pylist([{"id": name, "name": name, "age": None}], schema=table.schema)
            assert not find_keys(table, row.column("id")).num_rows
            staged = stage_append(graph.door.storage, table, row, operation_id)
            tables.append(writable.planned(graph.door.storage, staged))
        return WritePlan(operation_id, WriterKind.MUTATION, attempt, "bench", tables=tables)

    graph.door.write(branch, build)


class Floor:
    """One row into one plain Lance dataset, flushed when asked to."""

    def __init__(self, root: Path, *, synced: bool) -> None:
        self.uri, self.synced = str(root / "floor"), synced
        lance.write_dataset(pa.table({"id": ["first"]}), self.uri, enable_stable_row_ids=True)

    def write(self, name: str) -> None:
        before = set(Path(self.uri).rglob("*"))
        lance.write_dataset(pa.table({"id": [name]}), self.uri, mode="append")
        if not self.synced:
            return
        for path in set(Path(self.uri).rglob("*")) - before:
            self._flush(path)
        for folder in ("data", "_versions"):
            self._flush(Path(self.uri) / folder)

    def _flush(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)


class Spent:
    """Milliseconds of calls, on the clock and of processors."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def measure(self, call: Callable[[], None]) -> None:
        start, cpu = time.perf_counter(), time.process_time()
        call()
        self.cpu.append((time.process_time() - cpu) * 1000)
        self.wall.append((time.perf_counter() - start) * 1000)

    @property
    def recent(self) -> float:
        return statistics.median(self.wall[-20:])

    @property
    def recent_cpu(self) -> float:
        return statistics.median(self.cpu[-20:])


def measure(root: Path, tables: int, marks: list[int], *, synced: bool) -> None:
    graph = Graph.init(str(root / "g"), SCHEMA, Settings(fsync=synced, actor="bench"))
    keys = [f"node:N{i}" for i in range(tables)]
    floor = Floor(root, synced=synced)
    ours, bare = Spent(), Spent()
    for count in range(1, max(marks) + 1):
        ours.measure(lambda count=count: write(graph, keys, f"row{count}"))
        if count % 5 == 0 or count <= 20:
            bare.measure(lambda count=count: floor.write(f"row{count}"))
        if count in marks:
            worst = sorted(ours.wall[-100:])[int(len(ours.wall[-100:]) * 0.9)]
            kind = "synced" if synced else "unsynced"
            print(
                f"{tables} table{'s' if tables > 1 else ' '} {kind:<9} at {count:>5} commits: "
                f"{ours.recent:6.1f} ms (min {min(ours.wall[-20:]):.1f}, p90 {worst:.1f}), "
                f"{ours.recent / bare.recent:4.1f} x one bare Lance append ({bare.recent:.1f} ms); "
                f"of processors {ours.recent_cpu:.1f} ms, {ours.recent_cpu / bare.recent_cpu:.1f} x"
            )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--commits", type=int, default=100, help="how long a history to make")
    arguments = options.parse_args()
    marks = [mark for mark in (20, 100, 1000) if mark <= arguments.commits]
    clock = Clock()
    clock.wrap(door_module, "sync_staged", "sync staged")
    clock.wrap(phases_module.Phases, "record", "A sidecar")
    clock.wrap(phases_module, "commit_exact", "B table commit")
    clock.wrap(phases_module, "sync_manifests", "B sync")
    clock.wrap(Publisher, "publish", "C publish")
    clock.wrap(phases_module, "record_commit", "C history")
    clock.wrap(Barrier, "sync", "C sync")
    clock.wrap(phases_module.Phases, "_phase_d", "D sidecar")
    for synced in (True, False):
        for tables in (1, 3):
            root = Path(tempfile.mkdtemp(prefix="omnigraph-bench-"))
            try:
                clock.spent.clear()
                measure(root, tables, marks, synced=synced)
                print(clock.table())
            finally:
                shutil.rmtree(root)


if __name__ == "__main__":
    main()
