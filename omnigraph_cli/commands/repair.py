"""`omnigraph repair`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph_cli.exits import ANSWER_IS_NO
from omnigraph_cli.options import BranchOption
from omnigraph_cli.run import Run, command
from omnigraph_core import shapes
from omnigraph_core.errors import UsageError


def register(app: typer.Typer) -> None:
    @command(
        app,
        "repair",
        writes=True,
        examples=["omnigraph repair", "omnigraph repair --confirm", "omnigraph repair --confirm --force"],
    )
    def repair(
        run: Run,
        branch: BranchOption = None,
        confirm: Annotated[
            bool,
            typer.Option("--confirm", "--yes", help="Adopt what changed no row; undo late writes."),
        ] = False,
        force: Annotated[
            bool, typer.Option("--force", help="With --confirm: adopt also what may have changed rows.")
        ] = False,
    ) -> None:
        """Decide about tables that another program wrote to.

        Without --confirm it only says what it found. Adopting makes the table's newest version
        part of the graph, in one commit by omnigraph:repair; no data moves.
        """
        if force and not confirm:
            raise UsageError("--force needs --confirm")
        from omnigraph_core.graph import OpenMode
        from omnigraph_core.maintenance.drift import Classification
        from omnigraph_core.maintenance.repair import Action

        graph = run.open(OpenMode.READ_WRITE)
        result = graph.repair(run.branch(branch), confirm=confirm, force=force, message=run.message)
        drifted = [each for each in result.tables if each.classification is not Classification.NO_DRIFT]
        content = shapes.repaired(result, graph.location.uri, confirm=confirm, force=force)
        if not drifted:
            run.output.result(content, "nothing to repair")
            return
        run.output.rows(
            content,
            f"tables of {result.branch} with versions that nobody published",
            ("table", "published", "head", "what", "action", "reason"),
            [
                (
                    each.table_key,
                    each.published_version,
                    each.head_version,
                    each.classification.value,
                    each.action.value,
                    each.reason,
                )
                for each in drifted
            ],
            *([] if result.commit_id is None else [f"commit {result.commit_id}"]),
        )
        is_forced = any(each.action is Action.FORCED for each in drifted)
        for each in result.breaks:
            run.output.remark(f"{'broken now' if is_forced else 'adopting this would break'}: {each}")
        if result.commit_id is None and not confirm:
            run.output.remark("nothing was changed; run `omnigraph repair --confirm` to decide")
        if result.has_refused:
            raise typer.Exit(ANSWER_IS_NO)
