"""`omnigraph schema …`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.completing import complete_ref
from omnigraph_cli.consent import consents, is_terminal
from omnigraph_cli.exits import ANSWER_IS_NO
from omnigraph_cli.options import BranchOption, SnapshotOption, one_target
from omnigraph_cli.output import JsonOutput, harmless
from omnigraph_cli.run import Run, command, command_group, echo_target
from omnigraph_cli.schema_sides import Sides
from omnigraph_cli.sources import read_source
from omnigraph_core import layout, shapes
from omnigraph_core.errors import UsageError
from omnigraph_core.values.shown import one_line

if TYPE_CHECKING:
    from omnigraph_core.migrate.apply import Applied
    from omnigraph_core.schema import Schema
    from omnigraph_core.schema.evolve import MigrationPlan

_SHOWN = ("pg", "json", "mermaid", "dot", "svg")
_PLANNED = ("text", "md")

WantedOption = Annotated[
    str | None, typer.Option("--schema", metavar="FILE|-", help="The wanted schema; - reads stdin.")
]

DataLossOption = Annotated[
    bool,
    typer.Option(
        "--allow-data-loss", help="Leave what is dropped in no file but those that older commits need."
    ),
]

PlanFormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="|".join(_PLANNED),
        help="One line per step, or a Markdown table for a review; default text.",
        autocompletion=lambda: list(_PLANNED),
    ),
]


def register(app: typer.Typer) -> None:
    group = command_group(app, "schema", help="Show, compare and plan schemas.")
    _register_show(group)
    _register_plan(group)
    _register_apply(group)
    _register_diff(group)


def _register_show(group: typer.Typer) -> None:
    @command(
        group,
        "show",
        aliases=["get"],
        examples=[
            "omnigraph schema show",
            "omnigraph schema show --snapshot main~3 > old.pg",
            "omnigraph schema show --branch dev --format mermaid",
            "omnigraph schema show --format svg > schema.svg",
        ],
    )
    def show(
        run: Run,
        branch: BranchOption = None,
        ref: SnapshotOption = None,
        form: Annotated[
            str | None,
            typer.Option(
                "--format",
                metavar="|".join(_SHOWN),
                help="The source text, its compiled form, or a diagram; default pg.",
                autocompletion=lambda: list(_SHOWN),
            ),
        ] = None,
    ) -> None:
        """Print the schema of a branch or, with --snapshot, of a commit."""
        one_target(branch, ref)
        chosen = _format(run, form, _SHOWN)
        from omnigraph_core.graph import OpenMode

        graph = run.open(OpenMode.READ_ONLY)
        catalog = graph.catalog_of(ref, branch=run.branch(branch))
        text = catalog.source if chosen == "pg" else _drawn(catalog.schema, chosen)
        run.output.document(shapes.schema(catalog), text)


def _register_plan(group: typer.Typer) -> None:
    @command(
        group,
        "plan",
        examples=[
            "omnigraph schema plan --schema new.pg",
            "omnigraph schema plan --schema new.pg --branch dev --format md",
        ],
    )
    def plan(
        run: Run,
        schema: WantedOption = None,
        branch: BranchOption = None,
        allow_data_loss: DataLossOption = False,
        form: PlanFormatOption = None,
    ) -> None:
        """Show what a new schema would change, what each step costs, and what the data has against it.

        Nothing is written. The exit code is 1 if any step is unsupported.
        """
        if schema is None:
            raise UsageError("no schema was given", hint="use --schema FILE")
        _plan(run, read_source(schema), branch, allow_data_loss, _format(run, form, _PLANNED))


def _register_apply(group: typer.Typer) -> None:
    @command(
        group,
        "apply",
        writes=True,
        examples=[
            "omnigraph schema apply --schema new.pg",
            "omnigraph schema apply --schema new.pg --branch dev --dry-run",
            "omnigraph schema apply --schema graph.omni/_schema.pg --message 'ages are optional'",
        ],
    )
    def apply(
        run: Run,
        schema: WantedOption = None,
        branch: BranchOption = None,
        allow_data_loss: DataLossOption = False,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Only show the plan, as schema plan does.")
        ] = False,
        form: PlanFormatOption = None,
    ) -> None:
        """Give a branch another schema, as one commit; other branches keep theirs.

        Nothing changes unless every step is supported and the data allows it. Without --schema, a
        schema file of the graph that was edited by hand is offered.
        """
        chosen = _format(run, form, _PLANNED)
        text, name = _edited_source(run) if schema is None else read_source(schema)
        if dry_run:
            _plan(run, (text, name), branch, allow_data_loss, chosen)
            return
        from omnigraph_core.graph import OpenMode

        graph, on = run.open(OpenMode.AS_IS), run.branch(branch)
        echo_target(run, "schema apply", graph.location)
        done = graph.apply_schema(
            text,
            source_name=name,
            branch=on,
            allow_data_loss=allow_data_loss,
            actor=run.actor,
            message=run.message,
        )
        run.output.document(shapes.schema_applied(done, graph.location.uri, run.actor), _told(done, chosen))
        for warning in done.warnings:
            run.output.remark(f"warning: {warning}")
        if done.differing:
            run.output.remark(f"these branches keep their own schema: {', '.join(done.differing)}")


def _plan(run: Run, wanted: tuple[str, str], branch: str | None, allow_data_loss: bool, form: str) -> None:
    """Say what a schema, given by its text and its name, would change."""
    from omnigraph_core.graph import OpenMode

    graph, on, (text, name) = run.open(OpenMode.READ_ONLY), run.branch(branch), wanted
    found = graph.plan_schema(text, source_name=name, branch=on, allow_data_loss=allow_data_loss)
    run.output.document(shapes.schema_plan(found, graph.location.uri, on), _written(found, form))
    if not found.supported:
        raise typer.Exit(ANSWER_IS_NO)


def _edited_source(run: Run) -> tuple[str, str]:
    """The graph's own schema file, if it was edited and whoever is at the terminal wants it applied."""
    from omnigraph_core.graph import OpenMode

    graph = run.open(OpenMode.READ_ONLY)
    edited = graph.edited_source()
    if edited is None:
        raise UsageError("no schema was given", hint="use --schema FILE")
    place = f"{graph.location.uri}/{layout.SCHEMA_SOURCE}"
    if run.no_input or not is_terminal() or not consents(f"{place} was edited. Apply it?"):
        raise UsageError(
            f"no schema was given, but {layout.SCHEMA_SOURCE} of the graph was edited",
            hint=f"apply it with `omnigraph schema apply --schema {place}`",
        )
    return edited, layout.SCHEMA_SOURCE


def _told(done: Applied, form: str) -> str:
    if not done.applied:
        return "the schema is already what it should be"
    below = "\n\n" if form == "md" else "\n"
    return f"{_written(done.plan, form).rstrip()}{below}applied as commit {done.commit_id}"


def _register_diff(group: typer.Typer) -> None:
    @command(
        group,
        "diff",
        takes_graph=False,
        examples=[
            "omnigraph schema diff main~3",
            "omnigraph schema diff main dev",
            "omnigraph schema diff main new.pg --format md",
        ],
    )
    def diff(
        run: Run,
        old: Annotated[
            str,
            typer.Argument(metavar="A", help="A ref, or a schema file.", autocompletion=complete_ref),
        ],
        new: Annotated[
            str | None,
            typer.Argument(
                metavar="B",
                help="A ref, or a schema file; default the branch.",
                autocompletion=complete_ref,
            ),
        ] = None,
        form: PlanFormatOption = None,
    ) -> None:
        """Show the steps from schema A to schema B, as far as the schemas alone can tell.

        A name that ends in .pg, or starts with ./, ../ or /, is a file; - reads stdin.
        """
        chosen = _format(run, form, _PLANNED)
        after = run.branch(None) if new is None else new
        if "" in (old, after) or old == after == "-":
            raise UsageError("A and B must be refs or files", hint="only one of them can be stdin")
        from omnigraph_core.schema.evolve import plan_migration

        sides = Sides(run)
        found = plan_migration(sides.schema(old), sides.schema(after))
        run.output.document(shapes.schema_diff(found, old, after), _written(found, chosen))


def _format(run: Run, option: str | None, known: Sequence[str]) -> str:
    """The format asked for, or the first."""
    if option is None:
        return known[0]
    if option not in known:
        raise UsageError(f"--format: '{option}' is not one of {', '.join(known)}")
    if isinstance(run.output, JsonOutput):
        raise UsageError(f"both --json and --format {option} were given", hint="use one of them")
    return option


def _drawn(schema: Schema, form: str) -> str:
    from omnigraph_core.schema import pretty_json
    from omnigraph_core.schema.render_diagram import dot, mermaid
    from omnigraph_core.schema.render_svg import svg

    return {"json": pretty_json, "mermaid": mermaid, "dot": dot, "svg": svg}[form](schema)


def _written(plan: MigrationPlan, form: str) -> str:
    from omnigraph_core.schema.evolve import lines, markdown

    return harmless(markdown(plan.steps)) if form == "md" else "\n".join(map(one_line, lines(plan.steps)))
