"""`omnigraph undo`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph_cli.commands.op import described_ref
from omnigraph_cli.run import Run, command, echo_target
from omnigraph_cli.wording import taken_back
from omnigraph_core import shapes


def register(app: typer.Typer) -> None:
    @command(
        app,
        "undo",
        takes_graph=False,
        writes=True,
        examples=["omnigraph undo", "omnigraph undo 3HPR5A7C"],
    )
    def undo(
        run: Run,
        operation: Annotated[
            str | None,
            typer.Argument(
                metavar="OP",
                help="The operation: its id, or 8 or more characters of its start or end. Default the last.",
            ),
        ] = None,
    ) -> None:
        """Take the last operation back, or another one, as a new operation; undo that to redo.

        Of a commit, what it did is taken back whatever has happened since; conflicts change nothing.
        """
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_WRITE)
        echo_target(run, "undo", graph.location)
        found = graph.undo(operation, actor=run.actor, message=run.message)
        of = found.operation
        named = described_ref(of.after or of.before)
        text = f"took back the {taken_back(of.kind)} {named}: {of.operation_id}"
        made = [] if found.merged is None else [f"commit {found.merged.commit_id}"]
        run.output.result(shapes.undone(found, graph.location.uri, run.actor), text, *made)
        if found.merged is not None:
            for warning in found.merged.warnings:
                run.output.remark(f"warning: {warning}")
