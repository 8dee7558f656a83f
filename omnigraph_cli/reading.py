"""Opening a graph for commands that list: they repair what they can, and read on if they cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_cli.run import Run
from omnigraph_core.errors import BusyError, StorageError

if TYPE_CHECKING:
    from omnigraph_core.graph import Graph


def open_for_listing(run: Run) -> Graph:
    """Try the recovery sweep without waiting for anybody; else say that one is pending, and go on."""
    from omnigraph_core.graph import OpenMode

    graph = run.open(OpenMode.READ_ONLY)
    if not graph.has_pending():
        return graph
    try:
        graph.prepare_for_writing()
    except (BusyError, StorageError) as error:
        run.output.remark(f"a recovery is pending and could not be run: {error}")
        return graph
    if graph.has_pending():
        run.output.remark("a recovery is pending, or a writer is at work; see `omnigraph status`")
    return graph
