"""`omnigraph get`, `head` and `describe`: a first look without a query."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.completing import complete_type
from omnigraph_cli.options import BranchOption, SnapshotOption, one_target
from omnigraph_cli.output import JsonObject, JsonOutput, counted, write_exactly
from omnigraph_cli.run import Run, command
from omnigraph_cli.tables import Absent, Number
from omnigraph_core import shapes
from omnigraph_core.errors import UsageError
from omnigraph_core.values.shown import clipped

if TYPE_CHECKING:
    from omnigraph_core.read.look import Entity, TypeFacts
    from omnigraph_core.view import View

TypeArgument = Annotated[
    str,
    typer.Argument(metavar="TYPE", help="A node or edge type.", autocompletion=complete_type),
]
_HEAD_ROWS = 10
_Shown = tuple[JsonObject, str, Sequence[str], Sequence[Sequence[object]]]


def register(app: typer.Typer) -> None:
    _register_get(app)
    _register_head(app)
    _register_describe(app)


def _register_get(app: typer.Typer) -> None:
    @command(
        app,
        "get",
        takes_graph=False,
        examples=["omnigraph get Person Ann", "omnigraph get Person Ann --snapshot main~3 --json"],
    )
    def get(
        run: Run,
        type_name: TypeArgument,
        entity_id: Annotated[str, typer.Argument(metavar="ID", help="Its id; the key, if it has one.")],
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
    ) -> None:
        """Show one node or edge with all its properties. A blob is shown by its size."""
        found = _view(run, branch, snapshot).entity(type_name, entity_id)
        content = shapes.entity(found)
        if isinstance(run.output, JsonOutput) or sys.stdout.isatty():
            run.output.result(content, *lines_of(found))
        else:
            write_exactly(sys.stdout, json.dumps(content, ensure_ascii=False) + "\n")


def _register_head(app: typer.Typer) -> None:
    @command(app, "head", takes_graph=False, examples=["omnigraph head Person", "omnigraph head Knows -n 3"])
    def head(
        run: Run,
        type_name: TypeArgument,
        number: Annotated[int, typer.Option("-n", "--limit", metavar="N", help="How many.")] = _HEAD_ROWS,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
    ) -> None:
        """Show the first nodes or edges of a type, by id."""
        if number < 0:
            raise UsageError(f"-n: {number} is negative")
        found = _view(run, branch, snapshot).head(type_name, number)
        if isinstance(run.output, JsonOutput) or sys.stdout.isatty():
            columns, rows = table_of(found)
            run.output.rows(shapes.entities(found), counted(len(found), "row"), columns, rows)
        else:
            for each in found:
                write_exactly(sys.stdout, json.dumps(shapes.entity(each), ensure_ascii=False) + "\n")


def _register_describe(app: typer.Typer) -> None:
    @command(
        app,
        "describe",
        takes_graph=False,
        examples=[
            "omnigraph describe",
            "omnigraph describe Person",
            "omnigraph describe Knows --branch dev",
        ],
    )
    def describe(
        run: Run,
        type_name: Annotated[
            str | None,
            typer.Argument(
                metavar="TYPE", help="The type; without it, all types.", autocompletion=complete_type
            ),
        ] = None,
        branch: BranchOption = None,
        snapshot: SnapshotOption = None,
    ) -> None:
        """Show all types and their rows; or the columns of one type, with nulls, bounds and indexes."""
        view = _view(run, branch, snapshot)
        run.output.rows(*(described_types(view) if type_name is None else described_type(view, type_name)))


def described_types(view: View) -> _Shown:
    """All types, as an output takes them."""
    rows = [
        (each.name, each.kind, view.snapshot.entry(each.table_key).row_count, _ends(each))
        for each in sorted(view.schema.types(), key=lambda each: (each.kind != "node", each.name))
    ]
    content = {"types": [{"kind": row[1], "type": row[0], "rows": row[2]} for row in rows]}
    return content, counted(len(rows), "type"), ["type", "kind", "rows", "what"], rows


def described_type(view: View, type_name: str) -> _Shown:
    found = view.describe(type_name)
    columns = ["column", "type", "nulls", "min", "max", "indexes"]
    title = "; ".join(f"{each.type.kind} {each.type.name}, {counted(each.rows, 'row')}" for each in found)
    return shapes.described(found), title, columns, [row for each in found for row in _facts(each)]


def _view(run: Run, branch: str | None, ref: str | None) -> View:
    one_target(branch, ref)
    from omnigraph_core.graph import OpenMode

    return run.open(OpenMode.READ_ONLY).at(ref, branch=run.branch(branch))


def _ends(of: object) -> str:
    source, target = getattr(of, "from_type", None), getattr(of, "to_type", None)
    if source:
        return f"{source} -> {target}"
    key = getattr(of, "key", None)
    return f"key {', '.join(key.columns)}" if key is not None else ""


def _shown(value: object) -> object:
    if value is None:
        return Absent("")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Number(json.dumps(shapes.value(value)))
    plain = shapes.value(value)
    return clipped(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))


def lines_of(of: Entity) -> list[str]:
    facts = {"id": of.id}
    if of.source is not None:
        facts |= {"from": of.source, "to": of.target or ""}
    width = max(map(len, [*facts, *of.values]))
    lines = [
        f"{of.type.kind} {of.type.name}",
        *(f"  {name:<{width}}  {each}" for name, each in facts.items()),
    ]
    for name, each in of.values.items():
        plain = shapes.value(each)
        shown = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
        lines.append(f"  {name:<{width}}  {shown}")
    return lines


def table_of(found: Sequence[Entity]) -> tuple[list[str], list[list[object]]]:
    if not found:
        return ["id"], []
    ends = [] if found[0].source is None else ["from", "to"]
    columns = ["id", *ends, *found[0].values]
    rows: list[list[object]] = []
    for each in found:
        own = [each.source, each.target] if ends else []
        rows.append([each.id, *own, *map(_shown, each.values.values())])
    return columns, rows


def _facts(of: TypeFacts) -> list[tuple[object, ...]]:
    return [
        (each.name, each.type, each.nulls, _shown(each.least), _shown(each.greatest), ", ".join(each.indexes))
        for each in of.columns
    ]
