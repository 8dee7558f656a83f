"""Expressions, values and literals of `.gq`, from tokens.

A function name is only one where `(` follows; everywhere else it is a plain word, so
a column may be called `count` or `search`.
"""

from __future__ import annotations

import math

from omnigraph_core.query.limits import INTEGER_MAX, NESTING_MAX
from omnigraph_core.query.syntax import (
    AggregateCall,
    AggregateFunction,
    AliasUse,
    Expression,
    ListLiteral,
    Literal,
    NearestCall,
    Now,
    PropertyAccess,
    RrfCall,
    TextCall,
    TextFunction,
    Value,
    Variable,
)
from omnigraph_core.query.temporal import parse_date, parse_date_time
from omnigraph_core.schema.cursor import Cursor
from omnigraph_core.schema.lexer import Kind, Token, bounded_integer, string_value
from omnigraph_core.schema.source import Span

_TEXT_FUNCTIONS = frozenset(TextFunction)
_AGGREGATES = frozenset(AggregateFunction)
_NO_SIGN = "numbers have no sign; pass a negative value as a parameter"
_NO_NULL = "there is no null literal; pass null as a parameter"


def variable(cursor: Cursor, expected: str, *, hint: str | None = None) -> Variable:
    token = cursor.expect_kind(Kind.VARIABLE, expected, hint=hint)
    return Variable(token.text[1:], token.span)


def expression(cursor: Cursor, expected: str, depth: int = 0) -> Expression:
    """Any expression; `expected` is how a message calls it."""
    token = cursor.token
    if depth > NESTING_MAX:
        raise cursor.error(token.span, f"expressions are nested more than {NESTING_MAX} deep")
    if token.kind is Kind.VARIABLE:
        named = variable(cursor, expected)
        if not cursor.accept("."):
            return named
        return PropertyAccess(named, _property_name(cursor))
    if token.kind is Kind.IDENT and cursor.peek().text == "(":
        call = _call(cursor, depth)
        if call is not None:
            return call
    if begins_literal(cursor):
        return literal(cursor)
    if token.kind is Kind.IDENT:
        return AliasUse(cursor.advance())
    raise cursor.unexpected(expected, hint=_NO_SIGN if token.text == "-" else None)


def value(cursor: Cursor, expected: str) -> Value:
    """A literal, a variable or `now()`."""
    token = cursor.token
    if token.kind is Kind.VARIABLE:
        return variable(cursor, expected)
    if token.text == "now" and cursor.peek().text == "(":
        return _now(cursor)
    if begins_literal(cursor):
        return literal(cursor)
    hint = _NO_SIGN if token.text == "-" else _NO_NULL if token.text == "null" else None
    raise cursor.unexpected(expected, hint=hint)


def begins_literal(cursor: Cursor) -> bool:
    token = cursor.token
    if token.kind in (Kind.STRING, Kind.INTEGER, Kind.FLOAT):
        return True
    if token.text in ("date", "datetime"):
        return cursor.peek().text == "("
    return token.text in ("[", "true", "false")


def literal(cursor: Cursor, depth: int = 0) -> Literal | ListLiteral:
    """A literal, where `begins_literal` said there is one."""
    if cursor.at("["):
        return _list(cursor, depth)
    token = cursor.advance()
    if token.kind is Kind.STRING:
        return Literal(string_value(cursor.source, token), token.span)
    if token.kind is Kind.INTEGER:
        return Literal(integer(cursor, token, INTEGER_MAX), token.span)
    if token.kind is Kind.FLOAT:
        number = float(token.text)
        if not math.isfinite(number):
            raise cursor.error(token.span, f"invalid float: {token.text}")
        return Literal(number, token.span)
    if token.text in ("true", "false"):
        return Literal(token.text == "true", token.span)
    return _temporal(cursor, token)


def integer(cursor: Cursor, token: Token, maximum: int) -> int:
    number = bounded_integer(token, maximum)
    if number is None:
        raise cursor.error(token.span, f"invalid integer: {token.text} exceeds {maximum}")
    return number


def _property_name(cursor: Cursor) -> Token:
    hint = "property names begin with a lower-case letter or '_'" if _is_type_name(cursor) else None
    return cursor.expect_kind(Kind.IDENT, "a property name after '.'", hint=hint)


def _is_type_name(cursor: Cursor) -> bool:
    return cursor.token.kind is Kind.TYPE_NAME


def _list(cursor: Cursor, depth: int) -> ListLiteral:
    start = cursor.advance().start
    if depth > NESTING_MAX:
        raise cursor.error(Span(start, start + 1), f"lists are nested more than {NESTING_MAX} deep")
    items: list[Literal | ListLiteral] = []
    while not cursor.at("]"):
        if items:
            cursor.expect(",", "or ']' after list item")
        if not begins_literal(cursor):
            hint = _NO_SIGN if cursor.at("-") else "lists hold literals only"
            raise cursor.unexpected("a literal in the list", hint=hint)
        items.append(literal(cursor, depth + 1))
    return ListLiteral(tuple(items), Span(start, cursor.advance().end))


def _temporal(cursor: Cursor, word: Token) -> Literal:
    """`date("…")` or `datetime("…")`, the word already taken."""
    cursor.expect("(", f"after '{word.text}'")
    token = cursor.expect_kind(Kind.STRING, f"a string in {word.text}(…)")
    close = cursor.expect(")", f"to close {word.text}(…)")
    text = string_value(cursor.source, token)
    parsed = parse_date(text) if word.text == "date" else parse_date_time(text)
    if parsed is None:
        form = "YYYY-MM-DD" if word.text == "date" else "YYYY-MM-DDTHH:MM:SS.mmmZ"
        name = "Date" if word.text == "date" else "DateTime"
        raise cursor.error(token.span, f"invalid {name} literal '{text}'", hint=f"write it as {form}")
    return Literal(parsed, Span(word.start, close.end))


def _now(cursor: Cursor) -> Now:
    word = cursor.advance()
    cursor.expect("(", "after 'now'")
    return Now(Span(word.start, cursor.expect(")", "to close now()").end))


def _call(cursor: Cursor, depth: int) -> Expression | None:
    """A function call, or None if the word is not a function (`date(…)` is a literal)."""
    word = cursor.token.text
    if word == "now":
        return _now(cursor)
    if word == "nearest":
        return nearest(cursor, depth)
    if word == "rrf":
        return _rrf(cursor, depth)
    if word in _TEXT_FUNCTIONS:
        return _text_call(cursor, depth)
    if word in _AGGREGATES:
        return _aggregate(cursor, depth)
    if word in ("date", "datetime"):
        return None
    raise cursor.error(cursor.token.span, f"unknown function '{word}'")


def nearest(cursor: Cursor, depth: int) -> NearestCall:
    start = cursor.advance().start
    cursor.expect("(", "after 'nearest'")
    named = variable(cursor, "a vector property such as $x.embedding")
    cursor.expect(".", f"after '{named}'", hint="nearest takes a property, as in nearest($x.embedding, $q)")
    field = PropertyAccess(named, _property_name(cursor))
    cursor.expect(",", "after the property of nearest(…)")
    query = expression(cursor, "a query vector", depth + 1)
    return NearestCall(field, query, Span(start, cursor.expect(")", "to close nearest(…)").end))


def _text_call(cursor: Cursor, depth: int) -> TextCall:
    word = cursor.advance()
    name = word.text
    cursor.expect("(", f"after '{name}'")
    field = expression(cursor, f"a String property in {name}(…)", depth + 1)
    cursor.expect(",", f"after the property of {name}(…)")
    query = expression(cursor, "a query text", depth + 1)
    max_edits = None
    if name == TextFunction.FUZZY and cursor.accept(","):
        max_edits = expression(cursor, "the number of edits", depth + 1)
    close = cursor.expect(")", f"to close {name}(…)")
    return TextCall(TextFunction(name), field, query, max_edits, Span(word.start, close.end))


def _rrf(cursor: Cursor, depth: int) -> RrfCall:
    start = cursor.advance().start
    cursor.expect("(", "after 'rrf'")
    first = _ranked(cursor, depth + 1)
    cursor.expect(",", "after the first search of rrf(…)")
    second = _ranked(cursor, depth + 1)
    k = expression(cursor, "the constant k of rrf(…)", depth + 1) if cursor.accept(",") else None
    return RrfCall(first, second, k, Span(start, cursor.expect(")", "to close rrf(…)").end))


def _ranked(cursor: Cursor, depth: int) -> NearestCall | TextCall:
    if cursor.peek().text == "(":
        if cursor.at("nearest"):
            return nearest(cursor, depth)
        if cursor.at(TextFunction.BM25):
            return _text_call(cursor, depth)
    raise cursor.unexpected("nearest(…) or bm25(…)", hint="rrf fuses two of nearest(…) and bm25(…)")


def _aggregate(cursor: Cursor, depth: int) -> AggregateCall:
    word = cursor.advance()
    cursor.expect("(", f"after '{word.text}'")
    argument = expression(cursor, f"what to {word.text}", depth + 1)
    close = cursor.expect(")", f"to close {word.text}(…)")
    return AggregateCall(AggregateFunction(word.text), argument, Span(word.start, close.end))
