"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph_cli.addressing import find_graph
from omnigraph_core.errors import UsageError
from omnigraph_core.values.shown import clipped


def complete_branch(incomplete: str) -> list[str]:
    """Branch names for the shell: reads a few small files, and gives up silently on any error."""
    try:
        from omnigraph_core import layout
        from omnigraph_core.history.names import read_names
        from omnigraph_core.manifest.branch import Branch
        from omnigraph_core.manifest.reader import manifest_ref
        from omnigraph_core.settings import load_settings
        from omnigraph_core.storage import open_storage, parse_location
        from omnigraph_core.tables.dataset import Tables
        from omnigraph_core.tables.fork_refs import list_forks

        settings = load_settings()
        place = find_graph(None, settings).place
        storage = open_storage(parse_location(place, settings.working_directory), settings)
        forks = list_forks(Tables(storage), manifest_ref(layout.MAIN_BRANCH))
        names = read_names(storage.control)
        called = {names.of(Branch(each.name, each.identity)) for each in forks.values()}
    except Exception:
        return []
    shown = sorted(called - {layout.SCHEMA_LOCK_BRANCH})
    return [name for name in (layout.MAIN_BRANCH, *shown) if name.startswith(incomplete)]


BranchOption = Annotated[
    str | None,
    typer.Option("--branch", metavar="B", help="The branch; default main.", autocompletion=complete_branch),
]

SnapshotOption = Annotated[
    str | None,
    typer.Option(
        "--snapshot",
        metavar="REF",
        help="The state to read: a branch, tag:NAME, commit id, REF~N or REF@{TIME}.",
        autocompletion=complete_branch,
    ),
]


def one_target(branch: str | None, ref: str | None) -> None:
    """A read takes a branch or a commit, never both."""
    if branch is not None and ref is not None:
        raise UsageError(
            "both --branch and --snapshot were given", hint="use --snapshot alone; a REF may be a branch"
        )


def named_entity(text: str, argument: str) -> tuple[str, str]:
    """The type and the id of TYPE/ID; the id may have slashes of its own."""
    type_name, slash, entity_id = text.partition("/")
    if not slash or not type_name or not entity_id:
        raise UsageError(f"{argument}: '{clipped(text)}' is not TYPE/ID", hint="for example Person/Ann")
    return type_name, entity_id


DATA_FORMATS = ("jsonl", "csv", "parquet")

DataFormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="|".join(DATA_FORMATS),
        help="The format of the records.",
        autocompletion=lambda: list(DATA_FORMATS),
    ),
]


SPARK_FORMAT = "spark:"


def data_format(given: str | None) -> None:
    """Refuse an unknown data format."""
    if given is not None and given not in DATA_FORMATS:
        raise UsageError(f"--format: '{given}' is not one of {', '.join(DATA_FORMATS)}")
