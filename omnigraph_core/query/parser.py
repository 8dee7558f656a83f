"""`.gq` text to syntax tree: files, query headers, parameters and mutations.

The body of a read is in `read_parser`.
"""

from __future__ import annotations

from omnigraph_core.query.expressions import value
from omnigraph_core.query.read_parser import read_body
from omnigraph_core.query.syntax import (
    Assignment,
    Delete,
    Insert,
    Mutation,
    MutationBody,
    Operator,
    Parameter,
    Predicate,
    Query,
    QueryFile,
    ReadBody,
    Update,
)
from omnigraph_core.schema.cursor import Cursor
from omnigraph_core.schema.lexer import Kind, Token, bounded_integer, string_value
from omnigraph_core.schema.limits import VECTOR_DIMENSION_MAX
from omnigraph_core.schema.model import PropertyType, Scalar
from omnigraph_core.schema.parser import BASE_TYPES
from omnigraph_core.schema.source import SourceText, Span

COMPARISONS = frozenset({Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE})

_BASE_TYPES = frozenset(BASE_TYPES)
_STATEMENTS = frozenset({"insert", "update", "delete"})
_TYPES_HINT = f"types are {', '.join(BASE_TYPES)}, Vector(n) and [T]; a trailing '?' is optional"


def parse_queries(text: str, name: str = "query.gq") -> QueryFile:
    """The queries of a file; `name` is only printed. Raises `SourceError`."""
    source = SourceText(name, text)
    cursor = Cursor(source)
    queries: dict[str, Query] = {}
    while cursor.token.kind is not Kind.END:
        cursor.expect("query", hint="a file holds declarations: query name() { … }")
        query = _query(cursor)
        if query.name in queries:
            raise cursor.error(query.name_span, f"duplicate query name: {query.name}")
        queries[query.name] = query
    return QueryFile(source, tuple(queries.values()))


def _query(cursor: Cursor) -> Query:
    """The rest of a declaration, the word `query` already taken."""
    name = cursor.expect_kind(
        Kind.IDENT, "a query name after 'query'", hint=_lower_case_hint(cursor, "query names")
    )
    parameters = _parameters(cursor)
    notes = _notes(cursor, name.text)
    cursor.expect("{", "to open the query body")
    body = _body(cursor)
    return Query(name.text, parameters, notes.get("description"), notes.get("instruction"), body, name.span)


def _body(cursor: Cursor) -> ReadBody | MutationBody:
    if cursor.accept("match"):
        return read_body(cursor)
    if cursor.token.text not in _STATEMENTS:
        raise cursor.unexpected("'match', 'insert', 'update' or 'delete'")
    statements: list[Mutation] = []
    while not cursor.accept("}"):
        statements.append(_mutation(cursor))
    return MutationBody(tuple(statements))


def _parameters(cursor: Cursor) -> tuple[Parameter, ...]:
    cursor.expect("(", "after query name", hint="a query without parameters is written name()")
    parameters: dict[str, Parameter] = {}
    while not cursor.at(")"):
        if parameters:
            cursor.expect(",", "or ')' after parameter")
        token = cursor.expect_kind(Kind.VARIABLE, "a parameter such as $name")
        name = token.text[1:]
        if name in parameters:
            raise cursor.error(token.span, f"duplicate parameter name: ${name}")
        cursor.expect(":", "after parameter name")
        start = cursor.token.start
        type_, end = _parameter_type(cursor)
        parameters[name] = Parameter(name, type_, token.span, Span(start, end))
    cursor.advance()
    return tuple(parameters.values())


def _parameter_type(cursor: Cursor) -> tuple[PropertyType, int]:
    """A parameter type and the offset where it ends."""
    is_list = cursor.accept("[") is not None
    dimension = None
    if cursor.token.text in _BASE_TYPES:
        base = cursor.advance()
        end = cursor.expect("]", "to close the list type").end if is_list else base.end
    elif cursor.at("Vector") and not is_list:
        base = cursor.advance()
        cursor.expect("(", "after 'Vector'")
        dimension = _dimension(cursor)
        end = cursor.expect(")", "after the vector dimension").end
    else:
        hint = "use String for an enum parameter" if cursor.at("enum") else _TYPES_HINT
        raise cursor.unexpected("a base type in the list" if is_list else "a parameter type", hint=hint)
    question = cursor.accept("?")
    type_ = PropertyType(Scalar(base.text), question is not None, is_list, dimension=dimension)
    return type_, end if question is None else question.end


def _dimension(cursor: Cursor) -> int:
    token = cursor.expect_kind(Kind.INTEGER, "the vector dimension")
    dimension = bounded_integer(token, VECTOR_DIMENSION_MAX)
    if dimension is None:
        reason = f"Vector dimension {token.text} exceeds maximum supported {VECTOR_DIMENSION_MAX}"
        raise cursor.error(token.span, reason)
    if dimension == 0:
        raise cursor.error(token.span, "Vector dimension must be greater than zero")
    return dimension


def _notes(cursor: Cursor, query: str) -> dict[str, str]:
    """`@description("…")` and `@instruction("…")`, each at most once."""
    notes: dict[str, str] = {}
    while cursor.at("@"):
        start = cursor.advance().start
        if not (cursor.at("description") or cursor.at("instruction")):
            raise cursor.unexpected("description or instruction after '@'")
        word = cursor.advance()
        cursor.expect("(", f"after @{word.text}")
        text = string_value(cursor.source, cursor.expect_kind(Kind.STRING, f"a string in @{word.text}(…)"))
        end = cursor.expect(")", f"to close @{word.text}(…)").end
        if word.text in notes:
            reason = f"query '{query}' cannot include duplicate @{word.text} annotations"
            raise cursor.error(Span(start, end), reason)
        notes[word.text] = text
    return notes


def _mutation(cursor: Cursor) -> Mutation:
    if cursor.token.text not in _STATEMENTS:
        hint = "a 'where' is a single property, operator and value" if cursor.at("and") else None
        raise cursor.unexpected("'insert', 'update', 'delete' or '}'", hint=hint)
    word = cursor.advance()
    hint = "type names begin with an upper-case letter" if cursor.token.kind is Kind.IDENT else None
    type_ = cursor.expect_kind(Kind.TYPE_NAME, f"a type name after '{word.text}'", hint=hint)
    if word.text == "insert":
        return Insert(word, type_, _assignments(cursor))
    if word.text == "delete":
        return Delete(word, type_, _predicate(cursor))
    cursor.expect("set", "after the type of an update")
    assignments = _assignments(cursor)
    return Update(word, type_, assignments, _predicate(cursor))


def _assignments(cursor: Cursor) -> tuple[Assignment, ...]:
    cursor.expect("{", "to open the assignments")
    assignments: list[Assignment] = []
    while not assignments or not cursor.at("}"):
        name = _property_name(cursor, "a property name" if not assignments else "a property name or '}'")
        cursor.expect(":", "after property name")
        assignments.append(Assignment(name, value(cursor, "a value after ':'")))
        cursor.accept(",")
    cursor.advance()
    return tuple(assignments)


def _predicate(cursor: Cursor) -> Predicate:
    cursor.expect("where", hint="updates and deletes need a condition: where property = value")
    name = _property_name(cursor, "a property name after 'where'")
    if cursor.token.text not in COMPARISONS:
        raise cursor.unexpected("one of = != < <= > >= after property name")
    operator = Operator(cursor.advance().text)
    return Predicate(name, operator, value(cursor, f"a value after '{operator}'"))


def _property_name(cursor: Cursor, expected: str) -> Token:
    return cursor.expect_kind(Kind.IDENT, expected, hint=_lower_case_hint(cursor, "property names"))


def _lower_case_hint(cursor: Cursor, what: str) -> str | None:
    if cursor.token.kind is not Kind.TYPE_NAME:
        return None
    return f"{what} begin with a lower-case letter or '_'"
