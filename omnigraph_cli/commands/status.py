"""`omnigraph status`."""

from __future__ import annotations

import typer

from omnigraph_cli.run import Run, command


def register(app: typer.Typer) -> None:
    @command(app, "status", examples=["omnigraph status", "omnigraph status --json"])
    def status(run: Run) -> None:
        """Show which graph this is and why, its head and types, and who is writing; writes nothing."""
        from omnigraph_core.graph import Graph, OpenMode

        address = run.address()
        graph = Graph.open(address.place, run.settings, OpenMode.READ_ONLY)
        branch = run.branch(None)
        snapshot = graph.snapshot(branch)
        head = snapshot.head
        holders = {name: holder for name in graph.branches() if (holder := graph.lock_holder(name))}
        pending = graph.pending()
        content = {
            "uri": graph.location.uri,
            "from": address.because,
            "branch": branch,
            "graph_commit_id": head.commit_id if head else None,
            "manifest_version": snapshot.manifest_version,
            "branches": graph.branches(),
            "tables": [
                {"table_key": entry.table_key, "row_count": entry.row_count}
                for entry in snapshot.tables.values()
            ],
            "pending": [
                {"operation_id": each.operation_id, "branch": each.branch, "actor_id": each.actor_id}
                for each in pending
            ],
            "locks": [{"branch": name, **holder.as_json()} for name, holder in holders.items()],
        }
        lines = [f"graph {graph.location.uri} (from {address.because})"]
        lines.append(f"branch {branch}, head {head.commit_id if head else 'none'}")
        lines += [f"  {entry.table_key}  {entry.row_count}" for entry in snapshot.tables.values()]
        lines += [f"lock on {name}: {holder}" for name, holder in holders.items()]
        lines += [f"pending: {each.operation_id} on {each.branch} by {each.actor_id}" for each in pending]
        if pending and not holders:
            lines.append("nobody is writing: `omnigraph recovery run`, or the next write, settles it")
        run.output.result(content, "\n".join(lines))
