"""`omnigraph version`."""

from __future__ import annotations

import typer

from omnigraph_cli.run import Run, command
from omnigraph_core import __version__


def register(app: typer.Typer) -> None:
    @command(
        app,
        "version",
        takes_graph=False,
        needs_settings=False,
        examples=["omnigraph version", "omnigraph version --json"],
    )
    def version(run: Run) -> None:
        """Print the version, and the internal schema this OmniGraph writes."""
        from omnigraph_core.manifest.stamp import INTERNAL_SCHEMA_VERSION

        content = {"omnigraph": __version__, "internal_schema": INTERNAL_SCHEMA_VERSION}
        run.output.result(content, f"omnigraph {__version__}\ninternal-schema {INTERNAL_SCHEMA_VERSION}")
