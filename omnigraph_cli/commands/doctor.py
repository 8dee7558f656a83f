"""`omnigraph doctor`."""

from __future__ import annotations

import typer

from omnigraph_cli.exits import ANSWER_IS_NO
from omnigraph_cli.run import Run, command
from omnigraph_core import shapes


def register(app: typer.Typer) -> None:
    @command(app, "doctor", examples=["omnigraph doctor", "omnigraph doctor --json"])
    def doctor(run: Run) -> None:
        """Check the graph, and change nothing: schema, history, pending writes, tables, leftovers.

        Each finding names the command that mends it. Exit 0 when there is none, 1 when there is.
        """
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_ONLY)
        found = graph.doctor()
        content = shapes.findings(found, graph.location.uri)
        if not found:
            run.output.result(content, "nothing is wrong")
            return
        columns = ("severity", "check", "what", "message", "fix")
        rows = [(each.severity.value, each.check, each.subject, each.message, each.fix) for each in found]
        run.output.rows(content, f"{len(found)} findings", columns, rows)
        raise typer.Exit(ANSWER_IS_NO)
