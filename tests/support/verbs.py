"""Every verb there is, asked of one graph in this process: for graphs that are damaged or hostile.

A verb answers, or raises one of our errors; anything else is what the command line calls a bug
(exit code 70) and ends the test. So does a verb that does not come back.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph_core.errors import InternalError, OmnigraphError
from omnigraph_core.graph import Graph, OpenMode
from omnigraph_core.settings import Settings

SETTINGS = Settings(fsync=False, actor="ann", lock_timeout_s=5)
PATIENCE_S = 120
INSERT = 'query q() { insert Company { name: "by-%s" } }'
HOPS = "query q() { match { $p: Person $p knows $q } return { $q.name, count($p) as n } }"
SEARCH = 'query q() { match { $c: Company } return { $c.name } order { bm25($c.name, "one") } limit 3 }'
WIDER = "node Extra { name: String @key }\n"

Verb = Callable[[Graph], Any]

READS: dict[str, Verb] = {
    "status": lambda graph: (
        graph.snapshot(),
        graph.branches(),
        graph.pending(),
        graph.unreadable(),
        graph.lock_holder("main"),
    ),
    "branches": lambda graph: graph.branches(),
    "commits": lambda graph: graph.log().history("main"),
    "export": lambda graph: b"".join(graph.export()),
    "export dev": lambda graph: b"".join(graph.export(branch="dev")),
    "export before": lambda graph: b"".join(graph.export("main~1")),
    "query": lambda graph: graph.query("query q() { match { $p: Person } return { $p.name } }").to_arrow(),
    "diff": lambda graph: graph.diff("main", "dev"),
    "commits of an entity": lambda graph: graph.commits(entity_id="one", type_name="Company"),
    "hops": lambda graph: graph.query(HOPS).to_arrow(),
    "search": lambda graph: graph.query(SEARCH).to_arrow(),
    "schema plan": lambda graph: graph.plan_schema(graph.catalog_of().source + WIDER),
    "moved": lambda graph: graph.moved_branches(),
    "removals": lambda graph: graph.removals(),
    "blame": lambda graph: graph.blame("Company", "one"),
    "recoveries": lambda graph: graph.recoveries(),
    "tags": lambda graph: graph.tags(),
    "deleted": lambda graph: graph.deleted_branches(),
    "operations": lambda graph: graph.operations(),
    "schema": lambda graph: graph.catalog_of(),
    "doctor": lambda graph: graph.doctor(deep=True),
    "cleanup --dry-run": lambda graph: graph.cleanup(keep=3, dry_run=True),
}

WRITES: dict[str, Verb] = {
    "recovery run": lambda graph: None,
    "change": lambda graph: graph.change(INSERT % "main"),
    "change dev": lambda graph: graph.change(INSERT % "dev", branch="dev"),
    "load": lambda graph: graph.load({"Company": pa.table({"name": ["loaded"]})}, "merge"),
    "load --from": lambda graph: graph.load(
        {"Company": pa.table({"name": ["loaded"]})}, "append", branch="loaded", source="dev"
    ),
    "revert": lambda graph: graph.revert("main", strategy="ours"),
    "reset": lambda graph: graph.reset_branch("dev", "dev~1"),
    "index build": lambda graph: graph.build_topology("main"),
    "relocate": lambda graph: graph.relocate(),
    "adopt": lambda graph: graph.adopt(),
    "tag": lambda graph: graph.create_tag("fresh", "main"),
    "tag delete": lambda graph: graph.delete_tag("fresh"),
    "branch": lambda graph: graph.create_branch("fresh"),
    "rename": lambda graph: graph.rename_branch("fresh", "renamed"),
    "branch delete": lambda graph: graph.delete_branch("renamed"),
    "undelete": lambda graph: graph.undelete_branch("renamed"),
    "merge": lambda graph: graph.merge("dev", strategy="ours"),
    "undo": lambda graph: graph.undo(),
    "schema apply": lambda graph: graph.apply_schema(graph.catalog_of().source + WIDER),
    "optimize": lambda graph: graph.optimize(),
    "cleanup": lambda graph: graph.cleanup(keep=1, force=True, grace_s=0),
    "repair": lambda graph: graph.repair(),
    "maintain": lambda graph: graph.maintain(),
}


class StillWaiting(BaseException):
    """A verb did not come back."""


@contextmanager
def coming_back(what: str) -> Iterator[None]:
    """Raise in the block if it takes too long, as it does when it waits for a FIFO."""

    def give_up(*_: object) -> None:
        raise StillWaiting(what)

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(PATIENCE_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def ask(root: Path, name: str) -> Any:
    """What a verb answers; one of our errors is an answer, too."""
    mode = OpenMode.READ_WRITE if name in WRITES else OpenMode.READ_ONLY
    try:
        with coming_back(name):
            return {**READS, **WRITES}[name](Graph.open(str(root), SETTINGS, mode))
    except InternalError as error:
        error.add_note(f"of {name}")
        raise
    except OmnigraphError as error:
        return error
    except BaseException as error:
        error.add_note(f"of {name}")
        raise


def ask_all(root: Path, names: Iterable[str] = (*READS, *WRITES)) -> dict[str, Any]:
    """All of them in turn; later ones see what earlier ones did."""
    return {name: ask(root, name) for name in names}


def refusals(answers: Mapping[str, Any]) -> dict[str, OmnigraphError]:
    return {name: answer for name, answer in answers.items() if isinstance(answer, OmnigraphError)}
