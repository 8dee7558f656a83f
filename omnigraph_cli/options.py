"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from omnigraph_cli.completing import complete_branch, complete_ref, one_of
from omnigraph_core.errors import UsageError
from omnigraph_core.values.shown import clipped

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
        autocompletion=complete_ref,
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
        autocompletion=one_of(*DATA_FORMATS),
    ),
]


SPARK_FORMAT = "spark:"


def data_format(given: str | None) -> None:
    """Refuse an unknown data format."""
    if given is not None and given not in DATA_FORMATS:
        raise UsageError(f"--format: '{given}' is not one of {', '.join(DATA_FORMATS)}")
