"""Shapes of queries, of the lint of queries, and of blobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph_core.shapes.json_object import JsonObject
from omnigraph_core.values.as_json import as_json

if TYPE_CHECKING:
    from omnigraph_core.query.lint import Finding, LintReport
    from omnigraph_core.query.lint import QueryResult as LintedQuery
    from omnigraph_core.query.operation import Operation, ResultField, TouchedType
    from omnigraph_core.read.answer.result import QueryResult
    from omnigraph_core.read.blob import Blob


def query_head(result: QueryResult) -> JsonObject:
    """Everything about an answer but its `rows`, which follow."""
    return {
        "query_name": result.query_name,
        "target": _target(result),
        "graph_commit_id": result.graph_commit_id,
        "row_count": result.row_count,
        "columns": result.columns,
    }


def query_metadata(result: QueryResult) -> JsonObject:
    """The first line of an answer in JSON lines."""
    return {
        "kind": "metadata",
        "query_name": result.query_name,
        "target": _target(result),
        "row_count": result.row_count,
    }


def query_plan(result: QueryResult) -> JsonObject:
    return {"query_name": result.query_name, "plan": list(result.plan)}


def value(of: Any) -> object:
    """A value as JSON has it; numbers that are not finite are `NaN`, `Infinity`, `-Infinity`."""
    return as_json(of)


def _target(result: QueryResult) -> JsonObject:
    return {"branch": result.target.branch, "snapshot": result.target.snapshot}


def lint_report(report: LintReport, schema_source: Mapping[str, str], query_path: str) -> JsonObject:
    """`schema_source` and `query_path` say where the texts came from."""
    return {
        "status": _status(report.ok),
        "schema_source": dict(schema_source),
        "query_path": query_path,
        "queries_processed": len(report.results),
        "errors": report.errors,
        "warnings": report.warnings,
        "infos": report.infos,
        "results": [_linted(result) for result in report.results],
        "findings": [_finding(finding) for finding in report.findings],
    }


def _linted(result: LintedQuery) -> JsonObject:
    shown: JsonObject = {"name": result.name, "kind": result.kind, "status": _status(result.ok)}
    if result.warnings:
        shown["warnings"] = list(result.warnings)
    if result.error is not None:
        shown["error"] = result.error
    if result.operation is not None:
        shown["operation"] = _operation(result.operation)
    return shown


def _operation(operation: Operation) -> JsonObject:
    return {
        "result": [_result_field(field) for field in operation.result],
        "reads": [_touched(each) for each in operation.reads],
        "writes": [_touched(each) for each in operation.writes],
    }


def _result_field(field: ResultField) -> JsonObject:
    shown: JsonObject = {"name": field.name, "kind": field.kind, "nullable": field.nullable}
    if field.item_kind is not None:
        shown["item_kind"] = field.item_kind
    if field.vector_dim is not None:
        shown["vector_dim"] = field.vector_dim
    return shown


def _touched(touched: TouchedType) -> JsonObject:
    return {"kind": touched.kind, "type_name": touched.type_name}


def _finding(finding: Finding) -> JsonObject:
    shown: JsonObject = {
        "severity": finding.severity,
        "code": finding.code,
        "message": finding.message,
    }
    if finding.type_name is not None:
        shown["type_name"] = finding.type_name
    if finding.property is not None:
        shown["property"] = finding.property
    if finding.query_names:
        shown["query_names"] = list(finding.query_names)
    return shown


def _status(ok: bool) -> str:
    return "ok" if ok else "error"


def blob(of: Blob) -> JsonObject:
    return {"type": of.type_name, "id": of.entity_id, "property": of.property_name, "size": of.size}
