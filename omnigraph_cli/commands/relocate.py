"""`omnigraph relocate`."""

from __future__ import annotations

import typer

from omnigraph_cli.run import Run, command, echo_target


def register(app: typer.Typer) -> None:
    @command(
        app, "relocate", writes=True, examples=["cp -a graph.omni copy.omni && omnigraph relocate copy.omni"]
    )
    def relocate(run: Run) -> None:
        """Make the branches of a moved or copied graph refer to where it is now."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_ONLY)
        echo_target(run, "relocate", graph.location)
        changed = graph.relocate()
        content = {"uri": graph.location.uri, "files_changed": changed}
        run.output.result(content, f"relocated {changed} files" if changed else "nothing to relocate")
