"""`omnigraph op …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.output import counted
from omnigraph_cli.run import Run, command, command_group
from omnigraph_cli.tables import Id
from omnigraph_cli.times import shown_time
from omnigraph_core import shapes
from omnigraph_core.errors import UsageError

if TYPE_CHECKING:
    from omnigraph_core.history.operations import Operation, Point


def register(app: typer.Typer) -> None:
    group = command_group(app, "op", help="Show what was done to the graph.")

    @command(
        group, "log", lists_ids=True, examples=["omnigraph op log", "omnigraph op log --limit 10 --json"]
    )
    def log(
        run: Run,
        limit: Annotated[int | None, typer.Option(metavar="N", help="Show only the newest N.")] = None,
    ) -> None:
        """List operations, newest first: what published, and what moved a branch or a tag."""
        if limit is not None and limit < 0:
            raise UsageError(f"--limit: {limit} is negative")
        from omnigraph_core.graph import OpenMode

        found = run.open(OpenMode.READ_ONLY).operations(limit)
        columns = ["id", "when", "operation", "what", "before", "after", "actor", "message"]
        title = counted(len(found), "operation")
        run.output.rows(shapes.operation_log(found), title, columns, [_row(each) for each in found])


def _row(of: Operation) -> tuple[object, ...]:
    kind = f"{of.kind} (undo)" if of.undoes is not None else of.kind
    before, after = of.before, of.after
    return (
        Id(of.operation_id),
        shown_time(of.created_at),
        kind,
        described_ref(after or before),
        None if before is None else _id(before.commit_id),
        None if after is None else _id(after.commit_id),
        of.actor_id,
        of.message,
    )


def _id(text: str | None) -> Id | None:
    return None if text is None else Id(text)


def described_ref(point: Point | None) -> str | None:
    """A branch or tag in words."""
    if point is None:
        return None
    return f"tag {point.name}" if point.is_tag else point.name
