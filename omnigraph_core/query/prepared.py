"""From a source text to a query that is ready to run: parsed, chosen, checked, its parameters bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omnigraph_core.query.check import check_query
from omnigraph_core.query.checked import CheckedQuery
from omnigraph_core.query.choice import choose_query
from omnigraph_core.query.params import BoundParams, bind_params, read_param_texts
from omnigraph_core.query.parser import parse_queries
from omnigraph_core.records import dataclass
from omnigraph_core.schema import Schema

# A process reads few schemas of a graph at a time; each is checked against once.
_SCHEMAS_MAX = 8


class PreparedQuery:
    """One query of a source, parsed once and checked once against each schema that it is run with.

    It holds no data and belongs to no state of a graph. What is wrong with it is raised when it is
    made, or by the first run against a schema that does not have what it names.
    """

    def __init__(self, source: str, *, name: str | None = None, source_name: str = "<query>") -> None:
        self._file = parse_queries(source, source_name)
        self._query = choose_query(self._file, name)
        self._checked: list[tuple[Schema, CheckedQuery]] = []

    @property
    def name(self) -> str:
        return self._query.name

    def checked(self, schema: Schema) -> CheckedQuery:
        """Checked against a schema, which is told by what it is and not by its name."""
        for known, checked in self._checked:
            if known is schema:
                return checked
        checked = check_query(self._query, schema, self._file.source)
        self._checked = [*self._checked[1 - _SCHEMAS_MAX :], (schema, checked)]
        return checked

    def bound(self, params: Mapping[str, Any] | None, param_texts: Sequence[str] = ()) -> BoundParams:
        given = {**(params or {}), **read_param_texts(self._query.parameters, param_texts)}
        return bind_params(self._query.parameters, given)


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """What a caller asks to run. `param_texts` are `K=V`, read by the declared types."""

    source: str
    source_name: str = "<query>"
    name: str | None = None
    params: Mapping[str, Any] | None = None
    param_texts: Sequence[str] = ()

    def prepare(self, schema: Schema) -> tuple[CheckedQuery, BoundParams]:
        """Raises for anything wrong with the request, before data is read or written."""
        prepared = PreparedQuery(self.source, name=self.name, source_name=self.source_name)
        return prepared.checked(schema), prepared.bound(self.params, self.param_texts)
