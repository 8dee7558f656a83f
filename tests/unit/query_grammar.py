"""The query grammar of the language reference, rule by rule, as a parsing expression grammar.

It only says whether a text is in the language. The parser proper is written by hand and
looks ahead where this one tries and goes back, so the two agreeing means something.
Alternatives are ordered and a keyword is a whole word.
"""

from __future__ import annotations

from collections.abc import Callable

from omnigraph_core.schema.lexer import Kind, Token, tokenize
from omnigraph_core.schema.source import SourceText

# Where a rule stops, or None where it does not match.
Rule = Callable[[list[Token], int], int | None]


def word(text: str) -> Rule:
    return lambda tokens, at: at + 1 if tokens[at].text == text else None


def kind(wanted: Kind) -> Rule:
    return lambda tokens, at: at + 1 if tokens[at].kind is wanted else None


def seq(*parts: Rule | str) -> Rule:
    rules = [word(part) if isinstance(part, str) else part for part in parts]

    def match(tokens: list[Token], at: int) -> int | None:
        for rule in rules:
            end = rule(tokens, at)
            if end is None:
                return None
            at = end
        return at

    return match


def first(*parts: Rule | str) -> Rule:
    rules = [word(part) if isinstance(part, str) else part for part in parts]

    def match(tokens: list[Token], at: int) -> int | None:
        return next((end for rule in rules if (end := rule(tokens, at)) is not None), None)

    return match


def maybe(*parts: Rule | str) -> Rule:
    rule = seq(*parts)

    def match(tokens: list[Token], at: int) -> int | None:
        end = rule(tokens, at)
        return at if end is None else end

    return match


def many(*parts: Rule | str) -> Rule:
    rule = seq(*parts)

    def match(tokens: list[Token], at: int) -> int | None:
        while (end := rule(tokens, at)) is not None:
            at = end
        return at

    return match


def some(*parts: Rule | str) -> Rule:
    return seq(*parts, many(*parts))


def listed(part: Rule) -> Rule:
    return seq(part, many(",", part))


def later(name: str) -> Rule:
    """A rule that is defined further down."""
    return lambda tokens, at: _later[name](tokens, at)


_later: dict[str, Rule] = {}

TYPE_NAME = kind(Kind.TYPE_NAME)
IDENT = kind(Kind.IDENT)
VARIABLE = kind(Kind.VARIABLE)
INTEGER = kind(Kind.INTEGER)
STRING = kind(Kind.STRING)
BASE = first("String", "Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "DateTime", "Date")

LIST = seq("[", maybe(listed(later("literal"))), "]")
_later["literal"] = LITERAL = first(
    LIST,
    seq("datetime", "(", STRING, ")"),
    seq("date", "(", STRING, ")"),
    STRING,
    kind(Kind.FLOAT),
    INTEGER,
    "true",
    "false",
)
NOW = seq("now", "(", ")")
VALUE = first(LITERAL, VARIABLE, NOW)
ACCESS = seq(VARIABLE, ".", IDENT)
EXPRESSION = later("expression")
SEARCH = seq("search", "(", EXPRESSION, ",", EXPRESSION, ")")
FUZZY = seq("fuzzy", "(", EXPRESSION, ",", EXPRESSION, maybe(",", EXPRESSION), ")")
MATCH_TEXT = seq("match_text", "(", EXPRESSION, ",", EXPRESSION, ")")
NEAREST = seq("nearest", "(", ACCESS, ",", EXPRESSION, ")")
BM25 = seq("bm25", "(", EXPRESSION, ",", EXPRESSION, ")")
RANKED = first(NEAREST, BM25)
RRF = seq("rrf", "(", RANKED, ",", RANKED, maybe(",", EXPRESSION), ")")
AGGREGATE = seq(first("count", "sum", "avg", "min", "max"), "(", EXPRESSION, ")")
_later["expression"] = first(
    NOW, NEAREST, SEARCH, FUZZY, MATCH_TEXT, BM25, RRF, AGGREGATE, ACCESS, VARIABLE, LITERAL, IDENT
)

COMPARISON = first(">=", "<=", "!=", ">", "<", "=")
PROPERTY_MATCH = seq(IDENT, ":", VALUE)
NEGATION = seq("not", "{", some(later("clause")), "}")
BINDING = seq(VARIABLE, ":", TYPE_NAME, maybe("{", listed(PROPERTY_MATCH), maybe(","), "}"))


def EDGE_WORD(tokens: list[Token], at: int) -> int | None:  # noqa: N802 - a rule like the others
    return at + 1 if tokens[at].kind is Kind.IDENT and tokens[at].text != "not" else None


TRAVERSAL = seq(
    VARIABLE,
    maybe(VARIABLE, ":"),
    first(seq("<", EDGE_WORD, ">"), EDGE_WORD),
    maybe("{", INTEGER, ",", maybe(INTEGER), "}"),
    VARIABLE,
)
FILTER = seq(EXPRESSION, first("starts_with", "contains", COMPARISON), EXPRESSION)
_later["clause"] = CLAUSE = first(NEGATION, BINDING, TRAVERSAL, FILTER, SEARCH, FUZZY, MATCH_TEXT)

PROJECTION = seq(EXPRESSION, maybe("as", IDENT), maybe(","))
ORDERING = first(NEAREST, seq(EXPRESSION, maybe(first("asc", "desc"))))
READ = seq(
    seq("match", "{", some(CLAUSE), "}"),
    seq("return", "{", some(PROJECTION), "}"),
    maybe("order", "{", listed(ORDERING), "}"),
    maybe("limit", INTEGER),
)

ASSIGNMENT = seq(IDENT, ":", VALUE, maybe(","))
PREDICATE = seq(IDENT, COMPARISON, VALUE)
INSERT = seq("insert", TYPE_NAME, "{", some(ASSIGNMENT), "}")
UPDATE = seq("update", TYPE_NAME, "set", "{", some(ASSIGNMENT), "}", "where", PREDICATE)
DELETE = seq("delete", TYPE_NAME, "where", PREDICATE)

PARAMETER = seq(
    VARIABLE,
    ":",
    first(seq("[", BASE, "]"), BASE, seq("Vector", "(", INTEGER, ")")),
    maybe("?"),
)
NOTE = seq("@", first("description", "instruction"), "(", STRING, ")")
QUERY = seq(
    seq("query", IDENT, "(", maybe(listed(PARAMETER)), ")"),
    many(NOTE),
    seq("{", first(READ, some(first(INSERT, UPDATE, DELETE))), "}"),
)
FILE = seq(many(QUERY), kind(Kind.END))


def in_language(text: str) -> bool:
    """Is the text a query file, as far as the grammar goes? It must be valid Unicode."""
    return FILE(tokenize(SourceText("query.gq", text)), 0) is not None
