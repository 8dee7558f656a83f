"""`omnigraph blob …`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.options import BranchOption, SnapshotOption, one_target
from omnigraph_cli.output import counted
from omnigraph_cli.run import Run, command, command_group
from omnigraph_core import shapes
from omnigraph_core.errors import UsageError

if TYPE_CHECKING:
    from omnigraph_core.read.blob import Blob
    from omnigraph_core.view import View

KindArgument = Annotated[
    str, typer.Argument(metavar="node|edge", help="Whether TYPE is a node or an edge type.")
]
TypeArgument = Annotated[str, typer.Argument(metavar="TYPE", help="The type of the entity.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the entity.")]
PropertyArgument = Annotated[str, typer.Argument(metavar="PROPERTY", help="The blob property.")]


def register(app: typer.Typer) -> None:
    group = command_group(app, "blob", help="Read blobs.")

    @command(
        group,
        "get",
        is_text=False,
        takes_graph=False,
        examples=[
            "omnigraph blob get node Photo p1 image --out p1.jpg",
            "omnigraph blob get node Photo p1 image | file -",
            "omnigraph blob get node Photo p1 image --offset 1024 --length 512",
        ],
    )
    def get(
        run: Run,
        kind: KindArgument,
        type_name: TypeArgument,
        entity_id: IdArgument,
        name: PropertyArgument,
        out: Annotated[
            str | None,
            typer.Option("--out", metavar="FILE", help="The file to write; default standard output."),
        ] = None,
        offset: Annotated[int, typer.Option(metavar="N", help="Begin at this byte; default 0.")] = 0,
        length: Annotated[
            int | None, typer.Option(metavar="N", help="Write at most so many bytes; default all.")
        ] = None,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
    ) -> None:
        """Write the content of a blob, or a part of it."""
        if offset < 0 or (length is not None and length < 0):
            raise UsageError("--offset and --length must not be negative")
        view = _view(run, branch, snapshot)
        blob = _find(view, kind, type_name, entity_id, name)
        if out not in (None, "-"):
            from omnigraph_core.export.files import whole_files

            view.refuse_as_output(Path(out))
            with whole_files() as files, files.open(Path(out)) as file:
                file.writelines(blob.pieces(offset, length))
            return
        sys.stdout.flush()
        for piece in blob.pieces(offset, length):
            sys.stdout.buffer.write(piece)

    @command(group, "stat", takes_graph=False, examples=["omnigraph blob stat node Photo p1 image"])
    def stat(
        run: Run,
        kind: KindArgument,
        type_name: TypeArgument,
        entity_id: IdArgument,
        name: PropertyArgument,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
    ) -> None:
        """Show the size of a blob."""
        blob = _find(_view(run, branch, snapshot), kind, type_name, entity_id, name)
        run.output.result(shapes.blob(blob), counted(blob.size, "byte"))


def _find(view: View, kind: str, type_name: str, entity_id: str, name: str) -> Blob:
    if kind not in ("node", "edge"):
        raise UsageError(f"'{kind}' is neither node nor edge")
    return view.blob(kind, type_name, entity_id, name)


def _view(run: Run, branch: str | None, ref: str | None) -> View:
    one_target(branch, ref)
    from omnigraph_core.graph import OpenMode

    return run.open(OpenMode.READ_ONLY).at(ref, branch=run.branch(branch))
