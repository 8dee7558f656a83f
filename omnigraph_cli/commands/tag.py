"""`omnigraph tag …`."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph_cli.completing import complete_ref, complete_tag
from omnigraph_cli.output import counted
from omnigraph_cli.run import Run, command, command_group, echo_target
from omnigraph_cli.tables import Id
from omnigraph_core import shapes


def register(app: typer.Typer) -> None:
    group = command_group(app, "tag", help="Name commits; what has a name is kept.")

    @command(
        group,
        "create",
        takes_graph=False,
        writes=True,
        examples=[
            "omnigraph tag create v1",
            "omnigraph tag create before-import main~2 --message shipped",
        ],
    )
    def create(
        run: Run,
        name: Annotated[str, typer.Argument(metavar="NAME", help="The new tag.")],
        ref: Annotated[
            str | None,
            typer.Argument(
                metavar="REF",
                help="The commit it names; default the head of the branch.",
                autocompletion=complete_ref,
            ),
        ] = None,
    ) -> None:
        """Give a commit a name: tag:NAME is a REF. Cleanup keeps what a tag names."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_WRITE)
        echo_target(run, "tag create", graph.location)
        tag = graph.create_tag(name, ref or run.branch(None), actor=run.actor, message=run.message)
        content = shapes.tag_created(tag, graph.location.uri)
        run.output.result(content, f"tagged {tag.commit_id} as {tag.name}")

    @command(group, "list", lists_ids=True, examples=["omnigraph tag list", "omnigraph tag list --json"])
    def list_(run: Run) -> None:
        """List the tags."""
        from omnigraph_core.graph import OpenMode

        tags = run.open(OpenMode.READ_ONLY).tags()
        columns = ["tag", "commit", "branch", "actor", "message"]
        rows = [(each.name, Id(each.commit_id), each.branch, each.actor_id, each.message) for each in tags]
        run.output.rows(shapes.tag_list(tags), counted(len(tags), "tag"), columns, rows)

    @command(group, "delete", takes_graph=False, writes=True, examples=["omnigraph tag delete v1"])
    def delete(
        run: Run,
        name: Annotated[str, typer.Argument(metavar="NAME", help="The tag.", autocompletion=complete_tag)],
    ) -> None:
        """Delete a tag. The commit stays; cleanup keeps it no longer than others."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_WRITE)
        echo_target(run, "tag delete", graph.location)
        tag = graph.delete_tag(name, actor=run.actor, message=run.message)
        named = "" if tag is None else f", which named {tag.commit_id}"
        content = shapes.tag_deleted(name.strip(), tag, graph.location.uri, run.actor)
        run.output.result(content, f"deleted tag {name.strip()}{named}")
