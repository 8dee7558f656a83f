"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph_cli.addressing import find_graph
from omnigraph_core.errors import UsageError


def complete_branch(incomplete: str) -> list[str]:
    """Branch names for the shell: reads a few small files, and gives up silently."""
    try:
        from omnigraph_core import layout
        from omnigraph_core.manifest.reader import manifest_ref
        from omnigraph_core.settings import load_settings
        from omnigraph_core.storage import open_storage, parse_location
        from omnigraph_core.tables.branches import list_forks
        from omnigraph_core.tables.dataset import Tables

        settings = load_settings()
        place = find_graph(None, settings).place
        storage = open_storage(parse_location(place, settings.working_directory), settings)
        forks = list_forks(Tables(storage), manifest_ref(layout.MAIN_BRANCH))
    except Exception:
        return []
    return [name for name in (layout.MAIN_BRANCH, *sorted(forks)) if name.startswith(incomplete)]


BranchOption = Annotated[
    str | None,
    typer.Option("--branch", metavar="B", help="The branch (main).", autocompletion=complete_branch),
]

SnapshotOption = Annotated[
    str | None,
    typer.Option(
        "--snapshot",
        metavar="REF",
        help="A commit: branch, commit id, REF~N or REF@{TIME}.",
        autocompletion=complete_branch,
    ),
]


def one_target(branch: str | None, ref: str | None) -> None:
    """A read is about a branch or about a commit, never both."""
    if branch is not None and ref is not None:
        raise UsageError("both --branch and --snapshot were given", hint="a ref may be a branch name")


DATA_FORMATS = ("jsonl", "csv", "parquet")

DataFormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="|".join(DATA_FORMATS),
        help="How records are written.",
        autocompletion=lambda: list(DATA_FORMATS),
    ),
]


SPARK_FORMAT = "spark:"


def data_format(given: str | None) -> None:
    """Refuse a format of data that there is not."""
    if given is not None and given not in DATA_FORMATS:
        raise UsageError(f"--format: '{given}' is none of {', '.join(DATA_FORMATS)}")
