"""`omnigraph snapshot`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from omnigraph_cli.options import BranchOption, SnapshotOption, one_target
from omnigraph_cli.run import Run, command

if TYPE_CHECKING:
    from omnigraph_core.manifest.snapshot import Snapshot


def register(app: typer.Typer) -> None:
    @command(
        app,
        "snapshot",
        examples=[
            "omnigraph snapshot",
            "omnigraph snapshot --branch review --json",
            "omnigraph snapshot --snapshot main~1",
        ],
    )
    def snapshot(run: Run, branch: BranchOption = None, ref: SnapshotOption = None) -> None:
        """Show every table of the graph with its published version and rows."""
        from omnigraph_core.graph import OpenMode

        one_target(branch, ref)
        graph = run.open(OpenMode.READ_ONLY)
        found = graph.snapshot_of(ref) if ref else graph.snapshot(run.branch(branch))
        content = snapshot_object(found, graph.internal_schema_version())
        columns = ["table_key", "rows", "version", "branch", "path"]
        rows = [
            (
                entry.table_key,
                entry.row_count,
                entry.table_version,
                entry.table_branch or "",
                entry.table_path,
            )
            for entry in found.tables.values()
        ]
        head = f", commit {found.head.commit_id}" if found.head else ""
        title = f"branch {found.branch}, manifest version {found.manifest_version}{head}"
        run.output.rows(content, title, columns, rows)


def snapshot_object(snapshot: Snapshot, internal_schema_version: int) -> dict[str, object]:
    """The documented JSON shape of a snapshot."""
    return {
        "branch": snapshot.branch,
        "manifest_version": snapshot.manifest_version,
        "graph_commit_id": snapshot.head.commit_id if snapshot.head else None,
        "internal_schema_version": internal_schema_version,
        "tables": [
            {
                "table_key": entry.table_key,
                "table_path": entry.table_path,
                "table_version": entry.table_version,
                "table_branch": entry.table_branch,
                "row_count": entry.row_count,
            }
            for entry in snapshot.tables.values()
        ],
    }
