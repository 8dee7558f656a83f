"""What it costs to go very far: 64 processes at once, a thousand branches, a thousand types.

Every command must end well, or with an error that is documented (busy, 8). Times are of processors, and
said beside those of a small graph in the same run.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

from omnigraph_core.errors import OmnigraphError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings

SCHEMA = "node Person { name: String @key }\n"
INSERT = "query q($n: String) { insert Person { name: $n } }"
QUERY = 'query q() { match { $p: Person { name: "first" } } return { $p.name as n } }'
SETTINGS = Settings(actor="bench", lock_timeout_s=600.0)
CROWD, COMMITS = 64, 3


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def cpu_ms(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1000


def write(root: str, branch: str, name: str) -> str:
    """One commit in a process that opens the graph for it; how it ended."""
    try:
        Graph.open(root, SETTINGS, OpenMode.READ_WRITE).change(INSERT, params={"n": name}, branch=branch)
    except OmnigraphError as error:
        return type(error).__name__
    return "done"


def crowd(root: str, branches: list[str]) -> Counter[str]:
    """As many processes as branches are named, forked from this one, each with a few commits."""
    ends = []
    for number, branch in enumerate(branches):
        reader, writer = os.pipe()
        if os.fork() == 0:
            told = [write(root, branch, f"p{number}.{turn}") for turn in range(COMMITS)]
            os.write(writer, "\n".join(told).encode())
            os._exit(0)
        os.close(writer)
        ends.append(reader)
    outcomes: Counter[str] = Counter()
    for reader in ends:
        with os.fdopen(reader) as answers:
            outcomes.update(answers.read().split("\n"))
    for _ in ends:
        os.wait()
    return outcomes


def in_a_fork(work: Callable[[], object]) -> None:
    """Lance's threads do not live through a fork: whatever starts them does so in a child."""
    if os.fork() == 0:
        work()
        os._exit(0)
    os.wait()


def processes(folder: Path) -> None:
    _crowded(str(folder / "one"), "one branch", ["main"] * CROWD)
    _crowded(str(folder / "own"), f"{CROWD} branches", [f"b{number}" for number in range(CROWD)])


def _crowded(root: str, where: str, branches: list[str]) -> None:
    distinct = list(dict.fromkeys(branches))

    def make() -> None:
        graph = Graph.init(root, SCHEMA, SETTINGS)
        for branch in distinct:
            if branch != "main":
                graph.create_branch(branch)

    in_a_fork(make)
    begun = time.monotonic()
    outcomes = crowd(root, branches)
    took = time.monotonic() - begun

    def count() -> None:
        graph = Graph.open(root, SETTINGS)
        rows = sum(graph.snapshot(each).tables["node:Person"].row_count for each in distinct)
        say(f"{CROWD} processes on {where}: {dict(outcomes)} in {took:.1f} s; {rows} rows are there")

    in_a_fork(count)


def branches(folder: Path, count: int) -> None:
    graph = Graph.init(str(folder / "branches"), SCHEMA, SETTINGS)
    graph.change(INSERT, params={"n": "first"})
    for number in range(count):
        took = cpu_ms(partial(graph.create_branch, f"b{number}"))
        if number + 1 in (10, 100, count):
            _costs(graph, f"{number + 1} branches: create {took:.0f} ms", f"b{number}")


def types(folder: Path, count: int) -> None:
    for many in (10, count):
        more = "".join(f"node T{number} {{ name: String @key }}\n" for number in range(many - 1))
        root = str(folder / f"types-{many}")
        took = cpu_ms(partial(Graph.init, root, SCHEMA + more, SETTINGS))
        graph = Graph.open(root, SETTINGS, OpenMode.READ_WRITE)
        graph.change(INSERT, params={"n": "first"})
        created = cpu_ms(partial(graph.create_branch, "dev"))
        _costs(graph, f"{many} types: init {took:.0f} ms, branch create {created:.0f} ms", "dev")


def _costs(graph: Graph, what: str, branch: str) -> None:
    root = str(graph.location)
    opened = cpu_ms(lambda: Graph.open(root, SETTINGS).snapshot())
    changed = cpu_ms(lambda: graph.change(INSERT, params={"n": f"on {branch}"}))
    forked = cpu_ms(lambda: graph.change(INSERT, params={"n": "forked"}, branch=branch))
    asked = cpu_ms(lambda: graph.query(QUERY))
    listed = cpu_ms(graph.branches)
    say(
        f"{what}; open {opened:.0f}, change {changed:.0f}, first change of a branch {forked:.0f}, "
        f"query {asked:.0f}, branch list {listed:.0f} ms of processors"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--branches", type=int, default=1000)
    options.add_argument("--types", type=int, default=1000)
    options.add_argument("what", nargs="*", default=["processes", "branches", "types"])
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as place:
        folder = Path(place)
        if "processes" in arguments.what:
            processes(folder)
        if "branches" in arguments.what:
            branches(folder, arguments.branches)
        if "types" in arguments.what:
            types(folder, arguments.types)


if __name__ == "__main__":
    main()
