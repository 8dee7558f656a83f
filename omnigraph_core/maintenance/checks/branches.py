"""Branches: every ref file says what it must, every head can be read, and its stamp is ours."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph_core.maintenance.examination import Examination
from omnigraph_core.maintenance.findings import Finding, error, failed, note
from omnigraph_core.manifest.stamp import INTERNAL_SCHEMA_VERSION, read_stamp
from omnigraph_core.tables.fork_refs import RefState

_OPEN = "omnigraph recovery run"


def check_branches(seen: Examination) -> Iterator[Finding]:
    heads = seen.heads
    for found in seen.branch_refs:
        if found.is_missing:
            text = f"the ref of branch '{found.name}' is missing, and nobody deleted the branch"
            yield error("branch-ref-missing", found.path, text, _OPEN)
        elif found.state is RefState.DAMAGED:
            text = f"the ref of branch '{found.name}' cannot be read; opening the graph to write rebuilds it"
            yield error("branch-ref-damaged", found.path, text, _OPEN)
        elif found.state is RefState.UNFINISHED and seen.holder("refs") is None:
            text = f"branch '{found.name}' was never finished; nothing is in it"
            yield note("branch-unfinished", found.path, text, _OPEN)
    for name, problem in seen.head_failures.items():
        yield failed("branch-unreadable", name, problem)
    for name, snapshot in heads.items():
        if late := snapshot.foreign_tables():
            text = f"the Rust original has published {', '.join(late)} after the graph was adopted"
            yield error("original-wrote", name, text, "stop it; nothing is built upon what it wrote")
        stamp = read_stamp(seen.manifest.open_for_read(name))
        if stamp < INTERNAL_SCHEMA_VERSION:
            text = f"its manifest has stamp {stamp}; the next write brings it to {INTERNAL_SCHEMA_VERSION}"
            yield note("stamp-old", name, text)
