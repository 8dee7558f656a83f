"""`omnigraph branch …`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.commands import merging
from omnigraph_cli.completing import complete_other_branch, complete_ref
from omnigraph_cli.consent import asks, consents
from omnigraph_cli.output import counted
from omnigraph_cli.reading import open_for_listing
from omnigraph_cli.run import Run, command, command_group, echo_target
from omnigraph_core import layout, shapes
from omnigraph_core.errors import NotFoundError, RefusedError

if TYPE_CHECKING:
    from omnigraph_core.graph import Graph


def register(app: typer.Typer) -> None:
    group = command_group(app, "branch", help="Create, list, merge and delete branches.")
    _register_create(group)
    _register_list(group)
    merging.register_branch(group)
    for each in (_register_delete, _register_undelete, _register_rename):
        each(group)


def _register_create(group: typer.Typer) -> None:
    @command(
        group,
        "create",
        takes_graph=False,
        writes=True,
        examples=["omnigraph branch create review", "omnigraph branch create fix --from main~3"],
    )
    def create(
        run: Run,
        name: Annotated[str, typer.Argument(metavar="NAME", help="The new branch.")],
        source: Annotated[
            str,
            typer.Option(
                "--from",
                metavar="REF",
                help="Where the branch starts.",
                autocompletion=complete_ref,
            ),
        ] = layout.MAIN_BRANCH,
    ) -> None:
        """Create a branch, in constant time whatever the size of the graph."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_WRITE)
        echo_target(run, "branch create", graph.location)
        commit = graph.create_branch(name, source, actor=run.actor, message=run.message)
        content = shapes.branch_created(graph.location.uri, name.strip(), source, run.actor, commit)
        run.output.result(content, f"created branch {name.strip()} from {source}")


def _register_list(group: typer.Typer) -> None:
    @command(
        group,
        "list",
        lists_ids=True,
        examples=["omnigraph branch list", "omnigraph branch list --long", "omnigraph branch list --json"],
    )
    def list_(
        run: Run,
        long: Annotated[
            bool,
            typer.Option("--long", help="With head, age, actor, and commits ahead of and behind main."),
        ] = False,
    ) -> None:
        """List the branches: on a terminal with their heads, in a pipe their names."""
        graph = open_for_listing(run)
        names = graph.branches()
        content = shapes.branch_list(names)
        if not long and (run.is_json or not sys.stdout.isatty()):
            run.output.result(content, *names)
            return
        from omnigraph_cli.branch_lines import COLUMNS, standings
        from omnigraph_core.ids import now_us

        found = standings(graph, names)
        content = {**content, "heads": [each.content() for each in found]}
        now = now_us()
        rows = [each.row(now) for each in found]
        run.output.rows(content, counted(len(names), "branch", "branches"), COLUMNS, rows)


def _register_delete(group: typer.Typer) -> None:
    @command(
        group,
        "delete",
        takes_graph=False,
        writes=True,
        examples=["omnigraph branch delete review", "omnigraph branch delete review --yes"],
    )
    def delete(
        run: Run,
        name: Annotated[
            str, typer.Argument(metavar="NAME", help="The branch.", autocompletion=complete_other_branch)
        ],
        yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    ) -> None:
        """Delete a branch; `branch undelete` brings it back until cleanup, or until its name is used."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_WRITE)
        called, head = name.strip(), None
        if not yes and asks(run):
            question, head = _question(graph, called)
            if not consents(question):
                raise RefusedError(f"branch '{called}' was not deleted")
        echo_target(run, "branch delete", graph.location)
        # What was written while the question was on the screen is not what was consented to.
        graph.delete_branch(name, actor=run.actor, message=run.message, only_at=head)
        content = shapes.branch_deleted(graph.location.uri, called, run.actor)
        run.output.result(content, f"deleted branch {called}")
        run.output.remark(f"until cleanup, `omnigraph branch undelete {called}` brings it back")


def _question(graph: Graph, name: str) -> tuple[str, str | None]:
    """Names what would be lost: the commits that no other branch has. Also returns the head it is about."""
    from omnigraph_cli.branch_lines import only_on

    try:
        head = graph.head(name)
    except NotFoundError:
        return f"Delete branch {name}?", None
    found = len(only_on(graph, name))
    asked_of = None if head is None else head.commit_id
    if not found:
        return f"Delete branch {name}? Its commits are all on other branches, too.", asked_of
    return f"Delete branch {name}, with {counted(found, 'commit')} that no other branch has?", asked_of


def _register_rename(group: typer.Typer) -> None:
    @command(
        group,
        "rename",
        takes_graph=False,
        writes=True,
        examples=["omnigraph branch rename review checked"],
    )
    def rename(
        run: Run,
        old: Annotated[
            str, typer.Argument(metavar="OLD", help="The branch.", autocompletion=complete_other_branch)
        ],
        new: Annotated[str, typer.Argument(metavar="NEW", help="Its new name.")],
    ) -> None:
        """Give a branch another name. It stays the same branch: history, tags, what was made from it."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_WRITE)
        echo_target(run, "branch rename", graph.location)
        graph.rename_branch(old, new, actor=run.actor, message=run.message)
        content = shapes.branch_renamed(graph.location.uri, old.strip(), new.strip(), run.actor)
        run.output.result(content, f"renamed branch {old.strip()} to {new.strip()}")


def _register_undelete(group: typer.Typer) -> None:
    @command(
        group,
        "undelete",
        takes_graph=False,
        writes=True,
        examples=["omnigraph branch undelete review"],
    )
    def undelete(
        run: Run, name: Annotated[str, typer.Argument(metavar="NAME", help="The deleted branch.")]
    ) -> None:
        """Bring back the branch of this name that was deleted last, as it was."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_WRITE)
        echo_target(run, "branch undelete", graph.location)
        found = graph.undelete_branch(name, actor=run.actor, message=run.message)
        content = shapes.branch_undeleted(graph.location.uri, name.strip(), found, run.actor)
        run.output.result(content, f"branch {name.strip()} is back at {found.head}")
