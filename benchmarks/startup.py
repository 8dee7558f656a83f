"""What a command costs from nothing to its exit, as a ratio to `python -c "import lance"`.

Each round starts every command once, in a new process, so that a busy machine is busy for all of
them. Times are the best of all rounds; a ratio is the median of the rounds' own ratios. Both
packages are compiled first, as pip does when it installs them: where Python writes no bytecode, a
checkout would be compiled in every process.
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
from pathlib import Path

import omnigraph_cli
import omnigraph_core

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
UPDATE = 'query q() { update Person set { age: 31 } where name = "p9" }'
PEER = "import lance"
Spent = tuple[float, float]


def commands(store: str, row: Path) -> dict[str, list[str]]:
    omnigraph = str(Path(sys.executable).with_name("omnigraph"))
    return {
        PEER: [sys.executable, "-c", PEER],
        "--help": [omnigraph, "--help"],
        "branch list": [omnigraph, "branch", "list", store],
        "snapshot": [omnigraph, "snapshot", store],
        "query, one row by key": [omnigraph, "query", "--store", store, "-e", LOOKUP],
        "change, one row by key": [omnigraph, "change", "--store", store, "-e", UPDATE],
        "load, one row": [omnigraph, "load", "--store", store, "--data", str(row), "--mode", "merge"],
    }


def prepare(folder: Path, rows: int) -> dict[str, list[str]]:
    """A graph of two commits, and the commands on it."""
    for package in (omnigraph_core, omnigraph_cli):
        compileall.compile_dir(Path(package.__path__[0]), quiet=2)
    people = [{"type": "Person", "data": {"name": f"p{i}", "age": i % 90}} for i in range(rows)]
    (folder / "people.jsonl").write_text("".join(json.dumps(each) + "\n" for each in people))
    (folder / "people.pg").write_text(SCHEMA)
    row = folder / "row.jsonl"
    row.write_text('{"type": "Company", "data": {"name": "Acme"}}\n')
    store = str(folder / "g")
    omnigraph = Path(sys.executable).with_name("omnigraph")
    data = ["--data", str(folder / "people.jsonl"), "--mode", "append"]
    for arguments in (
        ["init", "--schema", str(folder / "people.pg"), store],
        ["load", "--store", store, *data],
    ):
        subprocess.run([omnigraph, *arguments], check=True, capture_output=True)
    return commands(store, row)


def spent_by(command: list[str]) -> Spent:
    """Seconds on the clock, and of processors."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--rows", type=int, default=1000)
    arguments = options.parse_args()
    os.environ["OMNIGRAPH_ACTOR"] = "bench"
    with tempfile.TemporaryDirectory(prefix="omnigraph-bench-") as folder:
        todo = prepare(Path(folder), arguments.rows)
        rounds = [
            {name: spent_by(command) for name, command in todo.items()} for _ in range(arguments.rounds)
        ]
    print(f"{'':<24}{'wall':>9}{'ratio':>7}{'CPU':>10}{'ratio':>7}")
    for name in todo:
        wall, cpu = (min(each[name][i] for each in rounds) * 1000 for i in (0, 1))
        ratios = [statistics.median(each[name][i] / each[PEER][i] for each in rounds) for i in (0, 1)]
        print(f"{name:<24}{wall:6.0f} ms{ratios[0]:6.2f}x{cpu:7.0f} ms{ratios[1]:6.2f}x")


if __name__ == "__main__":
    main()
