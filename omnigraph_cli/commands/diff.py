"""`omnigraph diff`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.completing import complete_ref, complete_type, one_of
from omnigraph_cli.diff_formats import DiffFormat, WrittenDiff
from omnigraph_cli.exits import ANSWER_IS_NO
from omnigraph_cli.options import named_entity
from omnigraph_cli.output import JsonOutput
from omnigraph_cli.run import Run, command
from omnigraph_core.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from omnigraph_core.diff.records import Op

TypesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--type", metavar="T", help="Compare only this type. Repeatable.", autocompletion=complete_type
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="|".join(DiffFormat),
        help="The output format; default table on a terminal, otherwise JSON lines.",
        autocompletion=one_of(*DiffFormat),
    ),
]


def register(app: typer.Typer) -> None:
    @command(
        app,
        "diff",
        takes_graph=False,
        examples=[
            "omnigraph diff main review",
            "omnigraph diff main~3 main --stat",
            "omnigraph diff main --op delete --format jsonl",
            "omnigraph diff main review --entity Person/Ann",
        ],
    )
    def diff(
        run: Run,
        a: Annotated[
            str, typer.Argument(metavar="A", help="The earlier state.", autocompletion=complete_ref)
        ],
        b: Annotated[
            str | None,
            typer.Argument(
                metavar="[B]",
                help="The later state. Without it, the difference is that of A to its parent.",
                autocompletion=complete_ref,
            ),
        ] = None,
        stat: Annotated[bool, typer.Option("--stat", help="Print only how many entities differ.")] = False,
        types: TypesOption = None,
        ops: Annotated[
            list[str] | None,
            typer.Option("--op", metavar="insert|update|delete", help="Show only such changes. Repeatable."),
        ] = None,
        entity: Annotated[
            str | None, typer.Option("--entity", metavar="TYPE/ID", help="Compare only this entity.")
        ] = None,
        form: FormatOption = None,
        exit_code: Annotated[
            bool, typer.Option("--exit-code", help="Exit with 1 when there is a difference.")
        ] = False,
    ) -> None:
        """Show what differs between two refs of any branches, or between a commit and its parent.

        Each line is an entity that was inserted (+), updated (~) or deleted (-). Properties are
        matched across renames, and only those that both states have are compared.
        """
        chosen = diff_format(form, json_asked=isinstance(run.output, JsonOutput))
        wanted = _ops(ops or [])
        names, ids = types or [], None
        if entity is not None:
            if types:
                raise UsageError("both --entity and --type were given", hint="use one of them")
            type_name, entity_id = named_entity(entity, "--entity")
            names, ids = [type_name], [entity_id]
        from omnigraph_core.graph import OpenMode

        found = run.open(OpenMode.READ_ONLY).diff(a, b, types=names, ids=ids)
        if ids is not None and found.has_none_of(ids):
            raise NotFoundError(f"there is no {entity} in either state")
        written = WrittenDiff(found, wanted, stat=stat)
        for text in written.text(chosen):
            chosen.put(sys.stdout, text)
        if exit_code and written.differs:
            raise typer.Exit(ANSWER_IS_NO)


def diff_format(option: str | None, *, json_asked: bool) -> DiffFormat:
    """The format asked for, or a table on a terminal, or JSON lines."""
    if option is None:
        if json_asked:
            return DiffFormat.JSON
        return DiffFormat.TABLE if sys.stdout.isatty() else DiffFormat.JSONL
    if option not in tuple(DiffFormat):
        raise UsageError(f"--format: '{option}' is not one of {', '.join(DiffFormat)}")
    chosen = DiffFormat(option)
    if json_asked and chosen is not DiffFormat.JSON:
        raise UsageError(f"both --json and --format {chosen} were given", hint="use one of them")
    return chosen


def _ops(given: list[str]) -> tuple[Op, ...]:
    from omnigraph_core.diff.records import Op

    for each in given:
        if each not in tuple(Op):
            raise UsageError(f"--op: '{each}' is not one of {', '.join(Op)}")
    return tuple(op for op in Op if not given or op in given)
