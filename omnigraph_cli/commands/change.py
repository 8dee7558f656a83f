"""`omnigraph change`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph_cli.options import BranchOption
from omnigraph_cli.output import counted
from omnigraph_cli.run import Run, command
from omnigraph_cli.sources import QueryOptions
from omnigraph_core import shapes


def register(app: typer.Typer) -> None:
    @command(
        app,
        "change",
        aliases=["mutate"],
        takes_graph=False,
        takes_query=True,
        writes=True,
        examples=[
            "omnigraph change -e 'query q() { insert Person { name: \"Ann\", age: 30 } }'",
            "omnigraph change birthday --query changes.gq --param who=Ann --param age=31",
            "omnigraph change -e 'query q() { delete Person where name = \"Ann\" }' --if-commit 01JX…",
        ],
    )
    def change(
        run: Run,
        asked: QueryOptions,
        branch: BranchOption = None,
        if_commit: Annotated[
            str | None,
            typer.Option(
                "--if-commit",
                metavar="ID",
                help="Change nothing unless this commit is the head of the branch.",
            ),
        ] = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Check and count everything, but write nothing.")
        ] = False,
    ) -> None:
        """Insert, update or delete with a query; all of its statements are one commit.

        A query that matches nothing makes no commit.
        """
        source = asked.read()
        from omnigraph_core.graph import OpenMode

        target = run.branch(branch)
        graph = run.open(OpenMode.READ_WRITE)
        changed = graph.change(
            source.text,
            name=source.name,
            source_name=source.source_name,
            params=source.params,
            param_texts=source.param_texts,
            branch=target,
            actor=run.actor,
            message=run.message,
            if_commit=if_commit,
            dry_run=dry_run,
        )
        content = shapes.changed(changed, target, run.actor, dry_run=dry_run)
        counts = f"{counted(changed.affected_nodes, 'node')}, {counted(changed.affected_edges, 'edge')}"
        verb = "would change" if dry_run else "changed"
        made = [] if changed.commit_id is None else [f"commit {changed.commit_id}"]
        run.output.result(content, f"{verb} {target} via {changed.query_name}: {counts}", *made)
        for warning in changed.warnings:
            run.output.remark(f"warning: {warning}")
        if changed.commit_id is None and not dry_run:
            run.output.remark("nothing matched; no commit was made")
