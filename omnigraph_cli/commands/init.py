"""`omnigraph init`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from omnigraph_cli.addressing import configured_place
from omnigraph_cli.run import Run, command
from omnigraph_core import layout
from omnigraph_core.errors import BadDataError, UsageError


def register(app: typer.Typer) -> None:
    @command(
        app,
        "init",
        writes=True,
        examples=[
            "omnigraph init --schema people.pg",
            "omnigraph init --schema people.pg /data/people.omni",
            "cat people.pg | omnigraph init --schema - s3://bucket/people",
        ],
    )
    def init(
        run: Run,
        schema: Annotated[str, typer.Option(metavar="FILE|-", help="The schema; - reads it from stdin.")],
    ) -> None:
        """Create a graph from a schema.

        Without GRAPH it goes to ./graph.omni, and an omnigraph.toml that names it is
        written here, so that later commands find it.
        """
        from omnigraph_core.graph import Graph

        source, source_name = read_source(schema)
        address = run.given or configured_place(run.settings)
        place = address.place if address else layout.DEFAULT_GRAPH
        graph = Graph.init(
            place, source, run.settings, source_name=source_name, actor=run.actor, message=run.message
        )
        config = None if address else _write_config(run)
        snapshot = graph.snapshot()
        head = snapshot.head
        content = {
            "uri": graph.location.uri,
            "commit": head.commit_id if head else None,
            "manifest_version": snapshot.manifest_version,
            "schema_hash": head.schema_hash if head else None,
            "tables": sorted(snapshot.tables),
            "config": str(config) if config else None,
        }
        run.output.result(content, f"initialized {graph.location.uri}")
        if config:
            run.output.remark(f"wrote {config}: commands run here use this graph")


def read_source(option: str) -> tuple[str, str]:
    """The text behind `FILE|-`, and the name that messages use for it."""
    name = "<stdin>" if option == "-" else option
    try:
        data = sys.stdin.buffer.read() if option == "-" else Path(option).read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{option}: no such file") from None
    except OSError as error:
        raise UsageError(f"{option}: cannot be read: {error.strerror}") from error
    try:
        return data.decode("utf-8-sig"), name
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadDataError(
            f"{name}:{line}: not UTF-8 text (byte 0x{data[error.start]:02x})", hint="save the file as UTF-8"
        ) from error


def _write_config(run: Run) -> Path | None:
    """Name the new graph in ./omnigraph.toml, unless there is one already."""
    path = run.settings.working_directory / layout.CONFIG_FILE
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(f'store = "{layout.DEFAULT_GRAPH}"\n')
    except FileExistsError:
        return None
    return path
