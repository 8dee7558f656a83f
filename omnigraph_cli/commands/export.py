"""`omnigraph export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from omnigraph_cli.options import BranchOption, DataFormatOption, SnapshotOption, data_format, one_target
from omnigraph_cli.run import Run, command


def register(app: typer.Typer) -> None:
    @command(
        app,
        "export",
        examples=[
            "omnigraph export > backup.jsonl",
            "omnigraph export --type Person --type Knows --out people.jsonl",
            "omnigraph export --format parquet --out backup/",
            "omnigraph export --snapshot main~3",
        ],
    )
    def export(
        run: Run,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
        types: Annotated[
            list[str] | None, typer.Option("--type", metavar="T", help="Only this type. Repeatable.")
        ] = None,
        format_: DataFormatOption = None,
        out: Annotated[
            str | None,
            typer.Option(
                "--out",
                metavar="FILE|DIR",
                help="Where to; standard output otherwise. CSV and Parquet of several types "
                "go to a directory, one file a type.",
            ),
        ] = None,
    ) -> None:
        """Write every entity as a load record: edges first, each type in the order of ids.

        Loading the output into an empty graph of the same schema gives the same graph,
        whatever the format: jsonl if not said otherwise.
        """
        one_target(branch, snapshot)
        data_format(format_)
        from omnigraph_core.graph import OpenMode
        from omnigraph_core.schema.files import Format

        chosen = Format(format_ or "jsonl")
        graph = run.open(OpenMode.READ_ONLY)
        where = run.branch(branch)
        if out is not None:
            graph.export_files(Path(out), chosen, snapshot, branch=where, types=types or ())
            return
        # Bytes, not text: the output is UTF-8 whatever the terminal takes.
        sys.stdout.flush()
        for block in graph.export(snapshot, branch=where, types=types or (), format_=chosen):
            sys.stdout.buffer.write(block)
