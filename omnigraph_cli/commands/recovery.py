"""`omnigraph recovery …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.limits import SHORT_ID_CHARACTERS
from omnigraph_cli.run import Run, command, command_group, echo_target
from omnigraph_cli.tables import Id
from omnigraph_cli.wording import recovered
from omnigraph_core import shapes
from omnigraph_core.errors import NotFoundError

if TYPE_CHECKING:
    from omnigraph_core.history.recoveries import Recovery
    from omnigraph_core.write.sidecar_record import Sidecar


def register(app: typer.Typer) -> None:
    group = command_group(app, "recovery", help="Show and run recoveries.")

    @command(
        group, "list", lists_ids=True, examples=["omnigraph recovery list", "omnigraph recovery list --json"]
    )
    def list_(run: Run) -> None:
        """List pending writes and past recoveries, without changing anything."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_ONLY)
        pending, unreadable, done = graph.pending(), graph.unreadable(), graph.recoveries()
        content = shapes.recovery_list(pending, unreadable, done)
        rows = [_pending_row(sidecar) for sidecar in pending]
        rows += [(each.path, "unreadable", "", "", "", "") for each in unreadable]
        rows += [_recovery_row(recovery) for recovery in reversed(done)]
        columns = ["operation", "outcome", "branch", "for", "writer", "commit"]
        waiting = len(pending) + len(unreadable)
        run.output.rows(content, f"{waiting} pending, {len(done)} done", columns, rows)

    @command(
        group, "show", takes_graph=False, examples=["omnigraph recovery show 01M7H4VA4FNR55VW8757V8RBAS"]
    )
    def show(
        run: Run,
        operation: Annotated[
            str,
            typer.Argument(
                metavar="ID",
                help="The operation, or the commit of its recovery; 8 or more characters of its end will do.",
            ),
        ],
    ) -> None:
        """Show one recovery or pending write, table by table, without changing anything."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_ONLY)
        for sidecar in graph.pending():
            if _names(operation, sidecar.operation_id):
                run.output.result(shapes.pending_write(sidecar), *_pending_text(sidecar))
                return
        for recovery in graph.recoveries():
            if _names(operation, recovery.operation_id) or _names(operation, recovery.graph_commit_id):
                run.output.result(shapes.recovery(recovery), *_recovery_text(recovery))
                return
        raise NotFoundError(f"there is no recovery '{operation}'", hint="see `omnigraph recovery list`")

    @command(group, "run", writes=True, examples=["omnigraph recovery run"])
    def run_(run: Run) -> None:
        """Finish or undo the writes of dead writers; live ones are not touched."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.AS_IS)
        echo_target(run, "recovery run", graph.location)
        # A dead writer's lease must be watched until it expires; a local lock is free at once.
        report = graph.prepare_for_writing(patient=not graph.location.is_local, thorough=True)
        said = {str(each) for each in report.unreadable}
        for warning in graph.warnings:
            if warning in said:
                continue
            run.output.remark(f"warning: {warning}")
        content = shapes.recovery_run(report)
        lines = [
            f"{recovered(each.recovery_kind)} {each.operation_id} on {each.branch}"
            for each in report.recovered
        ]
        lines += [f"live {operation}: its writer is still active" for operation in report.live]
        run.output.result(content, *(lines or ["nothing to recover"]))
        if report.unreadable:
            raise report.unreadable[0]


def _names(text: str, of: str) -> bool:
    """An id, or as much of its end as listings show."""
    return of == text or (len(text) >= SHORT_ID_CHARACTERS and of.endswith(text.upper()))


def _pending_row(sidecar: Sidecar) -> tuple[object, ...]:
    return Id(sidecar.operation_id), "pending", sidecar.branch, sidecar.actor_id, sidecar.writer_kind, ""


def _recovery_row(recovery: Recovery) -> tuple[object, ...]:
    return (
        Id(recovery.operation_id),
        recovered(recovery.recovery_kind),
        recovery.branch,
        recovery.recovery_for_actor,
        recovery.sidecar_writer_kind,
        Id(recovery.graph_commit_id or ""),
    )


def _pending_text(sidecar: Sidecar) -> list[str]:
    title = f"operation {sidecar.operation_id}: pending on branch {sidecar.branch}, by {sidecar.actor_id}"
    tables = [
        f"  {table.table_key}: {table.expected_version} -> {table.post_commit_pin}"
        for table in sidecar.tables
    ]
    return [title, *tables]


def _recovery_text(recovery: Recovery) -> list[str]:
    title = (
        f"operation {recovery.operation_id}: {recovered(recovery.recovery_kind)} on branch {recovery.branch} "
        f"for {recovery.recovery_for_actor}, commit {recovery.graph_commit_id}"
    )
    tables = [
        f"  {table.table_key}: {table.from_version} -> {table.to_version} ({table.classification})"
        for table in recovery.outcomes
    ]
    return [title, *tables]
