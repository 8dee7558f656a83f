"""The body of a read: `match`, `return`, `order` and `limit`, from tokens.

A clause is told apart by its first tokens, in the order the grammar tries the
alternatives: `$q contains $m` is a traversal over an edge called `contains`, because
traversals come before filters.
"""

from __future__ import annotations

from omnigraph_core.query.expressions import expression, integer, nearest, value, variable
from omnigraph_core.query.limits import HOPS_MAX, NESTING_MAX, ROW_LIMIT_MAX
from omnigraph_core.query.syntax import (
    AliasUse,
    Binding,
    Clause,
    Expression,
    Filter,
    HopBounds,
    Negation,
    Operator,
    Ordering,
    Projection,
    PropertyMatch,
    ReadBody,
    TextCall,
    TextClause,
    TextFunction,
    Traversal,
    Variable,
)
from omnigraph_core.schema.cursor import Cursor
from omnigraph_core.schema.lexer import Kind, Token
from omnigraph_core.schema.source import Span

_OPERATORS = frozenset(Operator)
_WORD_OPERATORS = frozenset({Operator.CONTAINS, Operator.STARTS_WITH})
_SIDE_BY_SIDE = "conditions stand side by side and all must hold; there is no 'and' or 'or'"
_SECTIONS_HINT = "the sections of a read are match, return, order, limit, in this order"


def read_body(cursor: Cursor) -> ReadBody:
    """Everything after the word `match`, the query's closing `}` included."""
    cursor.expect("{", "after 'match'")
    clauses = _clauses(cursor, 0)
    cursor.expect("return", "after the match block", hint=_SECTIONS_HINT)
    projections = _projections(cursor)
    orderings = _orderings(cursor) if cursor.accept("order") else ()
    limit = None
    if cursor.accept("limit"):
        token = cursor.expect_kind(Kind.INTEGER, "a number after 'limit'")
        limit = integer(cursor, token, ROW_LIMIT_MAX)
    cursor.expect("}", "to close the query", hint=_SECTIONS_HINT)
    return ReadBody(clauses, projections, orderings, limit)


def _clauses(cursor: Cursor, depth: int) -> tuple[Clause, ...]:
    """One or more clauses and the `}` after them."""
    clauses = [_clause(cursor, "a clause", depth)]
    while not cursor.accept("}"):
        clauses.append(_clause(cursor, "a clause or '}'", depth))
    return tuple(clauses)


def _clause(cursor: Cursor, expected: str, depth: int) -> Clause:
    token = cursor.token
    following = cursor.peek()
    if token.text == "not" and following.text == "{":
        return _negation(cursor, depth)
    if token.kind is Kind.VARIABLE:
        if following.text == ":":
            return _binding(cursor)
        if _begins_traversal(cursor, following):
            return _traversal(cursor)
    if token.text == ",":
        raise cursor.unexpected(expected, hint="clauses are not separated by commas")
    return _filter(cursor, expected)


def _negation(cursor: Cursor, depth: int) -> Negation:
    word = cursor.advance()
    cursor.advance()
    if depth >= NESTING_MAX:
        raise cursor.error(word.span, f"negations are nested more than {NESTING_MAX} deep")
    return Negation(_clauses(cursor, depth + 1), word.span)


def _binding(cursor: Cursor) -> Binding:
    bound = variable(cursor, "a variable")
    cursor.advance()
    hint = "type names begin with an upper-case letter" if cursor.token.kind is Kind.IDENT else None
    type_ = cursor.expect_kind(Kind.TYPE_NAME, "a node type after ':'", hint=hint)
    matches: list[PropertyMatch] = []
    if cursor.accept("{"):
        while not matches or not cursor.at("}"):
            matches.append(_property_match(cursor))
            if not cursor.accept(",") and not cursor.at("}"):
                raise cursor.unexpected("',' or '}' after the value")
        cursor.advance()
    return Binding(bound, type_, tuple(matches))


def _property_match(cursor: Cursor) -> PropertyMatch:
    hint = "leave the braces out to match every node of the type" if cursor.at("}") else None
    name = cursor.expect_kind(Kind.IDENT, "a property name", hint=hint)
    cursor.expect(":", "after property name")
    return PropertyMatch(name, value(cursor, "a value after ':'"))


def _begins_traversal(cursor: Cursor, following: Token) -> bool:
    """Does what follows a variable make it the left end of a traversal?"""
    if following.kind is Kind.VARIABLE:
        return True
    if following.text == "<":
        return cursor.peek(2).kind is Kind.IDENT and cursor.peek(3).text == ">"
    if following.kind is not Kind.IDENT:
        return False
    ends_like_one = cursor.peek(2).kind is Kind.VARIABLE or cursor.peek(2).text == "{"
    return ends_like_one or following.text not in _WORD_OPERATORS


def _traversal(cursor: Cursor) -> Traversal:
    left = variable(cursor, "a variable")
    edge_variable: Variable | None = None
    if cursor.token.kind is Kind.VARIABLE:
        edge_variable = variable(cursor, "a variable")
        cursor.expect(":", f"after '{edge_variable}'", hint="an edge is bound as in $a $w:knows $b")
    undirected = cursor.accept("<") is not None
    edge = _edge_word(cursor)
    if undirected:
        cursor.expect(">", "after the edge name")
    hops = _hop_bounds(cursor) if cursor.at("{") else None
    right = variable(cursor, f"a variable after '{edge.text}'")
    if cursor.at(".") and edge.text in _WORD_OPERATORS:
        hint = f"`{left} {edge.text} {right}` is a traversal; write the property on the left"
        raise cursor.unexpected("a clause or '}'", hint=hint)
    return Traversal(left, edge_variable, edge, undirected, hops, right)


def _edge_word(cursor: Cursor) -> Token:
    token = cursor.token
    hint = None
    if token.kind is Kind.TYPE_NAME:
        hint = f"edges are traversed by their name in lower case: {token.text[0].lower()}{token.text[1:]}"
    if token.text == "not":
        raise cursor.unexpected("an edge name", hint="an edge called Not cannot be traversed")
    return cursor.expect_kind(Kind.IDENT, "an edge name", hint=hint)


def _hop_bounds(cursor: Cursor) -> HopBounds:
    start = cursor.advance().start
    hint = "hop bounds are written {min,max}"
    minimum = integer(
        cursor, cursor.expect_kind(Kind.INTEGER, "the least number of hops", hint=hint), HOPS_MAX
    )
    cursor.expect(",", "after the least number of hops", hint=hint)
    maximum = None
    if cursor.token.kind is Kind.INTEGER:
        maximum = integer(cursor, cursor.advance(), HOPS_MAX)
    close = cursor.expect("}", "to close the hop bounds", hint=hint)
    return HopBounds(minimum, maximum, Span(start, close.end))


def _filter(cursor: Cursor, expected: str) -> Filter | TextClause:
    left = expression(cursor, expected)
    if cursor.token.text not in _OPERATORS:
        if isinstance(left, TextCall) and left.function is not TextFunction.BM25:
            return TextClause(left)
        if isinstance(left, AliasUse) and left.name.text in ("and", "or"):
            raise cursor.unexpected(expected, found=left.name, hint=_SIDE_BY_SIDE)
        raise cursor.unexpected("an operator", hint=_no_operator_hint(cursor.token, left))
    operator = Operator(cursor.advance().text)
    return Filter(left, operator, expression(cursor, f"an operand after '{operator}'"))


def _no_operator_hint(found: Token, left: Expression) -> str:
    if found.kind is Kind.TYPE_NAME and isinstance(left, Variable):
        return f"edges are traversed by their name in lower case: {found.text[0].lower()}{found.text[1:]}"
    return "operators are = != < <= > >= contains starts_with"


def _projections(cursor: Cursor) -> tuple[Projection, ...]:
    cursor.expect("{", "after 'return'")
    projections: list[Projection] = []
    while not projections or not cursor.at("}"):
        expected = "something to return" if not projections else "something to return or '}'"
        returned = expression(cursor, expected)
        alias = None
        if cursor.accept("as"):
            alias = cursor.expect_kind(Kind.IDENT, "a column name after 'as'")
        projections.append(Projection(returned, alias))
        cursor.accept(",")
    cursor.advance()
    return tuple(projections)


def _orderings(cursor: Cursor) -> tuple[Ordering, ...]:
    cursor.expect("{", "after 'order'")
    orderings = [_ordering(cursor)]
    while cursor.accept(","):
        orderings.append(_ordering(cursor))
    cursor.expect("}", "or ',' after an order key")
    return tuple(orderings)


def _ordering(cursor: Cursor) -> Ordering:
    if cursor.at("nearest") and cursor.peek().text == "(":
        ranked = nearest(cursor, 0)
        if cursor.at("asc") or cursor.at("desc"):
            raise cursor.unexpected("',' or '}'", hint="nearest(…) takes no direction: nearest comes first")
        return Ordering(ranked, None)
    key = expression(cursor, "an order key")
    direction = cursor.advance() if cursor.at("asc") or cursor.at("desc") else None
    return Ordering(key, direction)
