"""`omnigraph commit …`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from omnigraph_cli.options import BranchOption, complete_branch
from omnigraph_cli.reading import open_for_listing
from omnigraph_cli.run import Run, command, command_group
from omnigraph_core.errors import UsageError

if TYPE_CHECKING:
    from omnigraph_core.history.log import GraphCommit

_FILTERS: dict[str, Callable[[GraphCommit], str | None]] = {
    "actor": lambda commit: commit.actor_id,
    "branch": lambda commit: commit.branch,
    "operation": lambda commit: commit.operation,
    "message": lambda commit: commit.message,
    "schema": lambda commit: commit.schema_hash,
    "id": lambda commit: commit.commit_id,
}


def register(app: typer.Typer) -> None:
    group = command_group(app, "commit", help="Look at the history.")

    @command(
        group,
        "list",
        examples=[
            "omnigraph commit list",
            "omnigraph commit list --branch main --limit 20 --oneline",
            "omnigraph commit list --filter actor=omnigraph:recovery",
        ],
    )
    def list_(
        run: Run,
        branch: BranchOption = None,
        limit: Annotated[int | None, typer.Option(metavar="N", help="The newest N only.")] = None,
        filters: Annotated[
            list[str] | None,
            typer.Option(
                "--filter",
                metavar="K=V",
                help="Only commits where K is V: " + ", ".join(_FILTERS) + ". Repeat to narrow down; "
                "the same key twice means either.",
            ),
        ] = None,
        oneline: Annotated[bool, typer.Option("--oneline", help="One short line a commit.")] = False,
    ) -> None:
        """List commits, newest first: of all branches, or everything one branch descends from."""
        if limit is not None and limit < 0:
            raise UsageError(f"--limit: {limit} is negative")
        wanted = _parse_filters(filters or [])
        from omnigraph_core.history.log import newest_first
        from omnigraph_core.manifest.reader import BranchNotFound

        log = open_for_listing(run).log()
        if branch is not None and branch not in log.heads:
            raise BranchNotFound(branch)
        commits = newest_first(log.commits.values()) if branch is None else log.history(branch)
        shown = [commit for commit in commits if _matches(commit, wanted)][:limit]
        content = {"commits": [commit_object(commit) for commit in shown]}
        if oneline:
            run.output.result(content, "\n".join(_line(commit) for commit in shown))
            return
        columns = ["commit", "when", "branch", "actor", "operation", "message"]
        rows = [
            (c.commit_id, _when(c.created_at), c.branch, c.actor_id, c.operation, c.message) for c in shown
        ]
        run.output.rows(content, f"{len(shown)} commits", columns, rows)

    @command(
        group,
        "show",
        takes_graph=False,
        examples=["omnigraph commit show main", "omnigraph commit show 3HPR5A7C --json"],
    )
    def show(
        run: Run,
        ref: Annotated[
            str, typer.Argument(metavar="REF", help="The commit.", autocompletion=complete_branch)
        ],
    ) -> None:
        """Show one commit."""
        commit = open_for_listing(run).commit(ref)
        run.output.result(commit_object(commit), _described(commit))


def commit_object(commit: GraphCommit) -> dict[str, object]:
    """The documented JSON shape of a commit."""
    return {
        "graph_commit_id": commit.commit_id,
        "manifest_branch": commit.branch,
        "manifest_version": commit.manifest_version,
        "parent_commit_id": commit.parent_commit_id,
        "merged_parent_commit_id": commit.merged_parent_commit_id,
        "actor_id": commit.actor_id,
        "created_at": commit.created_at,
        "operation": commit.operation,
        "message": commit.message,
        "schema_hash": commit.schema_hash,
        "details": json.loads(commit.details) if commit.details else None,
    }


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
    """All keys must hold; a fact that a commit does not have is the empty text."""
    return all((_FILTERS[key](commit) or "") in values for key, values in wanted.items())


def _when(microseconds: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=microseconds)
    return moment.strftime("%Y-%m-%d %H:%M:%SZ")


def _line(commit: GraphCommit) -> str:
    text = commit.message or commit.operation or ""
    return f"{commit.commit_id[-8:]} {commit.branch} {commit.actor_id or '-'} {text}".rstrip()


def _described(commit: GraphCommit) -> str:
    facts = {
        "commit": commit.commit_id,
        "branch": f"{commit.branch}, manifest version {commit.manifest_version}",
        "parent": commit.parent_commit_id,
        "merged": commit.merged_parent_commit_id,
        "actor": commit.actor_id,
        "when": _when(commit.created_at),
        "operation": commit.operation,
        "schema": commit.schema_hash,
    }
    lines = [f"{name + ':':<11}{value}" for name, value in facts.items() if value is not None]
    lines += _content(json.loads(commit.details)) if commit.details else []
    if commit.message:
        lines += ["", *(f"    {line}" for line in commit.message.splitlines())]
    return "\n".join(lines)


def _content(details: dict[str, Any]) -> list[str]:
    """What changed, a line for each table, and what it was read from."""
    lines = []
    for table_key, counts in details.get("counts", {}).items():
        words = ", ".join(f"{number} {name}" for name, number in counts.items())
        lines.append(f"{'changed:':<11}{table_key} {words or 'nothing'}")
    for given in details.get("inputs", []):
        lines.append(f"{'input:':<11}{given['name']}{_size_and_digest(given)}")
    return lines


def _size_and_digest(given: dict[str, Any]) -> str:
    """Size and digest of an input; of one that only Spark has read, or on S3, they are not known."""
    size = "" if given["bytes"] is None else f" {given['bytes']} bytes"
    return size if given["sha256"] is None else f"{size}, sha256 {given['sha256']}"
