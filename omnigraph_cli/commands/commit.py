"""`omnigraph commit …`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph_cli.addressing import given_place
from omnigraph_cli.commit_lines import LIMITS, Drawing, line_of, names_of_commits
from omnigraph_cli.completing import complete_ref, complete_type
from omnigraph_cli.diff_formats import DiffFormat, WrittenDiff
from omnigraph_cli.options import BranchOption, named_entity
from omnigraph_cli.output import JsonObject, JsonOutput, counted
from omnigraph_cli.reading import open_for_listing
from omnigraph_cli.run import Run, command, command_group
from omnigraph_cli.tables import Id, terminal_columns
from omnigraph_cli.times import shown_time
from omnigraph_cli.wording import recovered
from omnigraph_core import shapes
from omnigraph_core.errors import NotFoundError, UsageError
from omnigraph_core.values.shown import clipped

if TYPE_CHECKING:
    from omnigraph_core.diff.touches import Unknown
    from omnigraph_core.graph import Graph
    from omnigraph_core.history.log import GraphCommit
    from omnigraph_core.history.removed import Removals

_FILTERS: dict[str, Callable[[GraphCommit], str | None]] = {
    "actor": lambda commit: commit.actor_id,
    "branch": lambda commit: commit.shown_branch,
    "operation": lambda commit: commit.operation,
    "message": lambda commit: commit.message,
    "schema": lambda commit: commit.schema_hash,
    "id": lambda commit: commit.commit_id,
}


CommitArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH|REF",
        help="The commit; or the graph, and then the commit.",
        autocompletion=complete_ref,
    ),
]
SecondArgument = Annotated[
    str | None,
    typer.Argument(metavar="REF", help="The commit, after the graph.", autocompletion=complete_ref),
]


LimitOption = Annotated[int | None, typer.Option("--limit", metavar="N", help="Show only the newest N.")]
FilterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="K=V",
        help="Show only commits where K is V; K is one of " + ", ".join(_FILTERS) + ". Repeatable: "
        "different keys must all match, the same key twice means either value.",
    ),
]


def register(app: typer.Typer) -> None:
    group = command_group(app, "commit", help="Show the commit history.")
    _register_list(group, app)
    _register_show(group, app)


def _register_list(group: typer.Typer, app: typer.Typer) -> None:
    @command(
        group,
        "list",
        lists_ids=True,
        elsewhere={"log": app},
        examples=[
            "omnigraph commit list",
            "omnigraph commit list --branch main --limit 20 --oneline",
            "omnigraph commit list --filter actor=omnigraph:recovery",
            "omnigraph commit list --graph",
            "omnigraph commit list --entity Person/Ann",
        ],
    )
    def list_(
        run: Run,
        branch: BranchOption = None,
        limit: LimitOption = None,
        filters: FilterOption = None,
        oneline: Annotated[bool, typer.Option("--oneline", help="Print one short line per commit.")] = False,
        draws: Annotated[
            bool, typer.Option("--graph", help="Draw how the commits descend from each other.")
        ] = False,
        type_name: Annotated[
            str | None,
            typer.Option(
                "--type",
                metavar="T",
                help="Show only commits that changed this type.",
                autocompletion=complete_type,
            ),
        ] = None,
        entity: Annotated[
            str | None,
            typer.Option("--entity", metavar="TYPE/ID", help="Show only commits that changed this entity."),
        ] = None,
    ) -> None:
        """List commits, newest first: of all branches, or the ancestry of one.

        With --type or --entity, each commit is compared with its first parent.
        """
        if limit is not None and limit < 0:
            raise UsageError(f"--limit: {limit} is negative")
        if entity is not None and type_name is not None:
            raise UsageError("both --entity and --type were given", hint="use one of them")
        wanted, entity_id = _parse_filters(filters or []), None
        if entity is not None:
            type_name, entity_id = named_entity(entity, "--entity")
        graph = open_for_listing(run)
        found = graph.commits(branch, type_name=type_name, entity_id=entity_id)
        if entity is not None and not (found.commits or found.unknown):
            raise NotFoundError(f"there never was {clipped(entity)} in these commits")
        chosen = [commit for commit in found.commits if _matches(commit, wanted)]
        drawing = Drawing(chosen, graph.commits(branch).commits) if draws else None
        shown = (chosen if drawing is None else drawing.commits)[:limit]
        removals = graph.removals()
        content = shapes.commit_list(shown, removals)
        if type_name is not None:
            content |= shapes.unknown_changes(found.unknown)
            _say_unknown(run, found.unknown)
        if drawing is not None:
            names = names_of_commits(graph)
            run.output.drawing(
                content, drawing.text(limit, names, removals, is_colored=run.output.is_colored())
            )
        elif oneline:
            room = terminal_columns() if sys.stdout.isatty() else None
            run.output.result(
                content, *(line_of(each, removals, whole=run.full_ids, room=room) for each in shown)
            )
        else:
            _list(run, graph, shown, content, removals, all_branches=branch is None)


def _list(
    run: Run,
    graph: Graph,
    shown: Sequence[GraphCommit],
    content: JsonObject,
    removals: Removals,
    *,
    all_branches: bool,
) -> None:
    columns = ["commit", "when", "branch", "actor", "operation", "message"]
    rows = [
        [Id(c.commit_id), shown_time(c.created_at), c.shown_branch, c.actor_id, c.operation, c.message]
        for c in shown
    ]
    gone = [removals.removed_at(commit) for commit in shown]
    if any(gone):
        columns.append("removed")
        for row, when in zip(rows, gone, strict=True):
            row.append(None if when is None else f"by cleanup, {shown_time(when)}")
    run.output.rows(content, counted(len(shown), "commit"), columns, rows)
    moved = graph.moved_branches() if all_branches else []
    if moved:
        run.output.remark(f"not listed, because the graph was moved: the commits of {', '.join(moved)}")


def _register_show(group: typer.Typer, app: typer.Typer) -> None:
    @command(
        group,
        "show",
        takes_graph=False,
        elsewhere={"show": app},
        examples=[
            "omnigraph commit show main",
            "omnigraph commit show 3HPR5A7C --json",
            "omnigraph commit show main~1 --changes",
        ],
    )
    def show(
        run: Run,
        first: CommitArgument,
        second: SecondArgument = None,
        changes: Annotated[
            bool, typer.Option("--changes", help="Show every entity that it changed, too.")
        ] = False,
    ) -> None:
        """Show one commit."""
        _show(*_addressed(run, first, second), changes=changes)

    @command(
        group, "changes", takes_graph=False, hidden=True, examples=["omnigraph commit show main --changes"]
    )
    def changes(run: Run, first: CommitArgument, second: SecondArgument = None) -> None:
        """Show one commit, and every entity that it changed."""
        _show(*_addressed(run, first, second), changes=True)


def _addressed(run: Run, first: str, second: str | None) -> tuple[Run, str]:
    """The run and the commit of `REF` or `GRAPH REF`."""
    if second is None:
        return run, first
    return replace(run, given=given_place(run.given.place if run.given else None, first)), second


def _show(run: Run, ref: str, *, changes: bool) -> None:
    graph = open_for_listing(run)
    commit = graph.commit(ref)
    removed_at = graph.removals().removed_at(commit)
    content = shapes.commit(commit, graph.removals())
    described = _described(commit, removed_at, _repaired(graph, commit))
    if not changes:
        run.output.result(content, *described)
        return
    from omnigraph_core.diff.records import Op

    written = WrittenDiff(graph.diff(commit.commit_id), tuple(Op), stat=False)
    if isinstance(run.output, JsonOutput):
        for text in written.json_after(content):
            DiffFormat.JSON.put(sys.stdout, text)
        return
    run.output.result(content, *described, "")
    for text in written.text(DiffFormat.TABLE):
        DiffFormat.TABLE.put(sys.stdout, text)


def _say_unknown(run: Run, unknown: Sequence[Unknown]) -> None:
    for each in unknown:
        run.output.remark(f"at {each.commit.commit_id} and before: {LIMITS[each.limit]}")


def _parse_filters(filters: Iterable[str]) -> dict[str, set[str]]:
    wanted: dict[str, set[str]] = {}
    for text in filters:
        key, separator, value = text.partition("=")
        if not separator or key not in _FILTERS:
            raise UsageError(
                f"--filter: cannot use '{text}'", hint="K=V, where K is one of " + ", ".join(_FILTERS)
            )
        wanted.setdefault(key, set()).add(value)
    return wanted


def _matches(commit: GraphCommit, wanted: dict[str, set[str]]) -> bool:
    """All keys must match; a value that a commit does not have counts as the empty text."""
    return all((_FILTERS[key](commit) or "") in values for key, values in wanted.items())


def _repaired(graph: Graph, commit: GraphCommit) -> str | None:
    """Whose write a repair was for, and what became of it."""
    from omnigraph_core.history.recoveries import RECOVERY_ACTOR

    if commit.actor_id != RECOVERY_ACTOR:
        return None
    for each in graph.recoveries():
        if each.graph_commit_id == commit.commit_id:
            by = each.recovery_for_actor or "an unknown writer"
            did = recovered(each.recovery_kind)
            return f"{did} a {each.sidecar_writer_kind} by {by}, operation {each.operation_id}"
    return None


def _described(commit: GraphCommit, removed_at: int | None, repaired: str | None) -> list[str]:
    facts = {
        "commit": commit.commit_id,
        "branch": f"{commit.shown_branch}, manifest version {commit.manifest_version}",
        "parent": commit.parent_commit_id,
        "merged": commit.merged_parent_commit_id,
        "actor": commit.actor_id,
        "when": shown_time(commit.created_at),
        "operation": commit.operation,
        "repair": repaired,
        "schema": commit.schema_hash,
        "removed": None if removed_at is None else f"by cleanup, {shown_time(removed_at)}",
    }
    lines = [f"{name + ':':<11}{value}" for name, value in facts.items() if value is not None]
    lines += _content(json.loads(commit.details)) if commit.details else []
    if commit.message:
        lines += ["", *(f"    {line}" for line in commit.message.splitlines())]
    return lines


def _content(details: dict[str, Any]) -> list[str]:
    """What changed, one line per table, and the inputs it was read from."""
    lines = []
    for table_key, counts in details.get("counts", {}).items():
        words = ", ".join(f"{number} {name}" for name, number in counts.items())
        lines.append(f"{'changed:':<11}{table_key} {words or 'nothing'}")
    for given in details.get("inputs", []):
        lines.append(f"{'input:':<11}{given['name']}{_size_and_digest(given)}")
    return lines


def _size_and_digest(given: dict[str, Any]) -> str:
    """Size and digest of an input; unknown if only Spark has read it, or if it is on S3."""
    size = "" if given["bytes"] is None else f" {given['bytes']} bytes"
    return size if given["sha256"] is None else f"{size}, sha256 {given['sha256']}"
