"""Which query of a file to run, and whether as a read or as a mutation."""

from __future__ import annotations

from omnigraph_core.query.checked import CheckedMutation, CheckedQuery, CheckedRead
from omnigraph_core.query.errors import QueryChoiceError, UnknownQueryError
from omnigraph_core.query.syntax import Query, QueryFile


def choose_query(file: QueryFile, name: str | None = None) -> Query:
    """The query of this name; without one, the only query of the file."""
    known = tuple(query.name for query in file.queries)
    if name is not None:
        for query in file.queries:
            if query.name == name:
                return query
        raise UnknownQueryError(file.source.name, name, known)
    if len(known) != 1:
        count = f"{len(known)} queries; name the one to run" if known else "no query"
        hint = f"queries are: {', '.join(known)}" if known else None
        raise QueryChoiceError(f"{file.source.name} has {count}", hint=hint)
    return file.queries[0]


def as_read(checked: CheckedQuery) -> CheckedRead:
    if isinstance(checked, CheckedRead):
        return checked
    raise QueryChoiceError(f"query '{checked.name}' is a mutation", hint="run it with `omnigraph change`")


def as_mutation(checked: CheckedQuery) -> CheckedMutation:
    if isinstance(checked, CheckedMutation):
        return checked
    raise QueryChoiceError(f"query '{checked.name}' is a read", hint="run it with `omnigraph query`")
