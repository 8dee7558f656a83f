"""`omnigraph spark …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omnigraph_cli.run import Run, command, command_group
from omnigraph_core import shapes


def register(app: typer.Typer) -> None:
    group = command_group(app, "spark", help="Prepare a Spark cluster.")

    @command(
        group,
        "package",
        takes_graph=False,
        needs_settings=False,
        examples=[
            "omnigraph spark package",
            "omnigraph load --data s3://lake/in/ --mode append --spark --master yarn "
            "--py-files omnigraph-spark.zip",
        ],
    )
    def package(
        run: Run,
        out: Annotated[
            str | None,
            typer.Option(
                "--out", metavar="FILE", help="The file to write; default omnigraph-VERSION-spark.zip."
            ),
        ] = None,
    ) -> None:
        """Write the zip that executors need to run a load, for load --py-files.

        The Python of the executors also needs pylance, pyarrow, numpy, obstore and ulid-py.
        """
        from omnigraph_core.spark.package import NEEDED, default_name, write_package

        path = Path(out or default_name())
        modules = write_package(path)
        content = shapes.spark_package(str(path), modules, NEEDED)
        run.output.result(content, f"wrote {path}")
        run.output.remark(f"executors also need {', '.join(NEEDED)}")
