"""`omnigraph index …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from omnigraph_cli.options import BranchOption
from omnigraph_cli.progress import progress_of
from omnigraph_cli.run import Run, command, command_group
from omnigraph_core import shapes

if TYPE_CHECKING:
    from omnigraph_core.indexes.topology import TopologyBuilt


def register(app: typer.Typer) -> None:
    group = command_group(app, "index", help="The topology index: who is connected to whom, on disk.")

    @command(
        group,
        "build",
        writes=True,
        has_progress=True,
        examples=["omnigraph index build", "omnigraph index build graph.omni --branch dev"],
    )
    def build(run: Run, branch: BranchOption = None) -> None:
        """Build the topology index of a branch, which makes hops in a new process fast.

        Queries use it on every branch, and add to it what has changed since. Answers stay the same
        without it. One that has hardly fallen behind is left as it is.
        """
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_WRITE)
        name = run.branch(branch)
        with progress_of(run) as progress:
            built = graph.build_topology(name, progress=progress)
        content = shapes.topology_built(built, graph.location.uri, name)
        rows = [(each.type_name, each.edges, each.bytes, _did(each)) for each in built]
        run.output.rows(content, f"topology index of {name}", ("type", "edges", "bytes", "what"), rows)


def _did(built: TopologyBuilt) -> str:
    if built.skipped is not None:
        return f"skipped: {built.skipped}"
    return "built" if built.is_new else "up to date"
