"""`omnigraph relocate`."""

from __future__ import annotations

import typer

from omnigraph_cli.output import counted
from omnigraph_cli.run import Run, command, echo_target
from omnigraph_core import shapes


def register(app: typer.Typer) -> None:
    @command(
        app, "relocate", writes=True, examples=["cp -a graph.omni copy.omni && omnigraph relocate copy.omni"]
    )
    def relocate(run: Run) -> None:
        """Fix the branches of a graph that was moved or copied, so that they refer to its new place."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.AS_IS)
        echo_target(run, "relocate", graph.location)
        changed = graph.relocate()
        content = shapes.relocated(graph.location.uri, changed)
        run.output.result(
            content, f"relocated {counted(changed, 'file')}" if changed else "nothing to relocate"
        )
