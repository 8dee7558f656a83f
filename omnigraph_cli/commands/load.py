"""`omnigraph load`."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.exits import BY_KIND
from omnigraph_cli.options import SPARK_FORMAT, BranchOption, DataFormatOption, complete_branch, data_format
from omnigraph_cli.output import counted
from omnigraph_cli.progress import progress_bar
from omnigraph_cli.run import Run, command, echo_target
from omnigraph_core.errors import ErrorKind, UsageError
from omnigraph_core.records import dataclass

if TYPE_CHECKING:
    from omnigraph_core.load.run import Loaded
    from omnigraph_core.spark.options import SparkOptions

# From here on a load takes long enough that starting Spark is not noticed.
_VERY_LARGE_BYTES = 20 * 2**30

_MODES = ("overwrite", "append", "merge")


def register(app: typer.Typer) -> None:
    @command(
        app,
        "load",
        writes=True,
        examples=[
            "omnigraph load --data people.jsonl --mode append",
            "omnigraph load --data nodes.jsonl --data edges.jsonl --mode merge --branch nightly --from main",
            "omnigraph load --data exported/ --mode overwrite",
            "omnigraph load --data people-2024.csv.gz --type Person --mode merge",
            "omnigraph load --data s3://lake/people/ --mode append --spark --master yarn",
            "psql -c 'copy people to stdout csv header' | "
            "omnigraph load --data - --format csv --type Person --mode overwrite",
        ],
    )
    def load(
        run: Run,
        data: Annotated[
            list[str],
            typer.Option(
                "--data",
                metavar="PATH|-",
                help="A file of records (.jsonl, .csv, .parquet; text also .gz or .zst), "
                "or a directory of such; - reads stdin. Repeatable.",
            ),
        ],
        mode: Annotated[
            str,
            typer.Option(
                "--mode",
                metavar="|".join(_MODES),
                help="overwrite: each type in the input gets exactly its rows. append: all are new. "
                "merge: new ones are added, others replaced.",
                autocompletion=lambda: list(_MODES),
            ),
        ],
        branch: BranchOption = None,
        source: Annotated[
            str | None,
            typer.Option(
                "--from",
                metavar="REF",
                help="If the branch does not exist, make it from here; not if the load fails.",
                autocompletion=complete_branch,
            ),
        ] = None,
        format_: DataFormatOption = None,
        type_name: Annotated[
            str | None,
            typer.Option(
                "--type",
                metavar="T",
                help="Whose rows a CSV or Parquet file has, if it is not named after its type.",
            ),
        ] = None,
        rejects: Annotated[
            str | None,
            typer.Option(
                "--rejects",
                metavar="FILE",
                help="Write bad records there, with the reason, and load the others (exit code 7).",
            ),
        ] = None,
        max_rejects: Annotated[
            int | None,
            typer.Option("--max-rejects", metavar="N", help="Give up beyond N bad records (exit code 9)."),
        ] = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Read and check everything, but write nothing.")
        ] = False,
        spark: Annotated[
            bool,
            typer.Option("--spark", help="Have a Spark job read, check and write; for very large inputs."),
        ] = False,
        master: Annotated[
            str | None, typer.Option("--master", metavar="URL", help="Spark's master (local[*]).")
        ] = None,
        deploy_mode: Annotated[
            str | None,
            typer.Option(
                "--deploy-mode",
                metavar="client|cluster",
                help="Where the driver runs; cluster needs graph and input on s3://.",
                autocompletion=lambda: ["client", "cluster"],
            ),
        ] = None,
        spark_conf: Annotated[
            list[str] | None,
            typer.Option("--spark-conf", metavar="K=V", help="A setting of Spark. Repeatable."),
        ] = None,
        py_files: Annotated[
            list[str] | None,
            typer.Option(
                "--py-files",
                metavar="FILES",
                help="Python for the executors; `omnigraph spark package` makes it.",
            ),
        ] = None,
        packages: Annotated[
            list[str] | None,
            typer.Option("--packages", metavar="COORDINATES", help="Maven packages for Spark."),
        ] = None,
        spark_home: Annotated[
            str | None,
            typer.Option("--spark-home", metavar="DIR", help="Which Spark (SPARK_HOME, else pyspark's own)."),
        ] = None,
    ) -> None:
        """Load records from files, all of them in one commit or none.

        In JSON lines a node is {"type": "Person", "data": {…}}, an edge {"edge": "Knows",
        "from": ID, "to": ID, "data": {…}}; they may come in any order. A CSV or Parquet file
        has the rows of one type, a column for each property, optionally id, and for edges
        from and to. In CSV an empty field is null and "" the empty text.
        """
        if mode not in _MODES:
            raise UsageError(f"--mode: '{mode}' is none of {', '.join(_MODES)}")
        reader = None
        if spark and format_ is not None and format_.startswith(SPARK_FORMAT):
            reader, format_ = format_.removeprefix(SPARK_FORMAT), None
        data_format(format_)
        if data.count("-") > 1:
            raise UsageError("--data - was given twice", hint="standard input can be read once")
        if max_rejects is not None and (rejects is None or max_rejects < 0):
            raise UsageError("--max-rejects: needs --rejects FILE, and a number that is not negative")
        if "-" in data and sys.stdin is None:
            raise UsageError("standard input is closed")
        given = _SparkGiven(
            master,
            deploy_mode,
            tuple(spark_conf or ()),
            tuple(py_files or ()),
            tuple(packages or ()),
            spark_home,
            reader,
        )
        options = given.options(wanted=spark)
        from omnigraph_core.graph import OpenMode
        from omnigraph_core.load.assemble import LoadMode
        from omnigraph_core.schema.files import Format

        if options is None and (size := _size_of(data)) >= _VERY_LARGE_BYTES:
            run.output.remark(f"hint: the input has {size / 2**30:.0f} GiB; --spark loads it on many cores")
        started = time.monotonic()
        graph = run.open(OpenMode.READ_WRITE)
        target = run.branch(branch)
        echo_target(run, "load", graph.location)
        with progress_bar(wanted=run.shows_progress) as progress:
            loaded = graph.load(
                data,
                LoadMode(mode),
                branch=target,
                source=source,
                format_=None if format_ is None else Format(format_),
                type_name=type_name,
                actor=run.actor,
                message=run.message,
                rejects=rejects,
                max_rejects=max_rejects,
                dry_run=dry_run,
                spark=options,
                progress=progress,
            )
        content = {
            "uri": graph.location.uri,
            "branch": target,
            **_content(loaded, source),
            "dry_run": dry_run,
        }
        run.output.result(content, _summary(loaded, target, dry_run=dry_run))
        for remark in _remarks(loaded, time.monotonic() - started, dry_run=dry_run):
            run.output.remark(remark)
        if loaded.rejected:
            run.output.remark(f"{counted(loaded.rejected, 'record')} rejected, see {rejects}")
            raise typer.Exit(BY_KIND[ErrorKind.BAD_DATA])


def _size_of(paths: list[str]) -> int:
    """Bytes of the inputs, as far as they are files here; whether they can be read is seen later."""
    total = 0
    for each in paths:
        with suppress(OSError, ValueError):
            path = Path(each)
            files = path.iterdir() if path.is_dir() else [path]
            total += sum(file.stat().st_size for file in files)
    return total


@dataclass(frozen=True, slots=True)
class _SparkGiven:
    """The options that are about Spark, as they were given."""

    master: str | None
    deploy_mode: str | None
    conf: tuple[str, ...]
    py_files: tuple[str, ...]
    packages: tuple[str, ...]
    spark_home: str | None
    reader: str | None

    def options(self, *, wanted: bool) -> SparkOptions | None:
        if not wanted:
            if self != _SparkGiven(None, None, (), (), (), None, None):
                raise UsageError("options of Spark were given without --spark")
            return None
        from omnigraph_core.spark.options import LOCAL_MASTER, SparkOptions

        return SparkOptions(
            self.master or LOCAL_MASTER,
            self.deploy_mode,
            self.conf,
            self.py_files,
            self.packages,
            self.spark_home,
            self.reader,
        )


def _content(loaded: Loaded, source: str | None) -> dict[str, object]:
    nodes = [(key[5:], count) for key, count in loaded.counts.items() if key.startswith("node:")]
    edges = [(key[5:], count) for key, count in loaded.counts.items() if key.startswith("edge:")]
    return {
        "mode": loaded.mode.value,
        "base_branch": source,
        "branch_created": loaded.branch_created,
        "nodes": [{"name": name, "entities_loaded": count} for name, count in nodes],
        "edges": [{"name": name, "entities_loaded": count} for name, count in edges],
        "nodes_loaded": sum(count for _, count in nodes),
        "edges_loaded": sum(count for _, count in edges),
        "node_types_loaded": len(nodes),
        "edge_types_loaded": len(edges),
        "total_entities": loaded.total,
        "unmatchable": loaded.unmatchable,
        "rejected": loaded.rejected,
        "commit": loaded.commit_id,
        "warnings": list(loaded.warnings),
    }


def _summary(loaded: Loaded, branch: str, *, dry_run: bool) -> str:
    verb = "would load" if dry_run else "loaded"
    lines = [f"{verb} {branch} ({loaded.mode}): {counted(loaded.total, 'entity', 'entities')}"]
    lines += [f"  {key:<32}{count:>12}" for key, count in loaded.counts.items()]
    return "\n".join(lines)


def _remarks(loaded: Loaded, seconds: float, *, dry_run: bool) -> list[str]:
    remarks = [f"warning: {warning}" for warning in loaded.warnings]
    if loaded.unmatchable:
        remarks.append(
            f"warning: nothing identifies {counted(loaded.unmatchable, 'record')}: no id, no key, no @unique "
            "group given in full; taken as new, and merging the same input again adds them again"
        )
    if loaded.branch_created:
        remarks.append("the branch was created")
    if loaded.commit_id is not None:
        remarks.append(f"commit {loaded.commit_id}, {seconds:.1f} s")
    elif not dry_run:
        remarks.append("the input has no records, so there is no commit")
    return remarks
