"""`omnigraph load`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.completing import complete_ref, complete_type, one_of
from omnigraph_cli.exits import BY_KIND
from omnigraph_cli.limits import SPARK_HINT_BYTES
from omnigraph_cli.options import SPARK_FORMAT, BranchOption, DataFormatOption, data_format
from omnigraph_cli.output import JsonOutput, aligned, counted
from omnigraph_cli.progress import progress_of
from omnigraph_cli.run import Run, command, echo_target
from omnigraph_cli.sources import await_stdin
from omnigraph_cli.spark_options import (
    DeployModeOption,
    MasterOption,
    PackagesOption,
    PyFilesOption,
    SparkConfOption,
    SparkGiven,
    SparkHomeOption,
)
from omnigraph_core import shapes
from omnigraph_core.errors import ErrorKind, UsageError
from omnigraph_core.outputs import STANDARD
from omnigraph_core.records import dataclass

if TYPE_CHECKING:
    from omnigraph_core.load.run import Loaded
    from omnigraph_core.spark.options import SparkOptions

_MODES = ("overwrite", "append", "merge")


DataOption = Annotated[
    list[str],
    typer.Option(
        "--data",
        metavar="PATH|-",
        help="A file of records (.jsonl, .csv, .parquet; text may be .gz or .zst), "
        "or a directory of such files; - reads stdin. Repeatable.",
    ),
]
ModeOption = Annotated[
    str,
    typer.Option(
        "--mode",
        metavar="|".join(_MODES),
        help="append: every entity must be new. merge: add new entities, replace existing ones. "
        "overwrite: replace all rows of each type in the input.",
        autocompletion=one_of(*_MODES),
    ),
]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="REF",
        help="If the branch does not exist, create it from REF, provided the load succeeds.",
        autocompletion=complete_ref,
    ),
]
TypeOption = Annotated[
    str | None,
    typer.Option(
        "--type",
        metavar="T",
        help="The type of the rows, for a CSV or Parquet file that is not named after it.",
        autocompletion=complete_type,
    ),
]
RejectsOption = Annotated[
    str | None,
    typer.Option(
        "--rejects",
        metavar="FILE",
        help="Write bad records to FILE, with reasons, and load the rest; exit code 7. - is standard output.",
    ),
]
MaxRejectsOption = Annotated[
    int | None,
    typer.Option("--max-rejects", metavar="N", help="Fail if more than N records are bad; exit code 9."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Read and check everything, but write nothing.")
]
YesOption = Annotated[bool, typer.Option("--yes", hidden=True, help="Accepted; a load asks nothing.")]
SparkOption = Annotated[
    bool,
    typer.Option("--spark", help="Load with a Spark job; for very large inputs."),
]


def register(app: typer.Typer) -> None:
    @command(
        app,
        "load",
        writes=True,
        has_progress=True,
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
        data: DataOption,
        mode: ModeOption,
        branch: BranchOption = None,
        source: SourceOption = None,
        format_: DataFormatOption = None,
        type_name: TypeOption = None,
        rejects: RejectsOption = None,
        max_rejects: MaxRejectsOption = None,
        dry_run: DryRunOption = False,
        yes: YesOption = False,
        spark: SparkOption = False,
        master: MasterOption = None,
        deploy_mode: DeployModeOption = None,
        spark_conf: SparkConfOption = None,
        py_files: PyFilesOption = None,
        packages: PackagesOption = None,
        spark_home: SparkHomeOption = None,
    ) -> None:
        """Load records from files as one commit: all of them, or none.

        In JSON lines a node is {"type": "Person", "data": {…}} and an edge {"edge": "Knows",
        "from": ID, "to": ID, "data": {…}}, in any order. A CSV or Parquet file holds one type,
        with one column per property, an optional id, and from and to for edges. In CSV an
        empty field is null, and "" is the empty string.
        """
        given = _Given(data, mode, format_, rejects, max_rejects, spark=spark)
        if rejects == STANDARD and isinstance(run.output, JsonOutput):
            raise UsageError("--rejects - and --json would both write to standard output")
        options = SparkGiven(
            master,
            deploy_mode,
            tuple(spark_conf or ()),
            tuple(py_files or ()),
            tuple(packages or ()),
            spark_home,
            given.reader,
        ).options(wanted=spark)
        if options is None:
            _hint_at_spark(run, data)
        _load(run, given, options, branch, source, type_name, dry_run=dry_run)


@dataclass(frozen=True, slots=True)
class _Given:
    """What to load and how, as given; raises UsageError for what can never work."""

    data: list[str]
    mode: str
    format: str | None
    rejects: str | None
    max_rejects: int | None
    spark: bool

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise UsageError(f"--mode: '{self.mode}' is not one of {', '.join(_MODES)}")
        data_format(self.own_format)
        if self.data.count("-") > 1:
            raise UsageError("--data - was given twice", hint="standard input can be read only once")
        if self.max_rejects is not None and (self.rejects is None or self.max_rejects < 0):
            raise UsageError("--max-rejects requires --rejects FILE and a number that is not negative")
        if "-" in self.data:
            await_stdin("records")

    @property
    def reader(self) -> str | None:
        """The format that Spark itself reads."""
        if self.spark and self.format is not None and self.format.startswith(SPARK_FORMAT):
            return self.format.removeprefix(SPARK_FORMAT)
        return None

    @property
    def own_format(self) -> str | None:
        """The format that we read."""
        return self.format if self.reader is None else None


def _load(
    run: Run,
    given: _Given,
    options: SparkOptions | None,
    branch: str | None,
    source: str | None,
    type_name: str | None,
    *,
    dry_run: bool,
) -> None:
    from omnigraph_core.graph import OpenMode
    from omnigraph_core.load.modes import LoadMode
    from omnigraph_core.schema.files import Format

    started = time.monotonic()
    graph = run.open(OpenMode.READ_WRITE)
    target = run.branch(branch)
    echo_target(run, "load", graph.location)
    with _rejects_place(given.rejects) as rejects, progress_of(run) as progress:
        loaded = graph.load(
            given.data,
            LoadMode(given.mode),
            branch=target,
            source=source,
            format=None if given.own_format is None else Format(given.own_format),
            type=type_name,
            actor=run.actor,
            message=run.message,
            rejects=rejects,
            max_rejects=given.max_rejects,
            dry_run=dry_run,
            spark=options,
            progress=progress,
        )
    content = shapes.loaded(loaded, graph.location.uri, target, source, dry_run=dry_run)
    summary = [*_summary(loaded, target, dry_run=dry_run), *_commit_of(loaded)]
    if given.rejects == STANDARD:
        for line in summary:
            run.output.remark(line)
    else:
        run.output.result(content, *summary)
    for remark in _remarks(loaded, time.monotonic() - started, dry_run=dry_run):
        run.output.remark(remark)
    if loaded.rejected:
        where = "standard output" if given.rejects == STANDARD else given.rejects
        run.output.remark(f"{counted(loaded.rejected, 'record')} rejected, see {where}")
        raise typer.Exit(BY_KIND[ErrorKind.BAD_DATA])


@contextmanager
def _rejects_place(given: str | None) -> Iterator[str | None]:
    """The file of rejects; for standard output one that is copied there when the load is done."""
    if given != STANDARD:
        yield given
        return
    import shutil
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="omnigraph-rejects-") as folder:
        place = Path(folder) / "rejects"
        yield str(place)
        if place.exists():
            sys.stdout.flush()
            with place.open("rb") as file:
                shutil.copyfileobj(file, sys.stdout.buffer)


def _hint_at_spark(run: Run, data: list[str]) -> None:
    if (size := _size_of(data)) >= SPARK_HINT_BYTES:
        run.output.remark(
            f"hint: the input has {size / 2**30:.0f} GiB; --spark can spread the load over many cores"
        )


def _size_of(paths: list[str]) -> int:
    """Total size of the inputs that are local files; unreadable ones are reported later."""
    total = 0
    for each in paths:
        with suppress(OSError, ValueError):
            path = Path(each)
            files = path.iterdir() if path.is_dir() else [path]
            total += sum(file.stat().st_size for file in files)
    return total


def _summary(loaded: Loaded, branch: str, *, dry_run: bool) -> list[str]:
    verb = "would load" if dry_run else "loaded"
    lines = [f"{verb} {branch} ({loaded.mode}): {counted(loaded.total, 'entity', 'entities')}"]
    return [*lines, *aligned(loaded.counts)]


def _commit_of(loaded: Loaded) -> list[str]:
    return [] if loaded.commit_id is None else [f"commit {loaded.commit_id}"]


def _remarks(loaded: Loaded, seconds: float, *, dry_run: bool) -> list[str]:
    remarks = [f"warning: {warning}" for warning in loaded.warnings]
    if loaded.unmatchable:
        remarks.append(
            f"warning: {counted(loaded.unmatchable, 'record')} had no id, no key and no complete @unique "
            "group: added as new, and merging the same input again adds them again"
        )
    if loaded.branch_created:
        remarks.append("the branch was created")
    if loaded.commit_id is not None:
        remarks.append(f"took {seconds:.1f} s")
    elif not dry_run:
        why = "every record was rejected" if loaded.rejected else "the input has no records"
        remarks.append(f"{why}; no commit was made")
    return remarks
