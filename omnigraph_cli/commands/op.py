"""`omnigraph op …`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.run import Run, command, command_group
from omnigraph_cli.times import shown_time
from omnigraph_core import shapes
from omnigraph_core.errors import UsageError

if TYPE_CHECKING:
    from omnigraph_core.history.operations import Operation, Point


def register(app: typer.Typer) -> None:
    group = command_group(app, "op", help="Show what was done to the graph.")

    @command(group, "log", examples=["omnigraph op log", "omnigraph op log --limit 10 --json"])
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
        is_short = sys.stdout.isatty()
        rows = [_row(each, is_short=is_short) for each in found]
        run.output.rows(shapes.operation_log(found), f"{len(found)} operations", columns, rows)


def _row(of: Operation, *, is_short: bool) -> tuple[object, ...]:
    """On a terminal with the ends of ids, which are enough for `undo`."""

    def id_(text: str | None) -> str | None:
        return text[-8:] if text is not None and is_short else text

    kind = f"{of.kind} (undo)" if of.undoes is not None else of.kind
    before, after = of.before, of.after
    return (
        id_(of.operation_id),
        shown_time(of.created_at),
        kind,
        described_ref(after or before),
        None if before is None else id_(before.commit_id),
        None if after is None else id_(after.commit_id),
        of.actor_id,
        of.message,
    )


def described_ref(point: Point | None) -> str | None:
    """A branch or tag in words."""
    if point is None:
        return None
    return f"tag {point.name}" if point.is_tag else point.name
