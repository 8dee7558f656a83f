"""`omnigraph init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from omnigraph_cli.addressing import Address, configured_place, is_file, share_with_group
from omnigraph_cli.run import Run, command
from omnigraph_cli.sources import read_source
from omnigraph_core import layout, shapes
from omnigraph_core.errors import RefusedError
from omnigraph_core.settings import Settings


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
        schema: Annotated[str, typer.Option(metavar="FILE|-", help="The schema file; - reads stdin.")],
        force: Annotated[
            bool,
            typer.Option(
                "--force", help="Replace schema files of an init that died, if nothing else is there."
            ),
        ] = False,
    ) -> None:
        """Create a graph from a schema.

        Without GRAPH, the graph is created where OMNIGRAPH_STORE or an omnigraph.toml in this
        directory says, else at ./graph.omni. In the last case init also writes an omnigraph.toml
        here, unless one exists, so that later commands find the graph.
        """
        from omnigraph_core.graph import Graph

        source, source_name = read_source(schema)
        address = run.given or _place_here(run.settings)
        place = address.place if address else layout.DEFAULT_GRAPH
        if address and is_file(address, run.settings):
            raise RefusedError(f"{place} is a file, not a directory", hint="use a new or an empty directory")
        share_with_group(place, run.settings)
        graph = Graph.init(
            place,
            source,
            run.settings,
            source_name=source_name,
            actor=run.actor,
            message=run.message,
            takes_over=force,
        )
        above = None if address else run.settings.config
        config, remark = (None, None) if address else _write_config(run.settings.working_directory)
        content = shapes.initialized(graph.location.uri, graph.snapshot(), str(config) if config else None)
        run.output.result(content, f"initialized {graph.location.uri}")
        if remark:
            run.output.remark(remark)
        if above is not None and above.store and above.path.parent != run.settings.working_directory:
            run.output.remark(f"{above.path}, above this directory, names another graph; it was not used")


def _place_here(settings: Settings) -> Address | None:
    """Where to make the graph; a config file of a directory above is about another one."""
    found = configured_place(settings)
    is_here = settings.config is not None and settings.config.path.parent == settings.working_directory
    return found if settings.store or is_here else None


def _write_config(directory: Path) -> tuple[Path | None, str]:
    """Name the new graph in ./omnigraph.toml, unless one exists; returns it and a remark for the user.

    The graph exists by now, so failing to write the config file is not a failure of `init`.
    """
    path = directory / layout.CONFIG_FILE
    line = f'store = "{layout.DEFAULT_GRAPH}"'
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(line + "\n")
    except FileExistsError:
        return None, f"{path} does not name this graph; to use it from here, add: {line}"
    except OSError as error:
        return None, f"{path} cannot be written: {error.strerror}; to use the graph from here, pass --store"
    return path, f"wrote {path}: commands run here use this graph"
