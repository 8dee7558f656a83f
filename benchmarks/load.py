"""What a load costs beside what nobody can avoid, and beside a graph database's bulk load.

In one run, each in a process of its own so that memory is its own: pyarrow's JSON parse of
the same lines (already sorted by type), raw Lance writes of the same Arrow data, `Graph.load`
with indexes counted apart, and Kuzu's COPY from Parquet when `--peer` names a Python that has
it. CPU seconds are user and system of the process, importing taken out.

    python -m benchmarks.load --edges 1000000 --peer /path/to/python
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import rmat


def parse(folder: Path) -> None:
    """pyarrow alone, with the schema given, on lines that need no sorting out."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    fields = {
        "nodes": [("name", pa.utf8()), ("age", pa.int32())],
        "edges": [("since", pa.utf8()), ("w", pa.float64())],
    }
    for name, columns in fields.items():
        schema = pa.schema(
            [
                ("type", pa.utf8()),
                ("edge", pa.utf8()),
                ("from", pa.utf8()),
                ("to", pa.utf8()),
                ("data", pa.struct(columns)),
            ]
        )
        options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
        arrow_json.read_json(folder / f"{name}.jsonl", arrow_json.ReadOptions(block_size=8 << 20), options)


def raw(folder: Path) -> None:
    """Lance alone: the same columns, ids included, written and committed without any check."""
    import lance
    import pyarrow.parquet as pq

    for name in ("nodes", "edges"):
        lance.write_dataset(
            pq.read_table(folder / f"{name}.parquet"),
            str(folder / f"raw-{name}"),
            enable_stable_row_ids=True,
            data_storage_version="2.2",
            max_rows_per_file=250_000,
        )


def ours(folder: Path, *, indexed: bool, parquet: bool = False) -> None:
    from omnigraph_core.graph import Graph
    from omnigraph_core.load import run
    from omnigraph_core.load.modes import LoadMode
    from omnigraph_core.settings import Settings

    if not indexed:
        run.ensure_indexes = lambda *_, **__: {}
    place = folder / ("indexed" if indexed else "plain")
    graph = Graph.init(str(place), rmat.SCHEMA, Settings(actor="bench"))
    inputs = ["Person.parquet", "Knows.parquet"] if parquet else ["all.jsonl"]
    graph.load([str(folder / each) for each in inputs], LoadMode.APPEND)


WORK: dict[str, Callable[[Path], None]] = {
    "pyarrow parse": parse,
    "raw Lance write": raw,
    "load": lambda folder: ours(folder, indexed=False),
    "load of Parquet": lambda folder: ours(folder, indexed=False, parquet=True),
    "load + indexes": lambda folder: ours(folder, indexed=True),
}

PARQUET_WORK = ("raw Lance write", "load of Parquet")

KUZU = textwrap.dedent("""
    import sys, time, resource, kuzu
    folder = sys.argv[1]
    c = kuzu.Connection(kuzu.Database(folder + "/kuzu"))
    c.execute("CREATE NODE TABLE Person(name STRING PRIMARY KEY, age INT32)")
    c.execute("CREATE REL TABLE Knows(FROM Person TO Person, since DATE, w DOUBLE)")
    b, t = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    c.execute(f"COPY Person FROM '{folder}/Person.parquet'")
    c.execute(f"COPY Knows FROM '{folder}/Knows.parquet'")
    a = resource.getrusage(resource.RUSAGE_SELF)
    cpu = a.ru_utime + a.ru_stime - b.ru_utime - b.ru_stime
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(time.perf_counter() - t, cpu, int(peak.split()[1]) / 1024)
""")


def measured(name: str, folder: Path) -> None:
    """Run one piece of work in this process and say what it took."""
    import lance  # noqa: F401
    import pyarrow.compute
    import pyarrow.json
    import pyarrow.parquet  # noqa: F401

    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    WORK[name](folder)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps([time.perf_counter() - start, cpu, _peak_mib()]))


def _peak_mib() -> float:
    """Unlike `ru_maxrss`, not inherited from the process that started this one."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def prepare(folder: Path, edges: int, *, text: bool) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from omnigraph_core.values.identity import fresh_ids

    if text:
        rmat.write_jsonl(folder / "all.jsonl", edges)
        lines = (folder / "all.jsonl").read_bytes().splitlines(keepends=True)
        (folder / "nodes.jsonl").write_bytes(b"".join(lines[: rmat.NODES]))
        (folder / "edges.jsonl").write_bytes(b"".join(lines[rmat.NODES :]))
    people, knows = rmat.tables(edges)
    pq.write_table(people, folder / "Person.parquet")
    pq.write_table(knows, folder / "Knows.parquet")
    pq.write_table(people.add_column(0, "id", people["name"]), folder / "nodes.parquet")
    pq.write_table(knows.add_column(0, "id", pa.chunked_array([fresh_ids(edges)])), folder / "edges.parquet")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--edges", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--peer", help="a Python interpreter that has kuzu")
    options.add_argument("--parquet", action="store_true", help="leave JSON lines out: for many edges")
    options.add_argument("--work", nargs=2, metavar=("NAME", "FOLDER"))
    arguments = options.parse_args()
    if arguments.work:
        measured(arguments.work[0], Path(arguments.work[1]))
        return
    best: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        prepare(folder, arguments.edges, text=not arguments.parquet)
        works = [work for work in WORK if not arguments.parquet or work in PARQUET_WORK]
        for _ in range(arguments.rounds):
            for work in works:
                command = [sys.executable, "-m", "benchmarks.load", "--work", work, str(folder)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                _keep_best(best, work, json.loads(done.stdout))
                _clear(folder)
            if arguments.peer:
                command = [arguments.peer, "-c", KUZU, str(folder)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                _keep_best(best, "kuzu COPY", [float(each) for each in done.stdout.split()])
                _clear(folder)
    rows = arguments.edges + rmat.NODES
    floor = best.get("pyarrow parse", [0.0, 0.0])[1] + best["raw Lance write"][1]
    print(
        f"{arguments.edges} edges, {rmat.NODES} nodes, best of {arguments.rounds}; floor = "
        f"{'raw write' if arguments.parquet else 'parse + raw write'}"
    )
    for work, (wall, cpu, peak) in best.items():
        print(
            f"{work:<16} {wall:6.2f} s  {cpu:6.2f} CPU s  {rows / wall / 1e3:7.0f} k rows/s  "
            f"{peak:6.0f} MiB  {cpu / floor:5.2f} x floor"
        )


def _keep_best(best: dict[str, list[float]], work: str, found: list[float]) -> None:
    known = best.get(work, found)
    best[work] = [min(pair) for pair in zip(known, found, strict=True)]


def _clear(folder: Path) -> None:
    import shutil

    for each in folder.iterdir():
        if each.suffix not in (".jsonl", ".parquet"):
            shutil.rmtree(each) if each.is_dir() else each.unlink()


if __name__ == "__main__":
    main()
