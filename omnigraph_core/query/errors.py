"""What can be wrong with a query beyond its grammar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from omnigraph_core.errors import BadDataError, NotFoundError, RefusedError, UsageError
from omnigraph_core.schema.source import SourceError, SourceText, Span
from omnigraph_core.values.shown import one_line

TYPE_ERROR = "type error"


class QueryTypeError(SourceError):
    """A query that does not fit its schema. `code` is T1 to T24; some rules have none."""

    def __init__(
        self, source: SourceText, span: Span, code: str | None, reason: str, *, hint: str | None = None
    ) -> None:
        self.code = code
        text = reason if code is None else f"{code}: {reason}"
        super().__init__(source, span, TYPE_ERROR, text, hint=hint)

    def details(self) -> Mapping[str, object]:
        violation = {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "code": self.code,
            "message": self.reason,
        }
        return {"violations": [violation]}


class RefusedMutationError(RefusedError):
    """A mutation that is well typed but against a rule, refused before anything is read.

    `rule` is `mixed` (inserts or updates beside deletes) or `key_update`.
    """

    has_lines = True

    def __init__(
        self,
        source: SourceText,
        span: Span,
        rule: Literal["mixed", "key_update"],
        reason: str,
        *,
        hint: str | None = None,
    ) -> None:
        self.rule = rule
        self.reason = reason
        self.file = source.name
        self.line, self.column = source.line_and_column(span.start)
        place = one_line(f"{self.file}:{self.line}:{self.column}")
        super().__init__(f"{place}: {one_line(reason)}\n{source.excerpt(span)}", hint=hint)

    def details(self) -> Mapping[str, object]:
        return {"rule": self.rule, "file": self.file, "line": self.line, "column": self.column}


class UnknownQueryError(NotFoundError):
    """The file has no query of this name."""

    def __init__(self, file: str, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self.known = known
        listed = ", ".join(known) if known else "none"
        super().__init__(f"{file} has no query '{name}'", hint=f"queries are: {listed}")

    def details(self) -> Mapping[str, object]:
        return {"name": self.name, "known": list(self.known)}


class QueryChoiceError(UsageError):
    """No query was named, or it was run by the wrong command."""


class ParameterError(BadDataError):
    """A parameter value that cannot be bound; `expected` is the declared type."""

    def __init__(
        self,
        name: str,
        reason: str,
        *,
        expected: str | None = None,
        hint: str | None = None,
        field: str | None = None,
    ) -> None:
        self.name = name
        self.expected = expected
        self.reason = reason
        super().__init__(f"parameter '{name}': {reason}", hint=hint, field=field)

    def details(self) -> Mapping[str, object]:
        return {"parameter": self.name, "expected": self.expected}


class UnfitValueError(BadDataError):
    """A value that no column of the type can hold, known only when the query runs."""

    def __init__(self, property_name: str, reason: str) -> None:
        self.property = property_name
        self.reason = reason
        super().__init__(f"property '{property_name}': {reason}")

    def details(self) -> Mapping[str, object]:
        return {"violations": [{"property": self.property, "message": self.reason}]}
