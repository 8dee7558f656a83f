"""The test graph of the benchmarks: people who know each other, with the skew of real networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

SCHEMA = """
node Person { name: String @key age: I32? }
edge Knows: Person -> Person { since: Date? w: F64? }
"""
SCALE = 17
NODES = 1 << SCALE


def endpoints(edges: int, seed: int = 1) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """R-MAT with the usual probabilities (0.57, 0.19, 0.19, 0.05)."""
    random = np.random.default_rng(seed)
    source = np.zeros(edges, np.int64)
    target = np.zeros(edges, np.int64)
    for _ in range(SCALE):
        where = random.random(edges)
        source = source * 2 + (where >= 0.76)
        target = target * 2 + (((where >= 0.57) & (where < 0.76)) | (where >= 0.95))
    return source, target


def tables(edges: int) -> tuple[pa.Table, pa.Table]:
    """Nodes (name, age) and edges (from, to, since, w) as Arrow tables."""
    names = pa.array([f"person-{number:06d}" for number in range(NODES)])
    people = pa.table({"name": names, "age": pa.array(np.arange(NODES) % 90, pa.int32())})
    source, target = endpoints(edges)
    days = pa.array(19723 + (source + target) % 28, pa.int32()).cast(pa.date32())
    weights = pa.array((source % 1000) / 1000)
    knows = pa.table(
        {
            "from": names.take(pa.array(source)),
            "to": names.take(pa.array(target)),
            "since": days,
            "w": weights,
        }
    )
    return people, knows


def write_jsonl(path: Path, edges: int) -> None:
    """The same as load records, nodes first."""
    people, knows = tables(edges)
    with path.open("w", encoding="ascii") as file:
        for name, age in zip(people["name"].to_pylist(), people["age"].to_pylist(), strict=True):
            file.write(f'{{"type":"Person","data":{{"name":"{name}","age":{age}}}}}\n')
        since = knows["since"].cast(pa.utf8())
        for row in zip(
            *(each.to_pylist() for each in (knows["from"], knows["to"], since, knows["w"])), strict=True
        ):
            file.write(
                '{{"edge":"Knows","from":"{}","to":"{}","data":{{"since":"{}","w":{}}}}}\n'.format(*row)
            )
