"""OmniGraph's side of the social network benchmark; questions come as lines on standard input."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from benchmarks import ldbc_data
from benchmarks.ldbc_answers import plain
from benchmarks.ldbc_queries import QUESTIONS, source, used
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import Settings, load_settings


def made(folder: Path, settings: Settings) -> Graph:
    """A graph of the tables in a folder."""
    graph = Graph.init(str(folder / "graph"), ldbc_data.SCHEMA, settings)
    graph.load([str(each) for each in sorted(folder.glob("*.parquet"))], LoadMode.APPEND)
    return graph


def asked(graph: Graph, name: str, keys: dict[str, object]) -> list[list[object]]:
    """The rows of the answer, as every engine gives them."""
    params = {key: keys[key] for key in used(QUESTIONS[name].gq)}
    found = graph.query(source(name), params=params).to_arrow()
    return plain(zip(*(column.to_pylist() for column in found.columns), strict=True))


def main(folder: Path) -> None:
    """A line is `[question, {key: value}]`; the answer `[ms, CPU ms, rows]`."""
    graph = Graph.open(str(folder / "graph"), load_settings(), OpenMode.READ_ONLY)
    for line in sys.stdin:
        name, keys = json.loads(line)
        start, cpu = time.perf_counter(), time.process_time()
        rows = asked(graph, name, keys)
        spent = [(time.perf_counter() - start) * 1000, (time.process_time() - cpu) * 1000]
        print(json.dumps([*spent, rows]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "load":
        start = time.perf_counter()
        made(Path(sys.argv[2]), load_settings()).build_topology()
        print(json.dumps(time.perf_counter() - start))
    else:
        main(Path(sys.argv[2]))
