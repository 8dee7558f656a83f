"""A type as a DataFrame, beside Spark reading the same rows from Parquet; both in one Spark, in turns.

Every column of every row is read and hashed by Spark. CPU seconds are those of this process, the
JVM and its workers.

    python -m benchmarks.spark_frames --rows 5000000
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.spark import SCHEMA, Watcher, names

ROWS_AT_ONCE = 1_000_000
TURNS = 3


def prepare(folder: Path, rows: int) -> None:
    """People as Parquet and as a graph."""
    from omnigraph_core.graph import Graph
    from omnigraph_core.load import run
    from omnigraph_core.load.modes import LoadMode
    from omnigraph_core.settings import load_settings

    fields = pa.schema([("id", pa.utf8()), ("name", pa.utf8()), ("age", pa.int32())])
    with pq.ParquetWriter(folder / "Person.parquet", fields) as file:
        for start in range(0, rows, ROWS_AT_ONCE):
            numbers = np.arange(start, min(start + ROWS_AT_ONCE, rows))
            texts = names(numbers)
            table = pa.table({"id": texts, "name": texts, "age": pa.array(numbers % 90, pa.int32())})
            file.write_table(table, row_group_size=250_000)
    run.ensure_indexes = lambda *_, **__: {}
    graph = Graph.init(str(folder / "graph"), SCHEMA, load_settings())
    graph.load([str(folder / "Person.parquet")], LoadMode.APPEND)


def session(folder: Path) -> Any:
    from pyspark.sql import SparkSession

    from omnigraph_core.spark.source import OmnigraphSource

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.local.dir", str(folder)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(OmnigraphSource)
    return spark


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=5_000_000)
    rows = options.parse_args().rows
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        prepare(folder, rows)
        spark = session(folder)
        watcher = Watcher(os.getpid())
        watcher.start()
        ways = {
            "parquet": lambda: spark.read.parquet(str(folder / "Person.parquet")),
            "omnigraph": lambda: (
                spark.read.format("omnigraph").option("type", "Person").load(str(folder / "graph"))
            ),
        }
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        cpu: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(TURNS + 1):
            for way, frame in ways.items():
                before, began = watcher.cpu_s, time.perf_counter()
                found = frame().selectExpr("count(*)", "bit_xor(hash(id, name, age))").first()
                assert found[0] == rows
                if turn:
                    seconds[way].append(time.perf_counter() - began)
                    time.sleep(0.5)
                    cpu[way].append(watcher.cpu_s - before)
        print(f"{rows} rows, the best of {TURNS}")
        for way in ways:
            print(f"{way:<10} {min(seconds[way]):6.2f} s  {statistics.median(cpu[way]):6.2f} CPU s")
        print(f"ratio {min(seconds['omnigraph']) / min(seconds['parquet']):.2f} in time, ", end="")
        print(f"{min(cpu['omnigraph']) / min(cpu['parquet']):.2f} in CPU")
        spark.stop()


if __name__ == "__main__":
    main()
