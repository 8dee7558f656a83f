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
        file = parse_queries(self.source, self.source_name)
        query = choose_query(file, self.name)
        checked = check_query(query, schema, file.source)
        given = {**(self.params or {}), **read_param_texts(query.parameters, self.param_texts)}
        return checked, bind_params(query.parameters, given)
