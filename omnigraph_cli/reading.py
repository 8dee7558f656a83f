"""Opening a graph for commands that list: they run a pending recovery if they can, and read anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph_cli.run import Run
from omnigraph_cli.wording import recovered
from omnigraph_core.errors import BusyError, StorageError

if TYPE_CHECKING:
    from omnigraph_core.graph import Graph


def open_for_listing(run: Run) -> Graph:
    """Try the recovery sweep without waiting for a lock; if it cannot run, say so and go on."""
    from omnigraph_core.graph import OpenMode

    graph = run.open(OpenMode.AS_IS)
    if not graph.has_pending() or graph.is_original():
        return graph
    try:
        swept = graph.prepare_for_writing()
    except (BusyError, StorageError) as error:
        run.output.remark(f"a recovery is pending and could not be run: {error}")
        return graph
    for each in swept.recovered:
        what = f"{recovered(each.recovery_kind)} {each.operation_id} on {each.branch}"
        run.output.remark(f"recovered a write that was cut off: {what}, as commit {each.commit_id}")
    if graph.has_pending():
        run.output.remark("a writer is active or a recovery is pending; see `omnigraph status`")
    return graph
