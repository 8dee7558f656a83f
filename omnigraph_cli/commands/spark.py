"""`omnigraph spark …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omnigraph_cli.run import Run, command, command_group


def register(app: typer.Typer) -> None:
    group = command_group(app, "spark", help="What a Spark cluster needs.")

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
            str | None, typer.Option("--out", metavar="FILE", help="Where to (omnigraph-VERSION-spark.zip).")
        ] = None,
    ) -> None:
        """Write the zip with which executors run a load, for --py-files.

        Executors also need pylance, pyarrow, numpy, obstore and ulid-py in their Python.
        """
        from omnigraph_core.spark.package import NEEDED, default_name, write_package

        path = Path(out or default_name())
        modules = write_package(path)
        content = {"file": str(path), "modules": modules, "needs": list(NEEDED)}
        run.output.result(content, f"wrote {path}")
        run.output.remark(f"beside it, executors need {', '.join(NEEDED)}")
