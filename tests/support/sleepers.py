"""Processes that fall asleep at a chosen failpoint, for longer than their lease, and wake up again.

Runnable: `python -m tests.support.sleepers PLACE VERB BRANCH NAME STOP` does one thing to a graph and
tells how it went, as JSON. `STOP` is a place as `Place` spells it, or "" to pass all of them; the
answer lists those that were passed while a lease was held, so that a test knows them all without
naming any.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph_core import faults
from omnigraph_core.errors import OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.load.modes import LoadMode
from omnigraph_core.settings import load_settings
from omnigraph_core.storage.lease import Lease
from tests.support import warm
from tests.support.paused import WAITING_S, go_on, stops
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.writers import open_graph, write_three


@dataclass(frozen=True, order=True)
class Place:
    """The `nth` time that a process comes to a failpoint with a lease in its hand."""

    failpoint: str
    nth: int

    def __str__(self) -> str:
        return f"{self.failpoint}#{self.nth}"


@dataclass(frozen=True)
class Ended:
    """How a sleeper ended. `hint` tells whether it knows what became of its write."""

    passed: list[Place]
    error: str | None
    hint: str | None
    commit_id: str | None


# ---- the test's side ----


def start(
    place: str, verb: str, branch: str, name: str, stop: Place | None, environment: dict[str, str]
) -> subprocess.Popen[str]:
    return warm.Popen(
        [sys.executable, "-m", "tests.support.sleepers", place, verb, branch, name, str(stop or "")],
        env=clean_environment(**environment),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=WAITING_S)
    assert process.returncode == 0, err
    answer = json.loads(out)
    passed = [Place(*each) for each in answer.pop("passed")]
    return Ended(passed, **answer)


@contextmanager
def asleep(process: subprocess.Popen[str]) -> Iterator[bool]:
    """While the block runs, the process sleeps; False when it ended without coming to its place."""
    try:
        yield stops(process)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()


def wake(process: subprocess.Popen[str]) -> Ended:
    go_on(process)
    return ended(process)


# ---- the sleeper's side ----


class Watcher:
    """Counts the failpoints passed by the main thread while a lease is held, and stops at one."""

    def __init__(self, stop: str) -> None:
        self._stop = stop
        self._held = 0
        self.counts: Counter[str] = Counter()
        self.passed: list[Place] = []

    def install(self) -> None:
        hit, try_acquire, release = faults.hit, Lease.try_acquire, Lease.release

        def taking(lease: Lease) -> bool:
            taken = try_acquire(lease)
            self._held += taken
            return taken

        def releasing(lease: Lease) -> None:
            self._held -= lease.holder is not None
            release(lease)

        def hitting(name: str) -> None:
            hit(name)
            if self._held and threading.current_thread() is threading.main_thread():
                self._pass(name)

        faults.hit = hitting
        Lease.try_acquire = taking  # type: ignore[method-assign]
        Lease.release = releasing  # type: ignore[method-assign]

    def _pass(self, name: str) -> None:
        self.counts[name] += 1
        place = Place(name, self.counts[name])
        self.passed.append(place)
        if str(place) == self._stop:
            os.kill(os.getpid(), signal.SIGSTOP)


def _load(graph: Graph, branch: str, name: str) -> str | None:
    records = (
        {"type": "Person", "data": {"name": name}},
        {"edge": "Knows", "from": name, "to": name, "data": {"id": name}},
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in records))
        return graph.load([str(path)], LoadMode.APPEND, branch=branch).commit_id


def _change(graph: Graph, branch: str, name: str) -> str | None:
    source = "query add($n: String) { insert Person { name: $n } insert Knows { from: $n, to: $n } }"
    return graph.change(source, params={"n": name}, branch=branch).commit_id


def _index(graph: Graph, branch: str, name: str) -> str | None:
    """A write that makes no commit: indexes of a table that has too many rows without."""
    from omnigraph_core.indexes.ensure import ensure_indexes

    ensure_indexes(graph.door, branch, ["node:Person"], "ann", unindexed_max=0)
    return None


def apply_another(graph: Graph, branch: str, name: str) -> str | None:
    """People get a property and the graph a type, both called so. Of those of earlier calls the last
    get other names, and those before them go, with their data."""
    source = graph.catalog_of(branch=branch).source
    for pattern, text in (
        (r"^.*\b[oO]ld_.*\n", ""),
        (r"^  new_(\w+): (.*)$", r'  old_\1: \2 @rename_from("new_\1")'),
        (r"^node New_(\w+)", r'node Old_\1 @rename_from("New_\1")'),
        (r"^node Person \{", f'node Person {{\n  new_{name}: String? @default("asleep")'),
    ):
        source = re.sub(pattern, text, source, flags=re.MULTILINE)
    source += f"node New_{name} {{ name: String @key }}\n"
    return graph.apply_schema(source, branch=branch, allow_data_loss=True).commit_id


def _optimize(graph: Graph, branch: str, name: str) -> str | None:
    graph.optimize(branch)
    return None


def _cleanup(graph: Graph, branch: str, name: str) -> str | None:
    """Everything but the newest commit of each branch goes, however young."""
    graph.cleanup(keep=1, grace_s=0, force=True)
    return None


def _recover(graph: Graph, branch: str, name: str) -> str | None:
    graph.prepare_for_writing(patient=True)
    return None


def _write(graph: Graph, branch: str, name: str) -> str | None:
    return write_three(graph, name, branch).commit_id


VERBS: dict[str, Callable[[Graph, str, str], str | None]] = {
    "load": _load,
    "change": _change,
    "index": _index,
    "schema apply": apply_another,
    "optimize": _optimize,
    "cleanup": _cleanup,
    "recovery run": _recover,
    "write": _write,
}


def main() -> None:
    place, verb, branch, name, stop = sys.argv[1:]
    watcher = Watcher(stop)
    watcher.install()
    answer: dict[str, Any] = {"error": None, "hint": None, "commit_id": None}
    try:
        graph = Graph.open(place, load_settings()) if verb == "recovery run" else open_graph(place)
        answer["commit_id"] = VERBS[verb](graph, branch, name)
    except OmnigraphError as error:
        answer["error"], answer["hint"] = f"{type(error).__name__}: {error}", error.hint
    answer["passed"] = [(each.failpoint, each.nth) for each in watcher.passed]
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
