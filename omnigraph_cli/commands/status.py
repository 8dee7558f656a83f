"""`omnigraph status`."""

from __future__ import annotations

import typer

from omnigraph_cli.output import aligned
from omnigraph_cli.run import Run, command
from omnigraph_core import shapes


def register(app: typer.Typer) -> None:
    @command(app, "status", aliases=["st", "info"], examples=["omnigraph status", "omnigraph status --json"])
    def status(run: Run) -> None:
        """Show which graph is used and why, its head, its types, pending writes and lock holders."""
        from omnigraph_core.graph import Graph, OpenMode

        address = run.address()
        graph = Graph.open(address.place, run.settings, OpenMode.READ_ONLY)
        branch = run.branch(None)
        snapshot = graph.snapshot(branch)
        head = snapshot.head
        branches = graph.branches()
        holders = {name: holder for name in branches if (holder := graph.lock_holder(name))}
        pending, unreadable = graph.pending(), graph.unreadable()
        content = shapes.status(
            graph.location.uri, address.because, snapshot, branches, pending, unreadable, holders
        )
        lines = [f"graph {graph.location.uri} (from {address.because})"]
        if graph.is_original():
            lines.append("made by the Rust original, read as it is; `omnigraph adopt` converts it")
            moved = graph.moved_branches()
            lines += [f"moved: {', '.join(moved)} cannot be read before that"] if moved else []
        lines.append(f"branch {branch}, head {head.commit_id if head else 'none'}")
        if late := snapshot.foreign_tables():
            lines.append(f"the Rust original has written here after the adoption: {', '.join(late)}")
        lines += aligned({entry.table_key: entry.row_count for entry in snapshot.tables.values()})
        lines += [f"lock on {name}: {holder}" for name, holder in holders.items()]
        lines += [f"pending: {each.operation_id} on {each.branch} by {each.actor_id}" for each in pending]
        lines += [f"unreadable: {each}" for each in unreadable]
        if pending and graph.is_original():
            lines.append("its adoption has begun and not ended: run `omnigraph adopt` again")
        elif pending and not holders:
            lines.append("no writer is active: `omnigraph recovery run`, or the next write, will recover it")
        run.output.result(content, *lines)
