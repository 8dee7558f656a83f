"""`omnigraph branch merge`, `branch reset` and `revert`: what joins branches and takes commits back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.conflict_file import STANDARD, ConflictFile, read_choices
from omnigraph_cli.options import BranchOption, complete_branch
from omnigraph_cli.output import JsonOutput, counted
from omnigraph_cli.run import Run, command, echo_target
from omnigraph_core import shapes
from omnigraph_core.errors import OmnigraphError, UsageError

if TYPE_CHECKING:
    from omnigraph_core.graph import Graph
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
            typer.Argument(metavar="SOURCE", help="The branch to merge.", autocompletion=complete_branch),
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
        _show(run, graph, result, target, source=source, verb="merge", dry_run=dry_run, file=file)
        if delete_branch and not dry_run:
            _delete_merged(run, graph, source, result)


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
            str, typer.Argument(metavar="REF", help="The state it gets.", autocompletion=complete_branch)
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
        ref: Annotated[str, typer.Argument(metavar="COMMIT", help="The commit to take back.")],
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
            error.hint = (
                "settle them by --strategy ours or theirs, or one by one: --conflicts FILE, --resolve FILE"
                if option is None
                else f'give each line of {option} a "choice", such as "ours" or "theirs"; then --resolve it'
            )
            raise


def _delete_merged(run: Run, graph: Graph, source: str, result: Merged) -> None:
    """Delete the source, unless somebody has written to it since it was merged."""
    try:
        graph.delete_branch(source, actor=run.actor, only_at=result.source_commit_id)
    except OmnigraphError as error:
        error.hint = "the merge is done; only the branch was not deleted"
        raise
    run.output.remark(f"deleted branch {source}")


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
) -> None:
    from omnigraph_core.merge.conflicts import shown

    uri = graph.location.uri
    content = shapes.merged(result, uri, target, run.actor, source=source, dry_run=dry_run)
    text = _told(result, verb, source, target, dry_run=dry_run)
    if file is not None and file.is_standard_output:
        run.output.remark(text)
    else:
        run.output.result(content, text)
    for step in result.schema_changes:
        run.output.remark(f"schema: {step}")
    for warning in result.warnings:
        run.output.remark(f"warning: {warning}")
    for conflict in result.conflicts:
        run.output.remark(f"conflict: {shown(conflict)}")
    if result.conflicts:
        run.output.remark(counted(len(result.conflicts), "conflict"))
    if result.commit_id is not None:
        run.output.remark(f"commit {result.commit_id}")


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
