"""`omnigraph branch merge`, `branch reset` and `revert`: what joins branches and takes commits back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.completing import complete_branch, complete_other_branch, complete_ref
from omnigraph_cli.conflict_file import STANDARD, ConflictFile, read_choices
from omnigraph_cli.exits import BY_KIND
from omnigraph_cli.options import BranchOption
from omnigraph_cli.output import JsonOutput, counted
from omnigraph_cli.run import Run, command, echo_target
from omnigraph_core import shapes
from omnigraph_core.errors import ErrorKind, OmnigraphError, UsageError

if TYPE_CHECKING:
    from omnigraph_core.graph import Graph
    from omnigraph_core.merge.conflicts import Conflict
    from omnigraph_core.merge.run import Merged

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say what would come of it, conflicts included; write nothing.")
]
StrategyOption = Annotated[
    str,
    typer.Option(
        "--strategy",
        metavar="fail|ours|theirs",
        help="Where both changed the same: fail, or take one side. Default fail.",
    ),
]
ConflictsOption = Annotated[
    str | None,
    typer.Option("--conflicts", metavar="FILE", help="Write conflicts to this file, one JSON line each."),
]


ResolveOption = Annotated[
    str | None,
    typer.Option(
        "--resolve",
        metavar="FILE",
        help="Settle conflicts by the choices in this file: one that --conflicts wrote, with a choice on each"
        " line.",
    ),
]

_DONE = {"merge": "merged", "revert": "reverted", "reset": "reset"}


def register_merge(place: typer.Typer, *, hidden: bool = False) -> None:
    """`branch merge`; and `merge`, its other name."""

    @command(
        place,
        "merge",
        takes_graph=False,
        writes=True,
        hidden=hidden,
        examples=[
            "omnigraph branch merge review",
            "omnigraph branch merge main --into review",
            "omnigraph branch merge review --dry-run --conflicts conflicts.jsonl",
        ],
    )
    def merge(
        run: Run,
        source: Annotated[
            str,
            typer.Argument(
                metavar="SOURCE", help="The branch to merge.", autocompletion=complete_other_branch
            ),
        ],
        into: Annotated[
            str | None,
            typer.Option(
                "--into",
                metavar="B",
                help="The branch that gets the changes; default main.",
                autocompletion=complete_branch,
            ),
        ] = None,
        dry_run: DryRunOption = False,
        strategy: StrategyOption = "fail",
        conflicts: ConflictsOption = None,
        resolve: ResolveOption = None,
        if_commit: Annotated[
            str | None,
            typer.Option(
                "--if-commit", metavar="ID", help="Merge only if this commit is the head of the target."
            ),
        ] = None,
        delete_branch: Annotated[
            bool, typer.Option("--delete-branch", help="Delete the source after a successful merge.")
        ] = False,
    ) -> None:
        """Merge a branch into another, property by property, as one commit with two parents.

        Conflicts are listed all at once, and nothing changes.
        """
        _check_strategy(strategy)
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_WRITE)
        target = run.branch(into)
        echo_target(run, "branch merge", graph.location)
        resolution = read_choices(resolve)
        with _conflicts_to(run, conflicts) as file:
            result = graph.merge(
                source,
                target,
                strategy=strategy,
                actor=run.actor,
                message=run.message,
                if_commit=if_commit,
                resolution=resolution,
                dry_run=dry_run,
            )
            file.write(result.conflicts, result.heads)
        deleted = _delete_merged(run, graph, source, result) if delete_branch and not dry_run else {}
        _show(
            run, graph, result, target, source=source, verb="merge", dry_run=dry_run, file=file, more=deleted
        )


def register_branch(group: typer.Typer) -> None:
    """The commands below `branch`."""
    register_merge(group)

    @command(
        group,
        "reset",
        takes_graph=False,
        writes=True,
        examples=["omnigraph branch reset review main~3"],
    )
    def reset(
        run: Run,
        name: Annotated[
            str, typer.Argument(metavar="NAME", help="The branch.", autocompletion=complete_branch)
        ],
        ref: Annotated[
            str, typer.Argument(metavar="REF", help="The state it gets.", autocompletion=complete_ref)
        ],
        dry_run: DryRunOption = False,
    ) -> None:
        """Make a branch hold what REF holds, as a new commit. What it held stays in its history."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_WRITE)
        head = graph.head(name)
        result = graph.reset_branch(name, ref, actor=run.actor, message=run.message, dry_run=dry_run)
        _show(run, graph, result, name, source=ref, verb="reset", dry_run=dry_run)
        if head is not None and result.commit_id is not None:
            run.output.remark(f"the head was {head.commit_id}")


def register(app: typer.Typer) -> None:
    register_merge(app, hidden=True)

    @command(
        app,
        "revert",
        takes_graph=False,
        writes=True,
        examples=["omnigraph revert 01JX…", "omnigraph revert main~2 --branch main --dry-run"],
    )
    def revert(
        run: Run,
        ref: Annotated[
            str,
            typer.Argument(metavar="COMMIT", help="The commit to take back.", autocompletion=complete_ref),
        ],
        branch: BranchOption = None,
        dry_run: DryRunOption = False,
        strategy: StrategyOption = "fail",
        conflicts: ConflictsOption = None,
        resolve: ResolveOption = None,
    ) -> None:
        """Take back what one commit did, whatever happened since, as a new commit.

        If nothing of it is left, there is no commit.
        """
        _check_strategy(strategy)
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_WRITE)
        target = run.branch(branch)
        resolution = read_choices(resolve)
        with _conflicts_to(run, conflicts) as file:
            result = graph.revert(
                ref,
                target,
                strategy=strategy,
                actor=run.actor,
                message=run.message,
                resolution=resolution,
                dry_run=dry_run,
            )
            file.write(result.conflicts, result.heads)
        _show(run, graph, result, target, source=ref, verb="revert", dry_run=dry_run, file=file)


def _check_strategy(strategy: str) -> None:
    if strategy not in ("fail", "ours", "theirs"):
        raise UsageError(f"--strategy: '{strategy}' is not one of fail, ours, theirs")


@contextmanager
def _conflicts_to(run: Run, option: str | None) -> Iterator[ConflictFile]:
    """Conflicts that end the command are written to the file as well."""
    from omnigraph_core.merge.run import MergeConflicts

    if option == STANDARD and isinstance(run.output, JsonOutput):
        raise UsageError("--conflicts - and --json would both write to standard output")
    with ConflictFile(option) as file:
        try:
            yield file
        except MergeConflicts as error:
            file.write(error.conflicts, error.heads)
            error.hint = _hint(error.conflicts, option)
            raise


def _hint(conflicts: Sequence[Conflict], option: str | None) -> str:
    """What settles these: a strategy some, a choice these and others, a change of the data the rest."""
    from omnigraph_core.merge.conflicts import ROW_KINDS, choices_for

    by_data = "change an entity on either branch, and merge again"
    chosen = [each.kind for each in conflicts if choices_for(each.kind)]
    if not chosen:
        return by_data
    one_by_one = "one by one: --conflicts FILE, --resolve FILE"
    if option is not None:
        lines = "line" if option == STANDARD else f"line of {option}"
        said = f'give each {lines} a "choice", one of its "choices"; then --resolve'
    elif any(kind in ROW_KINDS for kind in chosen):
        said = f"settle them by --strategy ours or theirs, or {one_by_one}"
    else:
        said = f"settle them {one_by_one}"
    return said if len(chosen) == len(conflicts) else f"{said}; for those without any, {by_data}"


def _delete_merged(run: Run, graph: Graph, source: str, result: Merged) -> dict[str, object]:
    """Delete the source, unless somebody has written to it since it was merged. The merge is done."""
    try:
        graph.delete_branch(source, actor=run.actor, only_at=result.source_commit_id)
    except OmnigraphError as error:
        return shapes.merged_branch_deleted(str(error))
    return shapes.merged_branch_deleted(None)


def _show(
    run: Run,
    graph: Graph,
    result: Merged,
    target: str,
    *,
    source: str,
    verb: str,
    dry_run: bool,
    file: ConflictFile | None = None,
    more: Mapping[str, object] | None = None,
) -> None:
    from omnigraph_core.merge.conflicts import shown

    uri, more = graph.location.uri, more or {}
    content = {**shapes.merged(result, uri, target, run.actor, source=source, dry_run=dry_run), **more}
    text = _told(result, verb, source, target, dry_run=dry_run)
    if file is not None and file.is_standard_output:
        run.output.remark(text)
    else:
        made = [] if result.commit_id is None else [f"commit {result.commit_id}"]
        run.output.result(content, text, *made)
    for step in result.schema_changes:
        run.output.remark(f"schema: {step}")
    for warning in result.warnings:
        run.output.remark(f"warning: {warning}")
    for conflict in result.conflicts:
        run.output.remark(f"conflict: {shown(conflict)}")
    if more.get("branch_deleted"):
        run.output.remark(f"deleted branch {source}")
    elif more:
        run.output.remark(f"warning: branch {source} was not deleted: {more['branch_delete_error']}")
    if result.conflicts:  # Of a dry run; any other raises them.
        raise typer.Exit(BY_KIND[ErrorKind.CONFLICT])


def _told(result: Merged, verb: str, source: str, target: str, *, dry_run: bool) -> str:
    """`merged dev into main: node:Person 2 written, 1 deleted`."""
    if result.outcome.value == "already_up_to_date":
        return {
            "merge": f"already up to date: {target} has everything of {source}",
            "revert": f"nothing to revert: nothing of {result.heads.theirs} is left on {target}",
            "reset": f"nothing to reset: {target} holds what {source} holds",
        }[verb]
    what = {
        "merge": f"{source} into {target}",
        "reset": f"{target} to {source}",
        "revert": f"{result.heads.theirs} on {target}",
    }[verb]
    is_fast_forward = verb == "merge" and result.outcome.value == "fast_forward"
    if result.conflicts:
        return f"would not {verb} {what}: {counted(len(result.conflicts), 'conflict')}"
    done = f"would {verb}" if dry_run else _DONE[verb]
    said = f"{done} {what}{' (fast-forward)' if is_fast_forward else ''}"
    changes = [
        f"{each.table_key} " + ", ".join(_count(each.upserted, "written") + _count(each.removed, "deleted"))
        for each in result.counts
        if each.upserted or each.removed
    ]
    return f"{said}: {'; '.join(changes) or 'no row differs'}"


def _count(number: int, word: str) -> list[str]:
    return [f"{number} {word}"] if number else []
