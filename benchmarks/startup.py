"""What a command costs from nothing to its exit, cold and warm.

Each round starts every command once in a new process, once with warm starts off and once through a
background process that is running, so that a busy machine is busy for all of them. A ratio is the
median of the rounds' own ratios: of cold commands to `python -c "import lance"`, of warm ones to
`python -c pass`. For `change` the time of the work itself, in a process that has done it before, is
shown too: on a graph that is open, and with opening it, as every command has to. Both packages are
compiled first, as pip does when it installs them: where Python writes no bytecode, a checkout would
be compiled in every process.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import omnigraph_cli
import omnigraph_core
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings

SCHEMA = """\
node Person {
  name: String @key
  age: I32?
}
node Company { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company @card(0..1)
"""
LOOKUP = 'query q() { match { $p: Person { name: "p7" } } return { $p.age } }'
HOP = 'query q() { match { $p: Person { name: "p7" } $p knows $q } return { $q.name, $q.age } }'
UPDATE = 'query q() { update Person set { age: 31 } where name = "p9" }'
OMNIGRAPH = str(Path(sys.executable).with_name("omnigraph"))
NOTHING, PEER = "python -c pass", "import lance"
CHANGE = "change, one row by key"
OWN_WORK = "  the work itself"
OPEN_AND_WORK = "  with opening the graph"

Spent = tuple[float, float]


def commands(store: str, row: Path) -> dict[str, list[str]]:
    return {
        "version": ["version"],
        "--help": ["--help"],
        "branch list": ["branch", "list", store],
        "snapshot": ["snapshot", store],
        "commit list": ["commit", "list", store],
        "query, one row by key": ["query", "--store", store, "-e", LOOKUP],
        "query, one hop": ["query", "--store", store, "-e", HOP],
        CHANGE: ["change", "--store", store, "-e", UPDATE],
        "load, one row": ["load", "--store", store, "--data", str(row), "--mode", "merge"],
    }


def prepare(folder: Path, rows: int) -> dict[str, list[str]]:
    """A graph of two commits, and the commands on it."""
    for package in (omnigraph_core, omnigraph_cli):
        compileall.compile_dir(Path(package.__path__[0]), quiet=2)
    records: list[dict[str, object]] = [
        {"type": "Person", "data": {"name": f"p{i}", "age": i % 90}} for i in range(rows)
    ]
    for i in range(3 * rows):
        records.append({"edge": "Knows", "from": f"p{i % rows}", "to": f"p{(i * 7 + 1) % rows}"})
    (folder / "people.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    (folder / "people.pg").write_text(SCHEMA)
    row = folder / "row.jsonl"
    row.write_text('{"type": "Company", "data": {"name": "Acme"}}\n')
    store = str(folder / "g")
    data = ["--data", str(folder / "people.jsonl"), "--mode", "append"]
    for arguments in (
        ["init", "--schema", str(folder / "people.pg"), store],
        ["load", "--store", store, *data],
    ):
        subprocess.run([OMNIGRAPH, *arguments], check=True, capture_output=True)
    return commands(store, row)


def start_server(folder: Path) -> None:
    """Of this run alone, for the commands that start warm."""
    (folder / "run").mkdir(mode=0o700)
    os.environ["XDG_RUNTIME_DIR"] = str(folder / "run")
    os.environ["OMNIGRAPH_WARM"] = "10m"
    while b"started warm" not in subprocess.run([OMNIGRAPH, "version", "-v"], capture_output=True).stderr:
        time.sleep(0.1)


def spent_by(command: list[str], warm: str = "off") -> Spent:
    """Seconds on the clock, and of processors; those of the background process are not seen."""
    environment = {**os.environ, "OMNIGRAPH_WARM": warm}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def one_round(
    todo: dict[str, list[str]], works: dict[str, Callable[[], object]]
) -> dict[tuple[str, str], Spent]:
    found = {("peer", each): spent_by([sys.executable, "-c", each.removeprefix("python -c ")])
             for each in (NOTHING, PEER)}  # fmt: skip
    for name, arguments in todo.items():
        found["cold", name] = spent_by([OMNIGRAPH, *arguments])
        found["warm", name] = spent_by([OMNIGRAPH, *arguments], "10m")
    for name, work in works.items():
        start = time.perf_counter()
        work()
        found["warm", name] = time.perf_counter() - start, 0.0
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--rows", type=int, default=1000)
    arguments = options.parse_args()
    os.environ["OMNIGRAPH_ACTOR"] = "bench"
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        todo = prepare(Path(folder), arguments.rows)
        start_server(Path(folder))
        store, settings = str(Path(folder) / "g"), Settings(actor="bench")
        graph = Graph.open(store, settings)
        works: dict[str, Callable[[], object]] = {
            OWN_WORK: lambda: graph.change(UPDATE),
            OPEN_AND_WORK: lambda: Graph.open(store, settings).change(UPDATE),
        }
        rounds = [one_round(todo, works) for _ in range(arguments.rounds)]
        subprocess.run([OMNIGRAPH, "warm", "stop"], check=True, capture_output=True)

    def shown(how: str, name: str, column: int, peer: str) -> str:
        if (how, name) not in rounds[0]:
            return " " * 17
        best = min(each[how, name][column] for each in rounds) * 1000
        ratio = statistics.median(each[how, name][column] / each["peer", peer][column] for each in rounds)
        return f"{best:7.0f} ms{ratio:6.2f}x"

    print(f"{'':<24}{'cold':>10}{'/lance':>7}{'CPU':>10}{'/lance':>7}{'warm':>10}{'/pass':>7}")
    for peer in (NOTHING, PEER):
        print(f"{peer:<24}{shown('peer', peer, 0, PEER)}{shown('peer', peer, 1, PEER)}"
              f"{shown('peer', NOTHING, 0, NOTHING) if peer == NOTHING else ''}")  # fmt: skip
    for name in (*todo, *works):
        print(f"{name:<24}{shown('cold', name, 0, PEER)}{shown('cold', name, 1, PEER)}"
              f"{shown('warm', name, 0, NOTHING)}")  # fmt: skip


if __name__ == "__main__":
    main()
