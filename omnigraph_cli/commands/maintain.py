"""`omnigraph maintain`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph_cli.commands.cleanup import seconds
from omnigraph_cli.exits import ANSWER_IS_NO
from omnigraph_cli.output import counted
from omnigraph_cli.progress import progress_of
from omnigraph_cli.run import Run, command
from omnigraph_core import shapes
from omnigraph_core.errors import UsageError


def register(app: typer.Typer) -> None:
    @command(
        app,
        "maintain",
        writes=True,
        has_progress=True,
        examples=["omnigraph maintain", "omnigraph maintain --keep 20 --if-needed"],
    )
    def maintain(
        run: Run,
        keep: Annotated[
            int | None,
            typer.Option(metavar="N", help="Keep the newest N commits of every branch; default 10."),
        ] = None,
        grace: Annotated[
            str,
            typer.Option(metavar="TIME", help="Spare what was superseded within this time."),
        ] = "1h",
        if_needed: Annotated[
            bool, typer.Option("--if-needed", help="Do nothing unless enough has piled up.")
        ] = False,
    ) -> None:
        """Optimize every branch, then clean up: the one line for a crontab.

        It asks nothing, waits for no writer for long, and can be killed at any time. Exit 1
        if a branch or a table could not be done; the others are.
        """
        if keep is not None and keep <= 0:
            raise UsageError(f"--keep: at least 1 commit must be kept, not {keep}")
        grace_s = seconds("--grace", grace)
        from omnigraph_core.graph import OpenMode
        from omnigraph_core.maintenance.keep import checked_policy

        checked_policy(keep, None, grace_s, force=False)
        graph = run.open(OpenMode.READ_WRITE)
        with progress_of(run) as progress:
            result = graph.maintain(
                keep=keep, grace_s=grace_s, if_needed=if_needed, message=run.message, progress=progress
            )
        content = shapes.maintained(result, graph.location.uri)
        if result.cleaned is None:
            run.output.result(content, "nothing is needed")
            return
        tables = [table for each in result.optimized for table in each.tables if table.committed]
        freed = result.cleaned.bytes
        run.output.result(
            content,
            f"optimized {counted(len(tables), 'table')}; removed "
            f"{counted(result.cleaned.commits_removed, 'commit')}, {freed:,} bytes; "
            f"{counted(result.cleaned.commits_left, 'commit')} can be read",
        )
        for failure in result.failures:
            run.output.remark(f"branch {failure.branch} was not optimized: {failure.error}")
        for table in result.cleaned.tables:
            if table.error is not None:
                run.output.remark(f"{table.table_key} on {table.branch}: {table.error}")
        if result.has_failed:
            raise typer.Exit(ANSWER_IS_NO)
