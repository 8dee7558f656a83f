"""Lint: check every query of a file against a schema, and report everything at once.

Unlike a run, lint goes on after the first query that is wrong, and does not apply the
rules about which well typed mutations may run.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from omnigraph_core.query.check import type_check
from omnigraph_core.query.checked import CheckedMutation, CheckedQuery, UpdateNode
from omnigraph_core.query.operation import Operation, describe_operation
from omnigraph_core.query.parser import parse_queries
from omnigraph_core.query.syntax import Query
from omnigraph_core.records import dataclass
from omnigraph_core.schema import NodeType, Schema, SourceError, SourceText

UNPARSED = "Q000"
NEVER_UPDATED = "L201"
HARDCODED = "mutation declares no params; hardcoded mutations are easy to miss"


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


_SEVERITY_ORDER = {severity: position for position, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class QueryResult:
    """One query: what it does, or why it cannot be run."""

    name: str
    kind: Literal["read", "mutation"]
    warnings: tuple[str, ...] = ()
    error: str | None = None
    operation: Operation | None = None

    @property
    def ok(self) -> bool:
        return self.error is None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the file as a whole."""

    severity: Severity
    code: str
    message: str
    type_name: str | None = None
    property: str | None = None
    query_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LintReport:
    """Results in the order of the file; findings by severity, type, property, message."""

    results: tuple[QueryResult, ...]
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return self.errors == 0

    @property
    def errors(self) -> int:
        return self._findings(Severity.ERROR) + sum(not result.ok for result in self.results)

    @property
    def warnings(self) -> int:
        return self._findings(Severity.WARNING) + sum(len(result.warnings) for result in self.results)

    @property
    def infos(self) -> int:
        return self._findings(Severity.INFO)

    def _findings(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


def lint(source: SourceText, schema: Schema) -> LintReport:
    """The report on one query file; a text that does not parse is a finding, not an error."""
    try:
        file = parse_queries(source.text, source.name)
    except SourceError as error:
        return LintReport((), (Finding(Severity.ERROR, UNPARSED, str(error)),))
    checked: list[CheckedQuery] = []
    results: list[QueryResult] = []
    for query in file.queries:
        try:
            typed = type_check(query, schema, source)
        except SourceError as error:
            results.append(QueryResult(query.name, _kind(query), _warnings(query), error=str(error)))
            continue
        checked.append(typed)
        operation = describe_operation(typed, schema)
        results.append(QueryResult(query.name, _kind(query), _warnings(query), operation=operation))
    findings = sorted(_never_updated(checked, schema), key=_finding_order)
    return LintReport(tuple(results), tuple(findings))


def _never_updated(checked: list[CheckedQuery], schema: Schema) -> list[Finding]:
    """L201: properties that updates of their type all leave alone."""
    assigned: dict[str, set[str]] = {}
    updaters: dict[str, dict[str, None]] = {}
    for query in checked:
        for statement in query.statements if isinstance(query, CheckedMutation) else ():
            if isinstance(statement, UpdateNode):
                names = {assignment.property for assignment in statement.assignments}
                assigned.setdefault(statement.node.name, set()).update(names)
                updaters.setdefault(statement.node.name, {})[query.name] = None
    return [
        Finding(
            Severity.WARNING,
            NEVER_UPDATED,
            f"{type_name}.{name} exists in schema but no update query sets it",
            type_name,
            name,
            tuple(sorted(updaters[type_name])),
        )
        for type_name, names in assigned.items()
        for name in _updatable(schema.node(type_name))
        if name not in names
    ]


def _updatable(node: NodeType) -> list[str]:
    """Properties that some update should set: optional, not identity, not computed."""
    key = () if node.key is None else node.key.columns
    return [
        prop.name
        for prop in node.properties
        if prop.type.nullable and prop.name not in key and prop.embed is None
    ]


def _warnings(query: Query) -> tuple[str, ...]:
    return (HARDCODED,) if query.is_mutation and not query.parameters else ()


def _kind(query: Query) -> Literal["read", "mutation"]:
    return "mutation" if query.is_mutation else "read"


def _finding_order(finding: Finding) -> tuple[int, str, str, str]:
    severity = _SEVERITY_ORDER[finding.severity]
    return severity, finding.type_name or "", finding.property or "", finding.message
