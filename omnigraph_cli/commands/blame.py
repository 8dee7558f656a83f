"""`omnigraph blame`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.commands.diff import diff_format
from omnigraph_cli.commit_lines import LIMITS
from omnigraph_cli.completing import one_of
from omnigraph_cli.diff_formats import DiffFormat, escaped
from omnigraph_cli.options import BranchOption, SnapshotOption, named_entity, one_target
from omnigraph_cli.output import JsonOutput
from omnigraph_cli.run import Run, command
from omnigraph_cli.tables import Id, OrBefore
from omnigraph_cli.times import shown_time
from omnigraph_core import shapes
from omnigraph_core.values.shown import clipped, one_line

if TYPE_CHECKING:
    from omnigraph_core.diff.entity import Blame, Origin

_COLUMNS = ["property", "value", "commit", "when", "actor", "message"]


def register(app: typer.Typer) -> None:
    @command(
        app,
        "blame",
        takes_graph=False,
        examples=[
            "omnigraph blame Person/Ann",
            "omnigraph blame Person/Ann --snapshot main~10",
            "omnigraph blame Knows/01J8ZQ5T3M --branch review --format json",
        ],
    )
    def blame(
        run: Run,
        entity: Annotated[
            str, typer.Argument(metavar="TYPE/ID", help="The entity; a node with a @key has it as its id.")
        ],
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
        form: Annotated[
            str | None,
            typer.Option(
                "--format",
                metavar="|".join(DiffFormat),
                help="The output format; default table on a terminal, otherwise JSON lines.",
                autocompletion=one_of(*DiffFormat),
            ),
        ] = None,
    ) -> None:
        """Show for each property of an entity which commit gave it its value.

        Merges are followed into the branch that a value came from, and renamed properties and
        types to what they were called. Where cleanup has removed what was before a commit, the
        value is that commit's or an older one's, and the answer says so.
        """
        chosen = diff_format(form, json_asked=isinstance(run.output, JsonOutput))
        type_name, entity_id = named_entity(entity, "TYPE/ID")
        one_target(branch, snapshot)
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_ONLY)
        found = graph.blame(type_name, entity_id, branch=run.branch(branch), ref=snapshot)
        _write(run, found, chosen)


def _write(run: Run, found: Blame, form: DiffFormat) -> None:
    if form is DiffFormat.TABLE:
        title = f"{found.entity.name} {clipped(found.entity_id)} at {found.commit.commit_id}"
        cells = [_cells(each) for each in found.origins]
        run.output.rows(shapes.blame(found), title, _COLUMNS, cells)
    else:
        for line in _lines(found, form):
            form.put(sys.stdout, f"{line}\n")
    for text in dict.fromkeys(_remark(each) for each in found.origins if each.limit is not None):
        run.output.remark(text)


def _lines(found: Blame, form: DiffFormat) -> Iterator[str]:
    if form is DiffFormat.JSON:
        yield json.dumps(shapes.blame(found), ensure_ascii=False, indent=2)
    elif form is DiffFormat.JSONL:
        for each in found.origins:
            yield json.dumps(shapes.origin(each), ensure_ascii=False)
    else:
        yield f"| {' | '.join(_COLUMNS)} |"
        yield f"|{'---|' * len(_COLUMNS)}"
        for each in found.origins:
            yield f"| {' | '.join(escaped(one_line(cell)) for cell in _cells(each))} |"


def _cells(of: Origin) -> tuple[str, ...]:
    commit = of.commit
    return (
        of.property,
        clipped(json.dumps(shapes.value(of.value), ensure_ascii=False)),
        Id(commit.commit_id) if of.limit is None else OrBefore(commit.commit_id),
        shown_time(commit.created_at),
        commit.actor_id or "",
        commit.message or commit.operation or "",
    )


def _remark(of: Origin) -> str:
    return f"before {of.commit.commit_id}: {LIMITS[of.limit or '']}"
