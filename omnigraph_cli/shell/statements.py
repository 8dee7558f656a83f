"""What was typed, as statements: when one is whole, and the query that a bare match stands for. Pure."""

from __future__ import annotations

import re

_QUERY = re.compile(r"\s*(//[^\n]*\n|\s)*query\b")
_OPENING, _CLOSING = "{([", "})]"


def is_whole(text: str) -> bool:
    """Is there nothing left to type? A `\\` command is one line; a query ends with its last bracket.

    An empty line ends a statement, too, so that a mistake is told rather than waited for.
    """
    if not text.strip() or text.lstrip().startswith("\\"):
        return True
    if text.endswith("\n") and not text.rstrip(" \t").endswith("{\n") and text.rstrip("\n") != text[:-1]:
        return True
    depth, has_brackets = _depth(text)
    return has_brackets and depth <= 0 and not _wants_more(text)


def _wants_more(text: str) -> bool:
    """A match alone returns nothing: its return is still to come."""
    return not _QUERY.match(text) and text.lstrip().startswith("match") and "return" not in text


def _depth(text: str) -> tuple[int, bool]:
    """How many brackets are open outside of texts and comments, and whether there are any."""
    depth, has_brackets, at = 0, False, 0
    while at < len(text):
        if text.startswith("//", at):
            at = text.find("\n", at)
            if at < 0:
                break
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                return depth + 1, True
            at = end + 1
        elif text[at] == '"':
            at = _end_of_text(text, at)
            if at >= len(text):
                return depth + 1, True
        elif text[at] in _OPENING:
            depth, has_brackets = depth + 1, True
        elif text[at] in _CLOSING:
            depth -= 1
        at += 1
    return depth, has_brackets


def _end_of_text(text: str, start: int) -> int:
    at = start + 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at


def as_query(text: str) -> str:
    """`match … return …` and `insert …` without a name, as the query they stand for."""
    return text if _QUERY.match(text) else f"query shell() {{\n{text}\n}}"
