"""`omnigraph query`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.options import BranchOption, SnapshotOption, one_target
from omnigraph_cli.output import JsonOutput, tell, write_exactly
from omnigraph_cli.pictures import PictureFormat, drawn, picture_format
from omnigraph_cli.row_formats import RowFormat, written
from omnigraph_cli.run import Run, command
from omnigraph_cli.sources import QueryOptions
from omnigraph_core import shapes
from omnigraph_core.errors import UsageError
from omnigraph_core.values.shown import one_line

if TYPE_CHECKING:
    from omnigraph_core.read.answer.result import QueryResult


def register(app: typer.Typer) -> None:
    @command(
        app,
        "query",
        aliases=["read"],
        takes_graph=False,
        takes_query=True,
        examples=[
            "omnigraph query -e 'query q() { match { $p: Person } return { $p.name } }'",
            "omnigraph query friends --query people.gq --param who=Ann --format csv",
            "omnigraph query --query people.gq --snapshot main~3 --json",
            "omnigraph query friends --query people.gq --param who=Ann --format html > friends.html",
        ],
    )
    def query(
        run: Run,
        asked: QueryOptions,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
        form: Annotated[
            str | None,
            typer.Option(
                "--format",
                metavar="table|json|jsonl|csv|kv|md|dot|html",
                help="The output format; default table on a terminal, otherwise JSON lines.",
            ),
        ] = None,
        explain: Annotated[
            bool, typer.Option("--explain", help="Show the plan without running the query.")
        ] = False,
        stats: Annotated[
            bool, typer.Option("--stats", help="Print rows, bytes and time per step on stderr.")
        ] = False,
        timeout: Annotated[
            float | None, typer.Option("--timeout", metavar="SECONDS", help="Fail after this many seconds.")
        ] = None,
    ) -> None:
        """Query a branch as it is now, or any commit."""
        one_target(branch, snapshot)
        source = asked.read()
        json_asked = isinstance(run.output, JsonOutput)
        picture = None if explain else picture_format(form, json_asked=json_asked, stats=stats)
        chosen = None if picture else _row_format(form, json_asked=json_asked)
        if timeout is not None and not 0 < timeout < float("inf"):
            raise UsageError(f"--timeout: {timeout:g} is not a positive number of seconds")
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_ONLY)
        if picture is not None:
            view = graph.at(snapshot, branch=run.branch(branch))
            write_exactly(sys.stdout, drawn(view, source, picture, timeout))
            return
        result = graph.query(
            source.text,
            name=source.name,
            source_name=source.source_name,
            params=source.params,
            param_texts=source.param_texts,
            branch=run.branch(branch),
            ref=snapshot,
            timeout_s=timeout,
            explain_only=explain,
        )
        if explain:
            run.output.result(shapes.query_plan(result), *result.plan)
            return
        form = chosen or RowFormat.JSONL
        for text in written(result, form, metadata=chosen is not None):
            form.put(sys.stdout, text)
        if stats:
            sys.stdout.flush()
            tell(sys.stderr, f"{_statistics(result)}\n")


def _row_format(option: str | None, *, json_asked: bool) -> RowFormat | None:
    """The format asked for, or a table on a terminal; None means bare rows as JSON lines."""
    if option is None:
        if json_asked:
            return RowFormat.JSON
        return RowFormat.TABLE if sys.stdout.isatty() else None
    try:
        chosen = RowFormat(option)
    except ValueError:
        known = ", ".join([*RowFormat, *PictureFormat])
        raise UsageError(f"--format: '{option}' is not one of {known}") from None
    if json_asked and chosen is not RowFormat.JSON:
        raise UsageError(f"both --json and --format {chosen} were given", hint="use one of them")
    return chosen


def _statistics(result: QueryResult) -> str:
    """One line per step; a step inside a negation is counted in the step around it."""
    lines = ["      rows   rows read  bytes read          ms  step"]
    for step in result.steps:
        note = f" ({step.note})" if step.note else ""
        lines.append(
            f"{step.rows:>10,}  {step.rows_read:>10,}  {step.bytes_read:>10,}  {step.seconds * 1000:>10.1f}  "
            f"{'  ' * step.depth}{one_line(step.step + note)}"
        )
    return "\n".join(lines)
