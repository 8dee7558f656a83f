"""`omnigraph lint`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from omnigraph_cli.exits import ANSWER_IS_NO
from omnigraph_cli.output import counted
from omnigraph_cli.run import Run, command
from omnigraph_cli.sources import read_source
from omnigraph_core import shapes
from omnigraph_core.errors import UsageError

if TYPE_CHECKING:
    from omnigraph_core.query.lint import LintReport
    from omnigraph_core.schema import Schema


def register(app: typer.Typer) -> None:
    @command(
        app,
        "lint",
        aliases=["check"],
        examples=[
            "omnigraph lint --query people.gq",
            "omnigraph lint --query people.gq --schema people.pg --json",
        ],
    )
    def lint(
        run: Run,
        query: Annotated[
            str | None, typer.Option("--query", metavar="FILE|-", help="A file of queries; - reads stdin.")
        ] = None,
        schema: Annotated[
            str | None,
            typer.Option(
                "--schema", metavar="FILE", help="Check against this schema file instead of a graph."
            ),
        ] = None,
    ) -> None:
        """Check every query in a file against the schema of a graph or a schema file.

        The exit code is 1 if any query has an error.
        """
        if query is None:
            raise UsageError("no query file was given", hint="use --query FILE")
        if schema is not None and run.given is not None:
            raise UsageError("both a graph and --schema were given", hint="use one of them")
        text, name = read_source(query)
        against, origin = _schema_of_graph(run) if schema is None else _schema_of_file(schema)
        from omnigraph_core.query.lint import lint as check
        from omnigraph_core.schema import SourceText

        report = check(SourceText(name, text), against)
        run.output.document(shapes.lint_report(report, origin, name), "\n".join(_lines(report)))
        if not report.ok:
            raise typer.Exit(ANSWER_IS_NO)


def _schema_of_graph(run: Run) -> tuple[Schema, dict[str, str]]:
    from omnigraph_core.graph import OpenMode

    graph = run.open(OpenMode.READ_ONLY)
    return graph.catalog_of(branch=run.branch(None)).schema, {"kind": "graph", "uri": graph.location.uri}


def _schema_of_file(path: str) -> tuple[Schema, dict[str, str]]:
    from omnigraph_core.schema import compile_schema

    text, name = read_source(path)
    return compile_schema(text, name), {"kind": "file", "path": path}


def _lines(report: LintReport) -> Iterator[str]:
    for result in report.results:
        yield f"OK {result.name} ({result.kind})" if result.ok else f"ERROR {result.name}: {result.error}"
        for warning in result.warnings:
            yield f"WARN {result.name}: {warning}"
    labels = {"error": "ERROR", "warning": "WARN", "info": "INFO"}
    for finding in report.findings:
        yield f"{labels[finding.severity]} {finding.code}: {finding.message}"
    yield (
        f"{counted(report.errors, 'error')}, {counted(report.warnings, 'warning')} "
        f"in {counted(len(report.results), 'query', 'queries')}"
    )
