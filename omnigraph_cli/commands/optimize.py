"""`omnigraph optimize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.options import BranchOption
from omnigraph_cli.progress import progress_of
from omnigraph_cli.run import Run, command
from omnigraph_core import shapes
from omnigraph_core.errors import UsageError

if TYPE_CHECKING:
    from omnigraph_core.maintenance.optimized import OptimizedTable


def register(app: typer.Typer) -> None:
    @command(
        app,
        "optimize",
        writes=True,
        has_progress=True,
        examples=[
            "omnigraph optimize",
            "omnigraph optimize --all-branches --dry-run",
            "omnigraph optimize --type Person --type Knows",
        ],
    )
    def optimize(
        run: Run,
        branch: BranchOption = None,
        all_branches: Annotated[
            bool, typer.Option("--all-branches", help="Every branch, one after the other.")
        ] = False,
        types: Annotated[
            list[str] | None, typer.Option("--type", metavar="T", help="Only this type. Repeatable.")
        ] = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Say what would be done, and write nothing.")
        ] = False,
    ) -> None:
        """Join small fragments, drop deleted rows, and build and extend indexes.

        Answers stay the same; they get cheaper. What changed is one commit by
        omnigraph:maintenance, or by the actor you name. A writer that comes first wins.
        """
        if all_branches and branch is not None:
            raise UsageError("--branch and --all-branches exclude each other")
        from omnigraph_core.graph import OpenMode
        from omnigraph_core.maintenance.optimized import Skipped

        graph = run.open(OpenMode.READ_ONLY if dry_run else OpenMode.READ_WRITE)
        names = graph.branches() if all_branches else [run.branch(branch)]
        with progress_of(run) as progress:
            results = [
                graph.optimize(
                    name, types=types or (), message=run.message, dry_run=dry_run, progress=progress
                )
                for name in names
            ]
        rows = [
            (result.branch, each.table_key, each.fragments, each.fragments_after, _did(each, dry_run=dry_run))
            for result in results
            for each in result.tables
            if each.skipped is not Skipped.INHERITED
        ]
        title = f"{'would optimize' if dry_run else 'optimized'} {', '.join(names)}"
        columns = ("branch", "table", "fragments", "after", "what")
        made = [f"commit {commit_id}" for result in results for commit_id in result.commit_ids]
        content = shapes.optimized(results, graph.location.uri, dry_run=dry_run)
        run.output.rows(content, title, columns, rows, *made)
        for result in results:
            for warning in result.warnings:
                run.output.remark(f"warning: {warning}")
        if any(each.skipped is Skipped.DRIFT for result in results for each in result.tables):
            run.output.remark("some tables have versions that nobody published; see `omnigraph repair`")


def _did(table: OptimizedTable, *, dry_run: bool) -> str:
    """What was done to one table, or would be."""
    if table.skipped is not None:
        return f"skipped: {table.skipped.value}"
    done = [f"indexes {', '.join(table.indexes)}"] if table.indexes else []
    if table.fragments_after != table.fragments or table.bytes_written:
        size = f"{table.bytes_written:,} bytes"
        done.append(f"about {size} to write" if dry_run else f"{size} written")
    return "; ".join(done) or "nothing to do"
