"""`omnigraph export`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from omnigraph_cli.options import BranchOption, DataFormatOption, SnapshotOption, data_format, one_target
from omnigraph_cli.run import Run, command
from omnigraph_core.errors import UsageError


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
            list[str] | None, typer.Option("--type", metavar="T", help="Export only this type. Repeatable.")
        ] = None,
        format_: DataFormatOption = None,
        out: Annotated[
            str | None,
            typer.Option(
                "--out",
                metavar="FILE|DIR",
                help="The file to write; default standard output. CSV and Parquet of several types "
                "need a directory and get one file per type.",
            ),
        ] = None,
        jsonl: Annotated[bool, typer.Option("--jsonl", help="The same as --format jsonl.")] = False,
    ) -> None:
        """Write every entity as a load record: edges first, each type ordered by id.

        The default format is jsonl. In every format, loading the output into an empty graph
        with the same schema gives the same graph.
        """
        one_target(branch, snapshot)
        if jsonl and format_ not in (None, "jsonl"):
            raise UsageError(f"both --jsonl and --format {format_} were given", hint="use one of them")
        data_format(format_)
        from omnigraph_core.graph import OpenMode
        from omnigraph_core.schema.files import Format

        chosen = Format(format_ or "jsonl")
        graph = run.open(OpenMode.READ_ONLY)
        where = run.branch(branch)
        if out not in (None, "-"):
            graph.at(snapshot, branch=where).export_files(Path(out), chosen, types=types or ())
            return
        # Bytes, not text: the output is UTF-8 whatever the encoding of the terminal.
        sys.stdout.flush()
        for block in graph.export(snapshot, branch=where, types=types or (), format_=chosen):
            sys.stdout.buffer.write(block)
