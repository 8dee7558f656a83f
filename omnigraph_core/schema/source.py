"""Source text and the one error that points into it.

Both languages, `.pg` and `.gq`, report through `SourceError`, so that a person sees
the same `file:line:column`, line and caret, and a program the same facts.
"""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph_core.errors import BadDataError
from omnigraph_core.records import dataclass
from omnigraph_core.schema.limits import EXCERPT_COLUMNS_MAX, EXCERPT_LEAD_COLUMNS, REASON_CHARACTERS_MAX

PARSE_ERROR = "parse error"
CATALOG_ERROR = "catalog error"

_CUT = "..."


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of source text, as offsets in characters; `end` is exclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SourceText:
    """A named text; the name is only ever printed, never opened."""

    name: str
    text: str

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Where an offset is, both counted from 1, columns in characters."""
        line = self.text.count("\n", 0, offset) + 1
        return line, offset - self.text.rfind("\n", 0, offset)

    def excerpt(self, span: Span) -> str:
        """The line of the span and a caret line under it.

        Characters that would move the cursor or drive a terminal are shown as `?`;
        tabs stay, in both lines, so that the carets line up at any tab width.
        """
        line_start = self.text.rfind("\n", 0, span.start) + 1
        line_end = self.text.find("\n", span.start)
        line_end = len(self.text) if line_end < 0 else line_end
        window_start, window_end = line_start, line_end
        if line_end - line_start > EXCERPT_COLUMNS_MAX:
            window_start = max(line_start, span.start - EXCERPT_LEAD_COLUMNS)
            window_end = min(line_end, window_start + EXCERPT_COLUMNS_MAX)
        before = _shown(self.text[window_start : span.start])
        after = _shown(self.text[span.start : window_end].removesuffix("\r"))
        if window_start > line_start:
            before = _CUT + before
        padding = "".join("\t" if character == "\t" else " " for character in before)
        carets = "^" * max(1, min(span.end - span.start, len(after)))
        tail = _CUT if window_end < line_end else ""
        return f"{before}{after}{tail}\n{padding}{carets}"


class SourceError(BadDataError):
    """A source text that breaks a rule of its language, and where.

    `reason` is the bare sentence; `str(error)` adds place, category and excerpt.
    """

    has_lines = True

    def __init__(
        self, source: SourceText, span: Span, category: str, reason: str, *, hint: str | None = None
    ) -> None:
        self.file = source.name
        self.line, self.column = source.line_and_column(span.start)
        self.category = category
        self.reason = _shown(_cut(reason, REASON_CHARACTERS_MAX))
        self.excerpt = source.excerpt(span)
        place = f"{_shown(self.file)}:{self.line}:{self.column}"
        super().__init__(f"{place}: {category}: {self.reason}\n{self.excerpt}", hint=hint)

    def details(self) -> Mapping[str, object]:
        return {
            "violations": [
                {"file": self.file, "line": self.line, "column": self.column, "message": self.reason}
            ]
        }


def parse_error(source: SourceText, span: Span, reason: str, *, hint: str | None = None) -> SourceError:
    """A grammar, annotation or constraint rule is broken."""
    return SourceError(source, span, PARSE_ERROR, reason, hint=hint)


def catalog_error(source: SourceText, span: Span, reason: str) -> SourceError:
    """Declarations that are fine one by one do not fit together."""
    return SourceError(source, span, CATALOG_ERROR, reason)


def _cut(text: str, characters_max: int) -> str:
    return text if len(text) <= characters_max else text[:characters_max] + _CUT


def _shown(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else "?" for c in text)
