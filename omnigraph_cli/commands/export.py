"""`omnigraph export`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.completing import complete_type
from omnigraph_cli.options import BranchOption, DataFormatOption, SnapshotOption, data_format, one_target
from omnigraph_cli.output import counted
from omnigraph_cli.progress import progress_of
from omnigraph_cli.run import Run, command
from omnigraph_cli.spark_options import (
    DeployModeOption,
    MasterOption,
    PackagesOption,
    PyFilesOption,
    SparkConfOption,
    SparkGiven,
    SparkHomeOption,
)
from omnigraph_core.errors import UsageError
from omnigraph_core.outputs import STANDARD

if TYPE_CHECKING:
    from omnigraph_core.graph import Graph
    from omnigraph_core.schema.files import Format
    from omnigraph_core.spark.options import SparkOptions
    from omnigraph_core.view import View

TypesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--type", metavar="T", help="Export only this type. Repeatable.", autocompletion=complete_type
    ),
]
OutOption = Annotated[
    str | None,
    typer.Option(
        "--out",
        metavar="FILE|DIR",
        help="The file to write; default standard output. CSV and Parquet of several types "
        "need a directory and get one file per type.",
    ),
]


def register(app: typer.Typer) -> None:
    @command(
        app,
        "export",
        is_text=False,
        examples=[
            "omnigraph export > backup.jsonl",
            "omnigraph export --type Person --type Knows --out people.jsonl",
            "omnigraph export --format parquet --out backup/",
            "omnigraph export --snapshot main~3",
            "omnigraph export --format parquet --out s3://lake/graph/ --spark --master yarn",
        ],
    )
    def export(
        run: Run,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
        types: TypesOption = None,
        format_: DataFormatOption = None,
        out: OutOption = None,
        jsonl: Annotated[bool, typer.Option("--jsonl", help="The same as --format jsonl.")] = False,
        spark: Annotated[
            bool,
            typer.Option("--spark", help="Export with a Spark job, to a directory or an s3:// prefix."),
        ] = False,
        master: MasterOption = None,
        deploy_mode: DeployModeOption = None,
        spark_conf: SparkConfOption = None,
        py_files: PyFilesOption = None,
        packages: PackagesOption = None,
        spark_home: SparkHomeOption = None,
    ) -> None:
        """Write every entity as a load record: edges first, each type ordered by id.

        The default format is jsonl. In every format, loading the output into an empty graph
        with the same schema gives the same graph.

        With --spark, executors write a folder of files per type, in no order, with a manifest;
        the file _SUCCESS says that all of them are there.
        """
        one_target(branch, snapshot)
        if jsonl and format_ not in (None, "jsonl"):
            raise UsageError(f"both --jsonl and --format {format_} were given", hint="use one of them")
        data_format(format_)
        given = SparkGiven(
            master,
            deploy_mode,
            tuple(spark_conf or ()),
            tuple(py_files or ()),
            tuple(packages or ()),
            spark_home,
        )
        options = given.options(wanted=spark)
        from omnigraph_core.graph import OpenMode
        from omnigraph_core.schema.files import Format

        chosen = Format(format_ or "jsonl")
        graph = run.open(OpenMode.READ_ONLY)
        where = run.branch(branch)
        if options is not None:
            _export_with_spark(
                run, graph, graph.at(snapshot, branch=where), out, chosen, options, types or ()
            )
            return
        if out not in (None, STANDARD):
            graph.at(snapshot, branch=where).export_files(Path(out), chosen, types=types or ())
            return
        # Bytes, not text: the output is UTF-8 whatever the encoding of the terminal.
        sys.stdout.flush()
        for block in graph.export(snapshot, branch=where, types=types or (), format=chosen):
            sys.stdout.buffer.write(block)


def _export_with_spark(
    run: Run,
    graph: Graph,
    view: View,
    out: str | None,
    format_: Format,
    options: SparkOptions,
    types: Sequence[str],
) -> None:
    from omnigraph_core.spark.export import export_with_spark

    if out is None or out == STANDARD:
        raise UsageError("--spark writes files", hint="name a directory or an s3:// prefix with --out")
    with progress_of(run) as progress:
        done = export_with_spark(graph, view, out, format_, options, types=types, progress=progress)
    total = counted(sum(done.counts.values()), "entity", "entities")
    run.output.remark(f"exported {total} to {out}: {counted(done.files, 'file')}, {done.bytes} bytes")
