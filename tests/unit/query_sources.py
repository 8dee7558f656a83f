"""The two schemas of the language's worked examples, and short ways to check a query on them."""

from __future__ import annotations

import pytest

from omnigraph_core.query import (
    CheckedMutation,
    CheckedQuery,
    CheckedRead,
    QueryTypeError,
    as_mutation,
    as_read,
    check_query,
    choose_query,
    parse_queries,
)
from omnigraph_core.query.checked import MatchClause
from omnigraph_core.schema import Schema, SourceError, compile_schema
from tests.unit.schema_sources import S1, S2

PEOPLE = compile_schema(S1)
DOCS = compile_schema(S2)


def checked(text: str, schema: Schema = PEOPLE, name: str | None = None) -> CheckedQuery:
    file = parse_queries(text)
    return check_query(choose_query(file, name), schema, file.source)


def read(text: str, schema: Schema = PEOPLE) -> CheckedRead:
    return as_read(checked(text, schema))


def mutation(text: str, schema: Schema = PEOPLE) -> CheckedMutation:
    return as_mutation(checked(text, schema))


def match(clauses: str, schema: Schema = PEOPLE, parameters: str = "") -> tuple[MatchClause, ...]:
    """The checked clauses of a match."""
    return read(f"query q({parameters}) {{ match {{ {clauses} }} return {{ 1 as one }} }}", schema).clauses


def unmarked(marked: str) -> tuple[str, int, int]:
    """A text without its `«…»`, and where the marked part begins and ends."""
    before, _, rest = marked.partition("«")
    inside, _, after = rest.partition("»")
    return before + inside + after, len(before), len(before) + len(inside)


def refused(marked: str, schema: Schema = PEOPLE) -> SourceError:
    """The error of a query, which must underline what the text marks."""
    text, start, end = unmarked(marked)
    with pytest.raises(SourceError) as caught:
        checked(text, schema)
    error = caught.value
    line = text.count("\n", 0, start) + 1
    column = start - text.rfind("\n", 0, start)
    assert (error.line, error.column) == (line, column), str(error)
    carets = error.excerpt.split("\n")[1]
    assert carets.count("^") == max(1, end - start), str(error)
    return error


def code_of(error: SourceError) -> str:
    """`SYNTAX`, a T-code, or `TYPE` for a type error without one."""
    if isinstance(error, QueryTypeError):
        return error.code or "TYPE"
    return "SYNTAX"
