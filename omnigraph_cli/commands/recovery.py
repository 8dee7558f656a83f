"""`omnigraph recovery …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.run import Run, command, command_group, echo_target
from omnigraph_core.errors import NotFoundError

if TYPE_CHECKING:
    from omnigraph_core.history.recoveries import Recovery, TableOutcome
    from omnigraph_core.write.sidecar import Sidecar


def register(app: typer.Typer) -> None:
    group = command_group(app, "recovery", help="Repairs, done and pending.")

    @command(group, "list", examples=["omnigraph recovery list", "omnigraph recovery list --json"])
    def list_(run: Run) -> None:
        """List pending writes and every repair there was; writes nothing."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_ONLY)
        pending, done = graph.pending(), graph.recoveries()
        content = {
            "pending": [_pending_object(sidecar) for sidecar in pending],
            "recoveries": [_recovery_object(recovery) for recovery in done],
        }
        rows = [_pending_row(sidecar) for sidecar in pending]
        rows += [_recovery_row(recovery) for recovery in reversed(done)]
        columns = ["operation", "outcome", "branch", "for", "writer", "commit"]
        run.output.rows(content, f"{len(pending)} pending, {len(done)} done", columns, rows)

    @command(
        group, "show", takes_graph=False, examples=["omnigraph recovery show 01M7H4VA4FNR55VW8757V8RBAS"]
    )
    def show(
        run: Run,
        operation: Annotated[str, typer.Argument(metavar="ID", help="The operation or its recovery commit.")],
    ) -> None:
        """Show one repair or pending write, table by table; writes nothing."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_ONLY)
        for sidecar in graph.pending():
            if sidecar.operation_id == operation:
                run.output.result(_pending_object(sidecar), _pending_text(sidecar))
                return
        for recovery in graph.recoveries():
            if operation in (recovery.operation_id, recovery.graph_commit_id):
                run.output.result(_recovery_object(recovery), _recovery_text(recovery))
                return
        raise NotFoundError(f"there is no recovery '{operation}'", hint="see `omnigraph recovery list`")

    @command(group, "run", writes=True, examples=["omnigraph recovery run"])
    def run_(run: Run) -> None:
        """Finish or undo what dead writers left; live ones are left alone."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_ONLY)
        echo_target(run, "recovery run", graph.location)
        # A lease of a dead writer must be watched run out; a local lock is free at once.
        report = graph.prepare_for_writing(patient=not graph.location.is_local)
        content = {
            "recovered": [
                {
                    "operation_id": each.operation_id,
                    "branch": each.branch,
                    "recovery_kind": each.recovery_kind,
                    "graph_commit_id": each.commit_id,
                    "tables": [_outcome_object(outcome) for outcome in each.outcomes],
                }
                for each in report.recovered
            ],
            "live": list(report.live),
        }
        lines = [f"{each.recovery_kind} {each.operation_id} on {each.branch}" for each in report.recovered]
        lines += [f"live {operation}: its writer is at work" for operation in report.live]
        run.output.result(content, "\n".join(lines) or "nothing to recover")


def _pending_row(sidecar: Sidecar) -> tuple[object, ...]:
    return sidecar.operation_id, "pending", sidecar.branch, sidecar.actor_id, sidecar.writer_kind, ""


def _recovery_row(recovery: Recovery) -> tuple[object, ...]:
    return (
        recovery.operation_id,
        recovery.recovery_kind,
        recovery.branch,
        recovery.recovery_for_actor,
        recovery.sidecar_writer_kind,
        recovery.graph_commit_id,
    )


def _pending_text(sidecar: Sidecar) -> str:
    title = f"operation {sidecar.operation_id}: pending on branch {sidecar.branch}, by {sidecar.actor_id}"
    tables = [
        f"  {table.table_key}: {table.expected_version} -> {table.post_commit_pin}"
        for table in sidecar.tables
    ]
    return "\n".join([title, *tables])


def _recovery_text(recovery: Recovery) -> str:
    title = (
        f"operation {recovery.operation_id}: {recovery.recovery_kind} on branch {recovery.branch} "
        f"for {recovery.recovery_for_actor}, commit {recovery.graph_commit_id}"
    )
    tables = [
        f"  {table.table_key}: {table.from_version} -> {table.to_version} ({table.classification})"
        for table in recovery.outcomes
    ]
    return "\n".join([title, *tables])


def _pending_object(sidecar: Sidecar) -> dict[str, object]:
    return {
        "operation_id": sidecar.operation_id,
        "branch": sidecar.branch,
        "actor_id": sidecar.actor_id,
        "writer_kind": sidecar.writer_kind,
        "started_at": sidecar.started_at,
        "tables": [
            {
                "table_key": table.table_key,
                "expected_version": table.expected_version,
                "post_commit_pin": table.post_commit_pin,
            }
            for table in sidecar.tables
        ],
    }


def _recovery_object(recovery: Recovery) -> dict[str, object]:
    return {
        "operation_id": recovery.operation_id,
        "recovery_kind": recovery.recovery_kind,
        "branch": recovery.branch,
        "graph_commit_id": recovery.graph_commit_id,
        "recovery_for_actor": recovery.recovery_for_actor,
        "sidecar_writer_kind": recovery.sidecar_writer_kind,
        "created_at": recovery.created_at,
        "tables": [_outcome_object(outcome) for outcome in recovery.outcomes],
    }


def _outcome_object(outcome: TableOutcome) -> dict[str, object]:
    return {
        "table_key": outcome.table_key,
        "from_version": outcome.from_version,
        "to_version": outcome.to_version,
        "classification": outcome.classification,
    }
