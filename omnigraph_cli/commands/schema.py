"""`omnigraph schema …`."""

from __future__ import annotations

import typer

from omnigraph_cli.options import SnapshotOption
from omnigraph_cli.run import Run, command, command_group


def register(app: typer.Typer) -> None:
    group = command_group(app, "schema", help="Show a graph's schema.")

    @command(
        group,
        "show",
        examples=["omnigraph schema show", "omnigraph schema show --snapshot main~3 > old.pg"],
    )
    def show(run: Run, ref: SnapshotOption = None) -> None:
        """Print the schema as it was written; with --snapshot, the schema of that commit."""
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_ONLY)
        catalog = graph.catalog_of(ref) if ref else graph.catalog()
        content = {"schema_source": catalog.source, "schema_hash": catalog.schema_hash}
        run.output.result(content, catalog.source)
