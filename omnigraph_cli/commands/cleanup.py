"""`omnigraph cleanup`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.consent import asks, consents, is_terminal
from omnigraph_cli.exits import ANSWER_IS_NO
from omnigraph_cli.output import counted
from omnigraph_cli.progress import progress_of
from omnigraph_cli.run import Run, command
from omnigraph_core import shapes
from omnigraph_core.errors import RefusedError, UsageError
from omnigraph_core.times import parse_duration

if TYPE_CHECKING:
    from omnigraph_core.maintenance.cleaned import Cleaned, CleanedTable


def register(app: typer.Typer) -> None:
    @command(
        app,
        "cleanup",
        writes=True,
        has_progress=True,
        examples=[
            "omnigraph cleanup --dry-run",
            "omnigraph cleanup --keep 20",
            "omnigraph cleanup --keep 10 --older-than 7d --grace 1h",
        ],
    )
    def cleanup(
        run: Run,
        keep: Annotated[
            int | None,
            typer.Option(metavar="N", help="Keep the newest N commits of every branch; default 10."),
        ] = None,
        older_than: Annotated[
            str | None,
            typer.Option(
                metavar="TIME", help="Remove only commits older than this, such as 7d, 12h, 30m or 0s."
            ),
        ] = None,
        grace: Annotated[
            str,
            typer.Option(metavar="TIME", help="Spare what was superseded within this time."),
        ] = "1h",
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")
        ] = False,
        force: Annotated[bool, typer.Option("--force", help="Keep fewer than 3 commits.")] = False,
        yes: Annotated[bool, typer.Option("--yes", "--confirm", help="Do not ask.")] = False,
    ) -> None:
        """Remove old commits' data, and what dead writers and deleted branches left.

        Heads, the newest commits of every branch, whatever branches inherit, the bases of
        merges and the files of writes in progress stay. The history stays listed. With --keep and
        --older-than a commit goes only if it is beyond both.
        """
        if keep is not None and keep <= 0:
            raise UsageError(f"--keep: at least 1 commit must be kept, not {keep}")
        older_than_s = None if older_than is None else seconds("--older-than", older_than)
        grace_s = seconds("--grace", grace)
        from omnigraph_core.graph import OpenMode
        from omnigraph_core.maintenance.keep import checked_policy

        policy = checked_policy(keep, older_than_s, grace_s, force=force)
        if not (dry_run or yes):
            _ask(run, has_policy=keep is not None or older_than is not None, keep=policy.keep)
        graph = run.open(OpenMode.READ_ONLY if dry_run else OpenMode.READ_WRITE)
        with progress_of(run) as progress:
            result = graph.cleanup(
                keep=keep,
                older_than_s=older_than_s,
                grace_s=grace_s,
                force=force,
                dry_run=dry_run,
                progress=progress,
            )
        content = shapes.cleaned(result, graph.location.uri, dry_run=dry_run)
        print_cleaned(run, result, content, dry_run=dry_run)
        if result.has_failed:
            raise typer.Exit(ANSWER_IS_NO)


def print_cleaned(run: Run, result: Cleaned, content: Mapping[str, object], *, dry_run: bool) -> None:
    verb = "would remove" if dry_run else "removed"
    left = f"{counted(result.commits_left, 'commit')} can be read"
    if result.is_nothing:
        run.output.result(content, f"nothing to remove; {left}")
        return
    title = f"{verb} {counted(result.commits_removed, 'commit')}, {result.bytes:,} bytes; {left}"
    columns = ("table", "branch", "what", "versions", "files", "bytes", "error")
    run.output.rows(content, title, columns, [_row(table) for table in result.tables])
    if result.branches_purged:
        run.output.remark(f"{verb} for good the deleted {_branches(result.branches_purged)}")
    if result.leftovers:
        run.output.remark(f"{verb} {counted(result.leftovers, 'file')} of killed processes")


def _branches(names: Sequence[str]) -> str:
    return f"{'branch' if len(names) == 1 else 'branches'} {', '.join(names)}"


def _row(table: CleanedTable) -> tuple[object, ...]:
    """Before and after, one lineage a line."""
    before, after = table.before, table.after
    what = counted(table.rows, "row") if table.rows else table.action
    return (
        table.table_key,
        table.branch,
        what,
        f"{before.versions} → {after.versions}",
        f"{before.files} → {after.files}",
        f"{before.bytes:,} → {after.bytes:,}",
        table.error,
    )


def _ask(run: Run, *, has_policy: bool, keep: int) -> None:
    """On a terminal a person is asked; elsewhere a policy that was named is consent."""
    if not is_terminal() and not has_policy:
        raise RefusedError(
            "cleanup removes data for good, and no policy was named",
            hint="name one, such as --keep 10, or say --yes",
        )
    if is_terminal():
        asks(run)
    newest = counted(keep, "newest commit", "newest commits")
    if is_terminal() and not consents(f"Remove what is older than the {newest} of each branch?"):
        raise RefusedError("nothing was removed", hint="--yes skips the question")


def seconds(option: str, text: str) -> float:
    found = parse_duration(text)
    if found is None:
        raise UsageError(f"{option}: '{text}' is not a time", hint="such as 7d, 12h, 30m or 0s")
    return found
