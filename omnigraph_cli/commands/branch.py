"""`omnigraph branch …`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph_cli.commands import merging
from omnigraph_cli.consent import consents
from omnigraph_cli.options import complete_branch
from omnigraph_cli.reading import open_for_listing
from omnigraph_cli.run import Run, command, command_group, echo_target
from omnigraph_core import layout, shapes
from omnigraph_core.errors import RefusedError

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The branch.", autocompletion=complete_branch)
]


def register(app: typer.Typer) -> None:
    group = command_group(app, "branch", help="Create, list, merge and delete branches.")
    merging.register_branch(group)

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
                help="Where the branch starts; default main.",
                autocompletion=complete_branch,
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

    @command(group, "list", examples=["omnigraph branch list", "omnigraph branch list --json"])
    def list_(run: Run) -> None:
        """List the branches."""
        graph = open_for_listing(run)
        names = graph.branches()
        run.output.result(shapes.branch_list(names), *names)

    @command(
        group,
        "delete",
        takes_graph=False,
        writes=True,
        examples=["omnigraph branch delete review", "omnigraph branch delete review --yes"],
    )
    def delete(
        run: Run,
        name: NameArgument,
        yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    ) -> None:
        """Delete a branch; `branch undelete` brings it back until cleanup, or until its name is used."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_WRITE)
        if not yes and not consents(f"Delete branch {name.strip()}?"):
            raise RefusedError(f"branch '{name.strip()}' was not deleted")
        echo_target(run, "branch delete", graph.location)
        graph.delete_branch(name, actor=run.actor, message=run.message)
        content = shapes.branch_deleted(graph.location.uri, name.strip(), run.actor)
        run.output.result(content, f"deleted branch {name.strip()}")

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
            str, typer.Argument(metavar="OLD", help="The branch.", autocompletion=complete_branch)
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
