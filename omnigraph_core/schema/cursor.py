"""A walk over the tokens of one source, with the complaints a person can use.

Shared by the `.pg` and `.gq` parsers. Every failure says what was expected and what
stands there instead.
"""

from __future__ import annotations

from omnigraph_core.schema.lexer import Kind, Token, enum_value_at, tokenize
from omnigraph_core.schema.limits import FOUND_CHARACTERS_MAX
from omnigraph_core.schema.source import SourceError, SourceText, Span, parse_error


class Cursor:
    """The current token and the steps past it.

    `token` is always valid: the walk ends in an END token and never passes it.
    """

    __slots__ = ("_index", "_tokens", "source", "token")

    def __init__(self, source: SourceText) -> None:
        self.source = source
        self._tokens = tokenize(source)
        self._index = 0
        self.token = self._tokens[0]

    def advance(self) -> Token:
        """Take the current token."""
        taken = self.token
        if taken.kind is not Kind.END:
            self._index += 1
            self.token = self._tokens[self._index]
        return taken

    def peek(self, distance: int = 1) -> Token:
        """A token further on; END from there on when the text is shorter."""
        return self._tokens[min(self._index + distance, len(self._tokens) - 1)]

    def at(self, text: str) -> bool:
        """Is the current token this word or punctuation mark?"""
        return self.token.text == text

    def accept(self, text: str) -> Token | None:
        """Take the current token if it is this word or punctuation mark."""
        return self.advance() if self.token.text == text else None

    def expect(self, text: str, context: str = "", *, hint: str | None = None) -> Token:
        """Take this word or punctuation mark; `context` ends the sentence: `after property name`."""
        if self.token.text == text:
            return self.advance()
        raise self.unexpected(f"'{text}' {context}".rstrip(), hint=hint)

    def expect_kind(self, kind: Kind, expected: str, *, hint: str | None = None) -> Token:
        """Take a token of this kind; `expected` is how the message calls it."""
        if self.token.kind is kind:
            return self.advance()
        raise self.unexpected(expected, hint=hint)

    def expect_enum_value(self) -> Token:
        """Take one enum value, whatever tokens its characters were first read as."""
        value = enum_value_at(self.source, self.token)
        if value is None:
            raise self.unexpected("an enum value (letters, digits, '_' and '-')")
        while self.token.start < value.end and self.token.end <= value.end:
            self.advance()
        if self.token.start < value.end:
            rest = self.source.text[value.end : self.token.end]
            found = Token(Kind.PUNCTUATION, rest, value.end, self.token.end)
            raise self.unexpected("',' or ')' after enum value", found=found)
        return value

    def unexpected(
        self, expected: str, *, hint: str | None = None, found: Token | None = None
    ) -> SourceError:
        """The error for the current token; characters outside the language explain themselves."""
        token = self.token if found is None else found
        if token.kind is Kind.BAD:
            return _bad_character(self.source, token)
        return parse_error(
            self.source, token.span, f"expected {expected}, found {describe(token)}", hint=hint
        )

    def error(self, span: Span, reason: str, *, hint: str | None = None) -> SourceError:
        return parse_error(self.source, span, reason, hint=hint)


def describe(token: Token) -> str:
    """A token as messages quote it: short, one line, nothing a terminal would act on."""
    if token.kind is Kind.END:
        return "end of file"
    text = token.text
    if len(text) > FOUND_CHARACTERS_MAX:
        text = text[:FOUND_CHARACTERS_MAX] + "..."
    return f"'{text}'" if text.isprintable() else ascii(text)


def _bad_character(source: SourceText, token: Token) -> SourceError:
    rest = source.text[token.start : token.start + 2]
    if rest == "/*":
        return parse_error(source, Span(token.start, token.start + 2), "unterminated block comment")
    if token.text == '"':
        return parse_error(source, token.span, "unterminated string")
    if token.text == "$":
        return parse_error(source, token.span, "expected a lower-case variable name after '$'")
    hint = "strings are written in double quotes" if token.text in ("'", "`") else None
    shown = f"'{token.text}'" if token.text.isprintable() else f"U+{ord(token.text):04X}"
    return parse_error(source, token.span, f"unexpected character {shown}", hint=hint)
