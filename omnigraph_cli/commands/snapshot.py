"""`omnigraph snapshot`."""

from __future__ import annotations

import typer

from omnigraph_cli.options import BranchOption, SnapshotOption, one_target
from omnigraph_cli.run import Run, command
from omnigraph_core import shapes


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
        """List the tables of the graph with their published versions and row counts."""
        from omnigraph_core.graph import OpenMode

        one_target(branch, ref)
        graph = run.open(OpenMode.READ_ONLY)
        found = graph.snapshot_of(ref) if ref else graph.snapshot(run.branch(branch))
        content = shapes.snapshot(found, graph.internal_schema_version())
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
        title = f"branch {found.shown_branch}, manifest version {found.manifest_version}{head}"
        run.output.rows(content, title, columns, rows)
