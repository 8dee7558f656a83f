"""Tokens of `.pg` and `.gq`: one pass of one regular expression.

Keywords are not tokens: they are words, and only the parsers give some of them a
meaning in some places. A word ends where letters, digits and `_` end, which is the
whole word-boundary rule (`nodePerson` is one word, not `node Person`).

Every repetition is possessive or over a single character class, so the time is linear in the
text whatever the text is.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from omnigraph_core.schema.source import SourceText, Span, parse_error


class Kind(Enum):
    """What a token is, by its spelling alone."""

    TYPE_NAME = "type"
    IDENT = "ident"
    VARIABLE = "variable"
    FLOAT = "float"
    INTEGER = "integer"
    STRING = "string"
    PUNCTUATION = "punctuation"
    ENUM_VALUE = "enum_value"
    BAD = "bad"
    END = "end"


class Token(NamedTuple):
    """One token, its spelling and its place. A tuple, because there are thousands.

    The spelling of a string keeps its quotes, so comparing `text` with a word or a
    punctuation mark can never take a string for one.
    """

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)


# A float needs a digit on both sides of its point; that is what keeps `0..` and
# `-1.5..99.5` readable as ranges.
_TOKEN = re.compile(
    r"""
    [ \t\r\n]*+
    (?: (?P<ident>[a-z_]\w*+)
      | (?P<punctuation>->|\.\.|<=|>=|!=|[{}()\[\]:,@?=<>.\-])
      | (?P<type>[A-Z]\w*+)
      | (?P<variable>\$[a-z_]\w*+)
      | (?P<float>\d++\.\d++)
      | (?P<integer>\d++)
      | (?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")
      | (?P<comment>//[^\n]*+|/\*.*?\*/)
      | (?P<end>\Z)
      | (?P<bad>.)
    )
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_COMMENT = _TOKEN.groupindex["comment"]
_END = _TOKEN.groupindex["end"]
_BAD = _TOKEN.groupindex["bad"]
_KINDS = {_TOKEN.groupindex[kind.value]: kind for kind in Kind if kind.value in _TOKEN.groupindex}
_ENUM_VALUE = re.compile(r"[A-Za-z0-9_-]++")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_WRITTEN = str.maketrans({plain: f"\\{letter}" for letter, plain in _ESCAPES.items()})


def tokenize(source: SourceText) -> list[Token]:
    """All tokens, ending in END.

    A character no token begins with becomes a BAD token and ends the list: the parser
    complains about it only if nothing earlier in the file is wrong. END lies right
    behind the last token, where something is missing, not after trailing blank lines.
    """
    _require_unicode(source)
    text = source.text
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        group = match.lastindex
        assert group is not None, "the pattern ends in a catch-all"
        if group == _COMMENT:
            continue
        if group == _END:
            break
        start, end = match.span(group)
        tokens.append(Token(_KINDS[group], text[start:end], start, end))
        if group == _BAD:
            break
    last = tokens[-1].end if tokens else 0
    tokens.append(Token(Kind.END, "", last, last))
    return tokens


def enum_value_at(source: SourceText, token: Token) -> Token | None:
    """The enum value that begins where a token does.

    Enum values (`b-2`, `3c`) overlap with other tokens and exist in one place of the
    grammar only, so the parser asks for them there instead of the lexer guessing.
    """
    match = None if token.kind is Kind.END else _ENUM_VALUE.match(source.text, token.start)
    return None if match is None else Token(Kind.ENUM_VALUE, match[0], match.start(), match.end())


def string_value(source: SourceText, token: Token) -> str:
    """The text a string token stands for."""
    body = token.text[1:-1]
    if "\\" not in body:
        return body

    def unescape(match: re.Match[str]) -> str:
        plain = _ESCAPES.get(match[1])
        if plain is None:
            offset = token.start + 1 + match.start()
            raise parse_error(source, Span(offset, offset + 2), f"unsupported escape sequence: \\{match[1]}")
        return plain

    return _ESCAPE.sub(unescape, body)


def bounded_integer(token: Token, maximum: int) -> int | None:
    """The value of an integer token, or None beyond the maximum.

    Compared by length first: Python refuses to convert very long digit strings.
    """
    digits = token.text.lstrip("0") or "0"
    if len(digits) > len(str(maximum)):
        return None
    value = int(digits)
    return value if value <= maximum else None


def string_literal(text: str) -> str:
    """A string token that stands for `text`: the inverse of `string_value`."""
    return f'"{text.translate(_WRITTEN)}"'


def _require_unicode(source: SourceText) -> None:
    """Text with lone surrogates cannot be stored or hashed as UTF-8."""
    try:
        source.text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise parse_error(
            source, Span(error.start, error.start + 1), "the text is not valid Unicode"
        ) from None
