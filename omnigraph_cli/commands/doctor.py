"""`omnigraph doctor`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.exits import ANSWER_IS_NO
from omnigraph_cli.output import counted
from omnigraph_cli.progress import progress_of
from omnigraph_cli.run import Run, command
from omnigraph_core import shapes

if TYPE_CHECKING:
    from omnigraph_core.maintenance.findings import Finding


def _with_options(finding: Finding) -> Finding:
    """The command as it has to be typed."""
    if finding.fix is None or finding.branch is None:
        return finding
    return replace(finding, fix=f"{finding.fix} --branch {finding.branch}")


def register(app: typer.Typer) -> None:
    examples = ["omnigraph doctor", "omnigraph doctor --deep --json"]

    @command(app, "doctor", has_progress=True, examples=examples)
    def doctor(
        run: Run,
        deep: Annotated[
            bool, typer.Option("--deep", help="Read every file, and compare it with its checksum.")
        ] = False,
    ) -> None:
        """Check the graph, and change nothing: branches, schemas, history, writes, tables, rows, leftovers.

        Each finding has a code, and the command that mends it. Exit 1 when there is an error or a
        warning, 0 when there are only notes or nothing.
        """
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_ONLY)
        with progress_of(run) as progress:
            found = [_with_options(each) for each in graph.doctor(deep=deep, progress=progress)]
        content = shapes.findings(found, graph.location.uri)
        if not found:
            run.output.result(content, "nothing is wrong")
            return
        columns = ("severity", "code", "where", "what", "fix")
        rows = [(each.severity.value, each.code, each.where, each.message, each.fix) for each in found]
        run.output.rows(content, counted(len(found), "finding"), columns, rows)
        if any(each.counts for each in found):
            raise typer.Exit(ANSWER_IS_NO)
