"""A process that works through a script of calls on a graph, and writes down what it saw.

`python -m tests.support.workers ROOT JOURNAL SCRIPT`. The journal gets one JSON line
before and one after each call, with the time of the one clock all processes share; what
is missing after a kill is exactly what nobody was told. Says `ready` when it has opened
the graph, and starts when it is given a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph_core.errors import BusyError, NotFoundError, OmnigraphError
from omnigraph_core.graph import Graph
from omnigraph_core.manifest.reader import BranchReplaced, check_branch
from omnigraph_core.manifest.snapshot import Snapshot
from omnigraph_core.write.branches import BranchExists
from tests.support import warm
from tests.support.linearizable import ABSENT, Call
from tests.support.processes import REPOSITORY, clean_environment
from tests.support.writers import WRITTEN, open_graph, write_three

LOCK_TIMEOUT_S = 120.0

Script = Sequence[tuple[str, str, str]]
"""(action, branch, argument): `add` a key, `read`, `create` from the ref in argument, `delete`; `wait` until
the file in argument is there, which is how a script makes sure that it meets somebody."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One call of a journal. `outcome` is None when the process was killed during it."""

    process: str
    action: str
    branch: str
    argument: str
    called: float
    returned: float | None
    outcome: str | None
    """`done`, `busy`, `replaced`, `absent`, `exists`, or the text of an error nobody expects."""
    value: dict[str, Any]

    def to_call(self, table: str) -> Call | None:
        """What this call says about one table; None when it says and changed nothing."""
        if self.action == "wait" or self.outcome in ("busy", "replaced"):
            return None
        argument = self.argument.split(",") if self.action == "create" else self.argument
        result: Any = self.outcome
        if self.outcome == "done":
            result = {"create": "made", "delete": "deleted"}.get(self.action)
            if self.action == "add":
                result = self.value["rows"][table]
            elif self.action == "read":
                result = frozenset(self.value["keys"][table])
        return Call(self.process, self.action, argument, result, self.called, self.returned)


class Worker:
    """The parent's view of one process: starts it, reads its journal, starts it again.

    With `dies_at` its first run arms a failpoint.
    """

    def __init__(
        self,
        root: Path,
        folder: Path,
        name: str,
        script: Script,
        *,
        fsync: bool = False,
        dies_at: str = "",
    ) -> None:
        self._root = root
        self._folder = folder
        self._fsync = fsync
        self.dies_at = dies_at
        self.name = name
        self.script = list(script)
        self.runs = 0
        self.process = self._start()

    @property
    def waits(self) -> bool:
        return any(action == "wait" for action, _, _ in self.script)

    def go(self) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def restart(self) -> None:
        """After a kill: go on with what was not begun. What was begun is not tried again."""
        self.process.communicate()
        self.process = self._start()
        self.go()

    def entries(self) -> list[Entry]:
        journals = sorted(self._folder.glob(f"{self.name}.*.journal"))
        return [entry for journal in journals for entry in read_journal(journal)]

    def _start(self) -> subprocess.Popen[str]:
        begun = sum(1 for entry in self.entries() if entry.outcome != "busy")
        self.runs += 1
        journal = self._folder / f"{self.name}.{self.runs:03d}.journal"
        return warm.Popen(
            [
                *(sys.executable, "-m", "tests.support.workers"),
                *(str(self._root), str(journal), json.dumps(self.script[begun:])),
            ],
            env=clean_environment(
                OMNIGRAPH_LOCK_TIMEOUT=str(LOCK_TIMEOUT_S),
                OMNIGRAPH_ACTOR=self.name,
                OMNIGRAPH_FSYNC="on" if self._fsync else "off",
                OMNIGRAPH_FAILPOINTS=self.dies_at if self.runs == 1 else "",
            ),
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def start_together(workers: Iterable[Worker]) -> None:
    """Let them begin when all of them have opened the graph."""
    workers = list(workers)
    for worker in workers:
        assert worker.process.stdout is not None
        assert worker.process.stdout.readline() == "ready\n", worker.process.communicate()[1]
    for worker in workers:
        worker.go()


def read_journal(journal: Path) -> list[Entry]:
    """Calls in order; a line that a kill cut short was never written."""
    entries: list[Entry] = []
    if not journal.exists():
        return entries
    lines = [json.loads(line) for line in journal.read_text().splitlines(keepends=True) if line[-1] == "\n"]
    for number, line in enumerate(lines):
        if line["event"] != "call":
            continue
        ended = lines[number + 1] if number + 1 < len(lines) else None
        entries.append(
            Entry(
                process=journal.name.removesuffix(".journal"),
                action=line["action"],
                branch=line["branch"],
                argument=line["argument"],
                called=line["time"],
                returned=ended["time"] if ended else None,
                outcome=ended["outcome"] if ended else None,
                value=ended["value"] if ended else {},
            )
        )
    return entries


# ---- in the process ----


def read_three(graph: Graph, branch: str) -> dict[str, list[str]]:
    """The keys in each of the three tables, all from one snapshot, of a branch that stayed."""
    snapshot = graph.snapshot(branch)
    try:
        return _read_tables(graph, snapshot)
    finally:
        check_branch(graph.door.manifest, snapshot)


def _read_tables(graph: Graph, snapshot: Snapshot) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key in WRITTEN:
        entry = snapshot.entry(key)
        keys = graph.door.tables.open(entry.ref, entry.table_version).read(["id"]).column("id").to_pylist()
        assert len(set(keys)) == len(keys) == entry.row_count, (key, entry.row_count, keys)
        found[key] = sorted(keys)
    return found


def perform(graph: Graph, action: str, branch: str, argument: str) -> dict[str, Any]:
    if action == "read":
        return {"keys": read_three(graph, branch)}
    if action == "create":
        return {"commit": graph.create_branch(branch, first_commit(graph)).commit_id}
    if action == "delete":
        graph.delete_branch(branch)
        return {}
    if action == "wait":
        while not os.path.exists(argument):
            time.sleep(0.01)
        return {}
    assert action == "add"
    published = write_three(graph, argument, branch, actor=graph.settings.actor or "nobody")
    rows = {key: published.snapshot.tables[key].row_count for key in WRITTEN}
    return {"commit": published.commit_id, "rows": rows, "warnings": published.warnings}


def first_commit(graph: Graph) -> str:
    """The commit of the write `first`: what every branch that comes and goes starts from."""
    commits = graph.log().commits.values()
    return next(each.commit_id for each in commits if each.message == "write first")


def outcome_of(graph: Graph, action: str, branch: str, argument: str) -> tuple[str, dict[str, Any]]:
    try:
        return "done", perform(graph, action, branch, argument)
    except BusyError as error:
        return "busy", {"error": str(error)}
    except BranchReplaced:
        return "replaced", {}
    except BranchExists:
        return "exists", {}
    except NotFoundError as error:
        return ABSENT, {"error": str(error)}
    except OmnigraphError as error:
        return f"{type(error).__name__}: {error} [{error.hint}]", {"trace": traceback.format_exc()}


def main() -> None:
    root, journal, script = sys.argv[1:]
    graph = open_graph(Path(root))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    descriptor = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(event: str, **more: Any) -> None:
        os.write(descriptor, (json.dumps({"event": event, "time": time.monotonic(), **more}) + "\n").encode())

    for action, branch, argument in json.loads(script):
        outcome = "busy"
        while outcome == "busy":
            note("call", action=action, branch=branch, argument=argument)
            outcome, value = outcome_of(graph, action, branch, argument)
            note("return", outcome=outcome, value=value)


if __name__ == "__main__":
    main()
