"""The same load by itself and with Spark on local[2]: time, CPU and memory, phase by phase.

Each load runs in a process of its own. CPU seconds are user and system of that process and
of everything it has started, sampled from /proc; memory is the largest sum of their
proportional set sizes.

    python -m benchmarks.spark --nodes 2000000 --edges 5000000
    python -m benchmarks.spark --nodes 2000000 --edges 20000000 --only "spark jsonl"
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SCHEMA = """
node Person { name: String @key age: I32? }
edge Knows: Person -> Person { w: F64? }
"""
ROWS_AT_ONCE = 1_000_000
TICKS = os.sysconf("SC_CLK_TCK")


def prepare(folder: Path, nodes: int, edges: int) -> None:
    """People and who they know, as JSON lines and as Parquet."""
    random = np.random.default_rng(1)
    (folder / "parquet").mkdir()
    people = pq.ParquetWriter(
        folder / "parquet" / "Person.parquet", pa.schema([("name", pa.utf8()), ("age", pa.int32())])
    )
    knows = pq.ParquetWriter(
        folder / "parquet" / "Knows.parquet",
        pa.schema([("from", pa.utf8()), ("to", pa.utf8()), ("w", pa.float64())]),
    )
    with (folder / "all.jsonl").open("wb") as file:
        for start in range(0, nodes, ROWS_AT_ONCE):
            numbers = np.arange(start, min(start + ROWS_AT_ONCE, nodes))
            table = pa.table({"name": names(numbers), "age": pa.array(numbers % 90, pa.int32())})
            people.write_table(table, row_group_size=250_000)
            file.write(
                lines('{"type":"Person","data":{"name":"', table["name"], '","age":', table["age"], "}}")
            )
        for start in range(0, edges, ROWS_AT_ONCE):
            number = min(ROWS_AT_ONCE, edges - start)
            ends = random.integers(0, nodes, (2, number))
            table = pa.table(
                {"from": names(ends[0]), "to": names(ends[1]), "w": pa.array(ends[0] % 1000 / 1000)}
            )
            knows.write_table(table, row_group_size=250_000)
            file.write(
                lines(
                    '{"edge":"Knows","from":"',
                    table["from"],
                    '","to":"',
                    table["to"],
                    '","data":{"w":',
                    table["w"],
                    "}}",
                )
            )
    people.close()
    knows.close()


def names(numbers: np.ndarray[Any, Any]) -> pa.Array:
    return pc.binary_join_element_wise("person-", pa.array(numbers).cast(pa.utf8()), "")


def lines(*parts: str | pa.ChunkedArray) -> bytes:
    texts = [each if isinstance(each, str) else each.combine_chunks().cast(pa.utf8()) for each in parts]
    joined = pc.binary_join_element_wise(*texts, "\n", "")
    return bytes(joined.buffers()[2])


def load(folder: Path, name: str) -> None:
    """Load in this process, and print when each phase began."""
    from omnigraph_core.graph import Graph
    from omnigraph_core.load import run
    from omnigraph_core.load.modes import LoadMode
    from omnigraph_core.progress import ProgressEvent
    from omnigraph_core.settings import load_settings
    from omnigraph_core.spark.options import SparkOptions

    run.ensure_indexes = lambda *_, **__: {}
    way, format_ = name.split()
    graph = Graph.init(str(folder / "graph"), SCHEMA, load_settings())
    began: dict[str, float] = {}
    start = time.perf_counter()

    def note(event: ProgressEvent) -> None:
        began.setdefault(event.phase.split(" (")[0], time.perf_counter() - start)

    inputs = folder / ("all.jsonl" if format_ == "jsonl" else "parquet")
    options = SparkOptions("local[2]") if way == "spark" else None
    loaded = graph.load([str(inputs)], LoadMode.APPEND, spark=options, progress=note)
    ends = [*began.values(), time.perf_counter() - start]
    phases = {phase: ends[number + 1] - ends[number] for number, phase in enumerate(began)}
    print(json.dumps({"rows": loaded.total, "seconds": ends[-1], "phases": phases}))


class Watcher(threading.Thread):
    """Adds up CPU and memory of a process and all it starts, dead ones included."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._cpu: dict[int, float] = {}
        self._family = {pid}
        self.peak_mib = 0.0

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu.values())

    def run(self) -> None:
        while Path(f"/proc/{self._pid}").exists():
            self._look()
            time.sleep(0.1)

    def _look(self) -> None:
        memory = 0
        for entry in sorted((each for each in os.listdir("/proc") if each.isdigit()), key=int):
            with suppress(OSError, IndexError, ValueError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                pid, parent = int(entry), int(fields[1])
                if pid in self._family or parent in self._family:
                    self._family.add(pid)
                    self._cpu[pid] = (int(fields[11]) + int(fields[12])) / TICKS
                    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
                    memory += int(rollup.split("Pss:")[1].split()[0])
        self.peak_mib = max(self.peak_mib, memory / 1024)


def measured(folder: Path, name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.spark", "--load", name, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    watcher = Watcher(process.pid)
    watcher.start()
    out, _ = process.communicate()
    watcher.join()
    shutil.rmtree(folder / "graph", ignore_errors=True)
    return {**json.loads(out), "cpu": watcher.cpu_s, "peak": watcher.peak_mib}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--nodes", type=int, default=2_000_000)
    options.add_argument("--edges", type=int, default=5_000_000)
    options.add_argument("--only", action="append")
    options.add_argument("--load", nargs=2, metavar=("NAME", "FOLDER"))
    arguments = options.parse_args()
    if arguments.load:
        load(Path(arguments.load[1]), arguments.load[0])
        return
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        prepare(folder, arguments.nodes, arguments.edges)
        print(f"{arguments.nodes} nodes, {arguments.edges} edges, without indexes", flush=True)
        for work in arguments.only or ["local jsonl", "spark jsonl", "local parquet", "spark parquet"]:
            found = measured(folder, work)
            phases = ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in found["phases"].items())
            print(
                f"{work:<14} {found['seconds']:7.1f} s  {found['cpu']:7.1f} CPU s  {found['peak']:6.0f} MiB  "
                f"({phases})",
                flush=True,
            )


if __name__ == "__main__":
    main()
