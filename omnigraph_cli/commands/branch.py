"""`omnigraph branch …`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph_cli.consent import consents
from omnigraph_cli.options import complete_branch
from omnigraph_cli.reading import open_for_listing
from omnigraph_cli.run import Run, command, command_group, echo_target
from omnigraph_core import layout
from omnigraph_core.errors import RefusedError

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The branch.", autocompletion=complete_branch)
]


def register(app: typer.Typer) -> None:
    group = command_group(app, "branch", help="Create, list and delete branches.")

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
            typer.Option("--from", metavar="REF", help="Where it starts.", autocompletion=complete_branch),
        ] = layout.MAIN_BRANCH,
    ) -> None:
        """Make a branch; costs the same however large the graph is."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_WRITE)
        echo_target(run, "branch create", graph.location)
        commit = graph.create_branch(name, source)
        content = {
            "uri": graph.location.uri,
            "from": source,
            "name": name.strip(),
            "actor_id": run.actor,
            "graph_commit_id": commit.commit_id,
        }
        run.output.result(content, f"created branch {name.strip()} from {source}")

    @command(group, "list", examples=["omnigraph branch list", "omnigraph branch list --json"])
    def list_(run: Run) -> None:
        """List the branches."""
        graph = open_for_listing(run)
        names = graph.branches()
        run.output.result({"branches": names}, "\n".join(names))

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
        yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    ) -> None:
        """Delete a branch and the data only it has."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_WRITE)
        if not yes and not consents(f"Delete branch {name.strip()}?"):
            raise RefusedError(f"branch '{name.strip()}' was not deleted")
        echo_target(run, "branch delete", graph.location)
        graph.delete_branch(name)
        content = {"uri": graph.location.uri, "name": name.strip(), "actor_id": run.actor}
        run.output.result(content, f"deleted branch {name.strip()}")
