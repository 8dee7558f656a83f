"""A writer on each of two branches and one who merges them both ways, each a process of its own.

Runnable: `python -m tests.support.merged_writers ROLE ROOT COUNT JOURNAL`. The writer of `main` and
that of `dev` do the same steps: they change another property of the same rows, and insert and delete
rows of their own. So every commit holds the first steps of one and the first steps of the other, and a
merge holds, of each, as many as the side that has more: that is all of the model.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from omnigraph_core.errors import BusyError, ConflictError
from omnigraph_core.graph import Graph
from omnigraph_core.settings import Settings
from tests.support.restarted import Process, acknowledged

SCHEMA = "node Item { k: String @key  a: I64?  b: I64? }\n"
SETTINGS = Settings(fsync=False, actor="tester", lock_timeout_s=300.0)
SHARED = ("s1", "s2", "s3", "mark")
BRANCHES = {"a": "main", "b": "dev"}
"""The property that each writer changes, and its branch."""
MET = 5
"""Before this step a writer waits for the first merge."""

Items = dict[str, dict[str, Any]]


def step(name: str, number: int) -> str:
    """The mutation of one step, numbered from 1; every fourth is a delete."""
    if number % 4 == 0:
        return f'query q() {{ delete Item where k = "{name}{number - 2}" }}'
    updates = (
        f'update Item set {{ {name}: {number} }} where k = "{key}"' for key in (f"s{number % 4}", "mark")
    )
    return f'query q() {{ {" ".join(updates)} insert Item {{ k: "{name}{number}", {name}: {number} }} }}'


def after(steps: dict[str, int]) -> Items:
    """What there is after the first steps of both."""
    items: Items = {key: {"k": key, "a": 0, "b": 0} for key in SHARED}
    for name, count in steps.items():
        for number in range(1, count + 1):
            if number % 4 == 0:
                del items[f"{name}{number - 2}"]
                continue
            items[f"s{number % 4}"][name] = items["mark"][name] = number
            items[f"{name}{number}"] = {"k": f"{name}{number}", name: number}
    return items


def steps_in(items: Items) -> dict[str, int]:
    """How many steps of each there are, as far as the mark tells."""
    found = {}
    for name in BRANCHES:
        last = items["mark"][name]
        found[name] = last + (last % 4 == 3 and f"{name}{last - 1}" not in items)
    return found


def items_at(graph: Graph, ref: str) -> Items:
    rows = (
        graph.at(ref)
        .query("query q() { match { $i: Item } return { $i.k as k, $i.a as a, $i.b as b } }")
        .to_arrow()
        .to_pylist()
    )
    return {row["k"]: {name: value for name, value in row.items() if value is not None} for row in rows}


def write(root: str, name: str, count: int, journal: Path) -> None:
    """Go on where the branch is, and note what was acknowledged."""
    branch = BRANCHES[name]
    done = steps_in(items_at(Graph.open(root, SETTINGS), branch))[name]
    assert done >= len(acknowledged(journal)), "an acknowledged write is lost"
    for number in range(done + 1, count + 1):
        if number == MET:
            _wait_for(journal, "merge")
        while True:
            try:
                Graph.open(root, SETTINGS).change(
                    step(name, number), branch=branch, message=f"{name} {number}"
                )
                break
            except (BusyError, ConflictError):
                continue
        _note(journal, number)


def merge(root: str, count: int, journal: Path) -> None:
    _wait_for(journal, *BRANCHES)
    for number in range(len(acknowledged(journal)), count):
        source, target = ("dev", "main") if number % 2 else ("main", "dev")
        while True:
            try:
                Graph.open(root, SETTINGS).merge(source, target)
                break
            except BusyError:
                continue
        _note(journal, number)


def _wait_for(journal: Path, *names: str) -> None:
    """Until each of these has done something: so at least one merge meets both, and both go on after it."""
    while not all(acknowledged(journal.with_stem(name)) for name in names):
        time.sleep(0.01)


def _note(journal: Path, number: int) -> None:
    with journal.open("a") as lines:
        lines.write(f"{number}\n")


def process(role: str, root: Path, count: int) -> Process:
    return Process("tests.support.merged_writers", root, role, [role, str(root), str(count)])


if __name__ == "__main__":
    _, role, root, count, journal = sys.argv
    if role == "merge":
        merge(root, int(count), Path(journal))
    else:
        write(root, role, int(count), Path(journal))
