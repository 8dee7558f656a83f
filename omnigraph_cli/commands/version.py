"""`omnigraph version`."""

from __future__ import annotations

import typer

from omnigraph_cli.run import Run, command
from omnigraph_core import __version__, shapes


def register(app: typer.Typer) -> None:
    @command(
        app,
        "version",
        takes_graph=False,
        needs_settings=False,
        examples=["omnigraph version", "omnigraph version --json"],
    )
    def version(run: Run) -> None:
        """Print the version of OmniGraph and of the internal schema it writes."""
        from omnigraph_core.manifest.stamp import INTERNAL_SCHEMA_VERSION

        content = shapes.version(__version__, INTERNAL_SCHEMA_VERSION)
        run.output.result(content, f"omnigraph {__version__}", f"internal-schema {INTERNAL_SCHEMA_VERSION}")
