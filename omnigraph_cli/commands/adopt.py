"""`omnigraph adopt`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.consent import asks, consents, is_terminal
from omnigraph_cli.output import counted
from omnigraph_cli.run import Run, command, echo_target
from omnigraph_core import shapes
from omnigraph_core.errors import RefusedError

if TYPE_CHECKING:
    from omnigraph_core.maintenance.adoption.found import Adopted, AdoptedTable


def register(app: typer.Typer) -> None:
    @command(
        app,
        "adopt",
        writes=True,
        examples=["omnigraph adopt old.omni --dry-run", "omnigraph adopt old.omni --yes --as ann"],
    )
    def adopt(
        run: Run,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Say what is found and would be done; write nothing.")
        ] = False,
        yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    ) -> None:
        """Convert a graph of the Rust original, with its history and branches.

        The original cannot use the graph any more afterwards. An export goes back to it.
        """
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.AS_IS)
        if not graph.is_original():
            if graph.has_pending():
                graph.prepare_for_writing(patient=True)
            content = shapes.adopted(graph.adopt(dry_run=True), graph.location.uri)
            run.output.result(content, "nothing to adopt: this is not a graph of the Rust original")
            return
        if dry_run:
            plan = graph.adopt(dry_run=True)
            run.output.result(shapes.adopted(plan, graph.location.uri), *_lines(plan))
            return
        echo_target(run, "adopt", graph.location)
        if not yes:
            _ask(run, graph.adopt(dry_run=True))
        done = graph.adopt(actor=run.actor, message=run.message)
        content = shapes.adopted(done, graph.location.uri)
        run.output.result(content, *_lines(done), f"adopted: commit {done.commit_id}")


def _ask(run: Run, plan: Adopted) -> None:
    """A script must say that it means it: there is no way back but an export."""
    if not is_terminal():
        raise RefusedError(
            "adopting needs consent: the original cannot use the graph afterwards",
            hint="say --yes, or --dry-run to see what would be done",
        )
    asks(run)
    for line in _lines(plan):
        run.output.remark(line)
    if not consents("Adopt it? The Rust original cannot use it afterwards."):
        raise typer.Exit(1)


def _lines(of: Adopted) -> list[str]:
    """What was found, per branch and table; a table without anything to say is only counted."""
    lines = []
    for branch in of.branches:
        text = f"branch {branch.name}, head {branch.head or 'unknown'}"
        if branch.is_moved:
            text += ": refers to another place, which is mended"
        lines.append(text if branch.problem is None else f"{text}: cannot be read: {branch.problem}")
        mine = [each for each in of.tables if each.branch == branch.name]
        lines += [f"  {each.table_key}: {'; '.join(_facts(each))}" for each in mine]
    lines += [f"commit {each.commit_id} cannot be read any more: {each.reason}" for each in of.lost]
    return lines


def _facts(table: AdoptedTable) -> list[str]:
    if table.problem is not None:
        return [f"cannot be read, stays as it is: {table.problem}"]
    found = [f"version {table.published_version}"]
    if table.version != table.published_version:
        found[0] += f" → {table.version}"
    if table.drift:
        one = table.drift == 1
        was, is_ = ("was", "is") if one else ("were", "are")
        found.append(f"{counted(table.drift, 'version')} that {was} never published {is_} put back")
    if table.empty_blobs:
        found.append(f"{counted(table.empty_blobs, 'row')} with an empty blob, which means null")
    if table.indexes:
        found.append(f"replaced or dropped: {', '.join(table.indexes)}")
    return found
