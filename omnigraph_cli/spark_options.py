"""The options of every command that can run as a Spark job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.completing import one_of
from omnigraph_core.errors import UsageError
from omnigraph_core.records import dataclass

if TYPE_CHECKING:
    from omnigraph_core.spark.options import SparkOptions

MasterOption = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="The Spark master; default local[*].")
]
DeployModeOption = Annotated[
    str | None,
    typer.Option(
        "--deploy-mode",
        metavar="client|cluster",
        help="Where the driver runs; cluster requires graph and input on s3://.",
        autocompletion=one_of("client", "cluster"),
    ),
]
SparkConfOption = Annotated[
    list[str] | None,
    typer.Option("--spark-conf", metavar="K=V", help="A Spark setting. Repeatable."),
]
PyFilesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--py-files",
        metavar="FILES",
        help="Python code for the executors; see `omnigraph spark package`.",
    ),
]
PackagesOption = Annotated[
    list[str] | None,
    typer.Option("--packages", metavar="COORDINATES", help="Maven packages for Spark."),
]
SparkHomeOption = Annotated[
    str | None,
    typer.Option(
        "--spark-home",
        metavar="DIR",
        help="The Spark installation; default SPARK_HOME, else the one in pyspark.",
    ),
]


@dataclass(frozen=True, slots=True)
class SparkGiven:
    """The Spark options, as given."""

    master: str | None
    deploy_mode: str | None
    conf: tuple[str, ...]
    py_files: tuple[str, ...]
    packages: tuple[str, ...]
    spark_home: str | None
    reader: str | None = None

    def options(self, *, wanted: bool) -> SparkOptions | None:
        if not wanted:
            if self != SparkGiven(None, None, (), (), (), None):
                raise UsageError("Spark options require --spark")
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
